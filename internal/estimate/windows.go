package estimate

import (
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// TooLarge counts a judge's prompts in a phase that exceed the context window of its model.
type TooLarge struct {
	Kind    eval.Kind `json:"kind"`
	Judge   string    `json:"judge"`
	Window  int       `json:"context_window"` // tokens
	Runs    int       `json:"runs"`
	Prompts int       `json:"prompts"` // prompts that exceed the window; estimated like input tokens
	Largest int       `json:"largest_tokens"`
}

// String returns a sentence about them.
func (t TooLarge) String() string {
	return fmt.Sprintf("%s of %s to %s are larger than its context window of %s tokens, the largest has about %s",
		wording.Count(t.Prompts), wording.Counted(t.Runs, string(t.Kind)+" prompt"), harmless.OneLine(t.Judge),
		wording.Count(t.Window), wording.Count(t.Largest))
}

// OverWindows counts the prompts that exceed their models' known context windows. It returns an error if a prompt
// cannot be built.
func OverWindows(q Question) ([]TooLarge, error) {
	all := []TooLarge{}
	if q.Capabilities == nil {
		return all, nil
	}
	for _, p := range q.Plans {
		sampled, err := samplePrompts(q, p, promptsSampled/len(q.Plans))
		if err != nil {
			return nil, fmt.Errorf("estimate the %s phase: %w", p.Kind(), err)
		}
		all = append(all, overWindows(q, p, sampled)...)
	}
	return all, nil
}

// overWindows counts the prompts of one phase. It takes the size of the text around the documents from the sampled
// prompts.
func overWindows(q Question, p *plan.Plan, sampled prompts) []TooLarge {
	judges, shown := q.Evaluation.JudgesOf(p.Kind()), q.Evaluation.Shown(p.Kind())
	if sampled.count == 0 || len(shown) == 0 {
		return nil
	}
	frame := max(0, sampled.bytes-sampled.shown) / int64(sampled.count)
	tokens := func(bytes int64) int { return int(float64(bytes+frame) / BytesPerToken) }
	able := make([]providers.Capabilities, len(judges))
	for i, judge := range judges {
		able[i] = q.capabilities(judge)
	}
	sizes := make([]int64, len(shown))
	for i, document := range shown {
		sizes[i] = int64(document.Bytes)
		for _, image := range document.Images { // by the greediest of the models
			most := int64(0)
			for _, model := range able {
				most = max(most, model.ImageTokens(image.Width, image.Height))
			}
			sizes[i] += int64(float64(most) * BytesPerToken)
		}
	}

	// Usually, not even the two largest documents are too large. Then no run needs to be checked.
	largest := tokens(2 * slices.Max(sizes))
	counts := make([]TooLarge, len(judges))
	any := false
	for i, judge := range judges {
		counts[i] = TooLarge{Kind: p.Kind(), Judge: judge.Name, Window: able[i].ContextWindow}
		any = any || counts[i].Window > 0 && largest > counts[i].Window
	}
	if !any {
		return nil
	}
	for index := range p.Runs() {
		run := p.Run(index)
		if same(q.Evaluation, p.Kind(), run) {
			continue
		}
		bytes := sizes[run.First]
		if run.Second >= 0 {
			bytes += sizes[run.Second]
		}
		of := &counts[run.Judge]
		if of.Runs++; of.Window > 0 && tokens(bytes) > of.Window {
			of.Prompts++
			of.Largest = max(of.Largest, tokens(bytes))
		}
	}
	return slices.DeleteFunc(counts, func(t TooLarge) bool { return t.Prompts == 0 })
}
