package estimate

import (
	"math"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
)

// promptsSampled is the maximum number of prompts that are built, over all phases.
const promptsSampled = 200

// BytesPerToken is the assumed number of bytes of a prompt per token. English prose has about 4, code and JSON about
// 3, so the estimate is rather high.
const BytesPerToken = 3.2

// Assumed tokens of an answer, if no number is configured. They allow for a winner with one to three sentences of
// reason, the same for each criterion, and a page or two of prose.
const (
	TokensPerComparison = 90
	TokensPerCriterion  = 70
	TokensPerPreference = 30 // of a comparison by one criterion, which has no reason of its own
	TokensPerDegree     = 8
	TokensPerListedRun  = 1000
)

// prompts holds statistics of the prompts that were built.
type prompts struct {
	count  int
	bytes  int64
	shown  int64 // bytes of the documents in them
	frames int64 // bytes of the prompts that ask for the JSON of an answer, without the answer

	images []eval.Shown // in them
	levels []level      // their beginnings that repeat
}

// tokens returns the estimated input tokens of a number of calls of a model with these capabilities.
func (p prompts) tokens(calls int, can providers.Capabilities) int64 {
	images := int64(0)
	for _, image := range p.images {
		images += can.ImageTokens(image.Width, image.Height)
	}
	tokens := p.share(p.bytes, calls)
	if images > 0 {
		tokens += images * int64(calls) / int64(p.count)
	}
	return tokens
}

func (p prompts) share(bytes int64, calls int) int64 {
	if p.count == 0 {
		return 0
	}
	return int64(math.Ceil(float64(bytes) / float64(p.count) / BytesPerToken * float64(calls)))
}

// second returns the calls that write the JSON of a judge's answers, and the model that they go to. They read the
// answer and the requirements, and write as much as the answer has.
func second(q Question, first Part, p prompts) (eval.Judge, Part) {
	j := q.Evaluation.Jsonify
	writer := eval.Judge{Provider: j.Provider, Model: j.Model}
	part := Part{Kind: first.Kind, Judge: "JSON by " + writer.Target(), Calls: first.Calls}
	part.Input = p.share(p.frames, first.Calls) + first.Output
	if j.MaxOutputTokens > 0 {
		writer.Overrides = map[string]any{"max_completion_tokens": float64(j.MaxOutputTokens)}
	}
	part.Output, part.OutputBound = output(q, first.Kind, writer, first.Calls)
	return writer, part
}

// samplePrompts builds the prompts of at most n runs that are spread over the plan. It skips runs without a call.
func samplePrompts(q Question, p *plan.Plan, n int) (prompts, error) {
	var found prompts
	shown := q.Evaluation.Shown(p.Kind())
	for i := range min(n, p.Runs()) {
		run := p.Run(spread(i, n, p.Runs()))
		if same(q.Evaluation, p.Kind(), run) {
			continue
		}
		built, err := prompt.Build(
			q.Evaluation, p.Kind(),
			prompt.About{First: run.First, Second: run.Second, Judge: run.Judge, Dimensions: []int{run.Dimension}}, q.Texts,
		)
		switch {
		case err != nil && p.Kind() == eval.KindPrompts: // this run makes no call
			continue
		case err != nil:
			return prompts{}, err
		}
		found.bytes += length(built.Messages)
		for _, m := range built.Messages {
			found.images = append(found.images, m.Images...)
		}
		found.begin(built)
		found.shown += int64(shown[run.First].Bytes)
		if run.Second >= 0 {
			found.shown += int64(shown[run.Second].Bytes)
		}
		if q.Evaluation.JSONOf(p.Kind()) != eval.JSONFalse {
			found.bytes += int64(len(built.Schema)) // sent again beside the messages
		}
		if built.Schema != nil {
			found.frames += length(built.Jsonify("")) + int64(len(built.Schema))
		}
		found.count++
	}

	return found, nil
}

func length(messages []eval.Message) (bytes int64) {
	for _, m := range messages {
		bytes += int64(len(m.Content))
	}
	return bytes
}

// spread returns the i-th of n positions in [0, runs). The golden ratio spaces them evenly, without a period that
// could coincide with one of the plan. For example, every second run shows the same pair in the other order.
func spread(i, n, runs int) int {
	if runs <= n {
		return i
	}
	_, share := math.Modf(float64(i) * math.Phi)
	return int(share * float64(runs))
}

// output returns the expected output tokens of a judge's answers, and their maximum; 0 if there is none.
func output(q Question, kind eval.Kind, judge eval.Judge, calls int) (assumed, bound int64) {
	each := q.TokensOut
	if each == 0 {
		switch kind {
		case eval.KindPairwise:
			p := q.Evaluation.Pairwise
			each = TokensPerComparison + TokensPerPreference*len(p.Criteria)
			if p.Degrees > 0 {
				each += TokensPerDegree * (1 + len(p.Criteria))
			}
		case eval.KindSingle:
			each = TokensPerCriterion * criteriaPerRun(q.Evaluation)
		case eval.KindPanel:
			each = TokensPerCriterion
			if together(q, kind, judge) {
				each *= len(q.Evaluation.Panel.Dimensions)
			}
		case eval.KindRuns, eval.KindPrompts:
			each = TokensPerListedRun
		}
	}

	most, bounded := judge.Overrides["max_completion_tokens"].(float64)
	if bounded {
		each = min(each, int(most))
		bound = int64(calls) * int64(most)
	}
	return int64(calls) * int64(each), bound
}

// criteriaPerRun returns on how many criteria a judge scores a document, on average and rounded up.
func criteriaPerRun(e *eval.Evaluation) int {
	if !e.Single.Rubric {
		return len(e.Single.Criteria)
	}
	all := 0
	for _, d := range e.Documents {
		all += len(e.Items[d.Item].Rubric)
	}
	return (all + len(e.Documents) - 1) / max(1, len(e.Documents))
}
