package plain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// Prompts writes an evaluation's prompts before anything is sent.
type Prompts struct {
	Evaluation *eval.Evaluation
	Plans      []*plan.Plan
	Texts      map[string]string                // of documents, by their hashes
	TwoCalls   func(eval.Kind, eval.Judge) bool // the judge answers in prose, which a second call turns into JSON
}

// Write writes the first prompts of each phase and judge, n in total, with the settings of their
// calls, and returns their number.
func (p Prompts) Write(to io.Writer, n int) (shown int, err error) {
	chosen := p.first(n)
	for _, run := range chosen {
		if err := p.write(to, run); err != nil {
			return 0, err
		}
	}
	return len(chosen), nil
}

type plannedRun struct {
	plan.Run
	phase int
	kind  eval.Kind
	open  bool // it represents the runs of its phase, whose documents are not chosen yet
}

// first selects n runs for which a judge is called: the first of each phase and judge, then the second of each, and so
// on.
func (p Prompts) first(n int) []plannedRun {
	e, plans := p.Evaluation, p.Plans
	var chosen []plannedRun
	type line struct{ phase, judge, next int } // next: the index to look at
	var lines []line
	for phase, p := range plans {
		if plan.Recorded(e, phase) {
			continue
		}
		for judge := range e.JudgesOf(p.Kind()) {
			lines = append(lines, line{phase: phase, judge: judge})
		}
	}

	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.judge, b.judge) })
	for found := true; found; {
		found = false
		for i := range lines {
			l := &lines[i]
			p := plans[l.phase]
			shown := e.Shown(p.Kind())
			for l.next < p.Runs() {
				run := p.Run(l.next)
				l.next++
				if run.Judge != l.judge || p.Kind() == eval.KindPairwise && shown[run.First].Hash == shown[run.Second].Hash {
					continue // another judge's, or a tie, for which no judge is asked
				}
				chosen, found = append(chosen, plannedRun{run, l.phase, p.Kind(), p.Open()}), true
				break
			}
			if len(chosen) == n {
				return chosen
			}
		}
	}

	return chosen
}

// write writes one run's prompt and the settings that go with it.
func (p Prompts) write(to io.Writer, run plannedRun) error {
	e := p.Evaluation
	built, err := prompt.Build(
		e, run.kind, prompt.About{First: run.First, Second: run.Second, Judge: run.Judge, Dimensions: []int{run.Dimension}},
		p.Texts,
	)
	if err != nil && run.kind != eval.KindPrompts {
		return err
	}

	judge, shown := e.JudgesOf(run.kind)[run.Judge], e.Shown(run.kind)
	documents := shown[run.First].ID
	if run.Second >= 0 {
		documents += ", then " + shown[run.Second].ID
	}
	if run.open {
		documents += " (an example: the pairs are chosen from results)"
	}
	id := eval.RunID{Evaluation: e.ID(), Phase: run.phase, Index: run.Index}
	if own := show.OwnID(e, run.kind, run.Index); own != "" {
		fmt.Fprintf(to, "=== run %s: %s\nmodel: %s\n", id.Short(), own, judge.Target())
	} else {
		fmt.Fprintf(to, "=== run %s: %s, trial %d\n", id.Short(), run.kind, run.Trial)
		fmt.Fprintf(to, "judge: %s (%s)\n", judge.Name, judge.Target())
	}

	if len(judge.Overrides) > 0 {
		overrides, err := json.Marshal(judge.Overrides)
		if err != nil {
			return fmt.Errorf("overrides of judge %s: %w", judge.Name, err)
		}
		fmt.Fprintf(to, "overrides: %s\n", overrides)
	}

	fmt.Fprintf(to, "documents: %s\n", documents)
	if err != nil {
		_, err = fmt.Fprintf(to, "\nno call is made; the run fails: %v\n\n", err)
		return err
	}

	if p.TwoCalls(run.kind, judge) {
		writeMessages(to, built.Prose())
		fmt.Fprintf(to, "\n=== second call, to %s:%s\n", e.Jsonify.Provider, e.Jsonify.Model)
		built.Messages = built.Jsonify("(the answer to the above)")
	}

	writeMessages(to, built.Messages)
	if w := built.Written; w != nil {
		for _, turn := range w.Turns[1:] {
			fmt.Fprint(to, "\n--- (the answer to the above)\n")
			writeMessages(to, turn)
		}
	}

	if e.JSONOf(run.kind) != eval.JSONFalse && built.Schema != nil {
		fmt.Fprintf(to, "\n--- schema %s\n%s\n", built.SchemaName, built.Schema)
	}
	_, err = fmt.Fprintln(to)
	return err
}

func writeMessages(to io.Writer, messages []eval.Message) {
	for _, m := range messages {
		fmt.Fprintf(to, "\n--- %s\n%s\n", m.Role, strings.TrimRight(m.Content, "\n"))
	}
}
