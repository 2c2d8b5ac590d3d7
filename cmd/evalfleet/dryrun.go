package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/commandline"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/view/show"
)

const dryRunFlag = "dry-run"

func dryRunOption() cli.Flag {
	return commandline.OptionalInt{IntFlag: &cli.IntFlag{
		Name:  dryRunFlag,
		Usage: "print the first prompts of each phase and judge, `N` in total (default 3), without sending or storing anything",
	}, Alone: "3"}
}

// dryRun prints prompts as judges would be sent them.
func (p *process) dryRun(c *cli.Context, forFleet bool) error {
	n := c.Int(dryRunFlag)
	if n < 1 {
		return usageError("--%s must be at least 1, got %d", dryRunFlag, n)
	}
	asked, err := p.request(c, forFleet)
	if err != nil {
		return err
	}
	return asked.each(func(s *config.Submission) error { return p.dryRunOf(s, n) })
}

// dryRunOf prints the first n prompts of an evaluation.
func (p *process) dryRunOf(s *config.Submission, n int) error {
	e := s.Evaluation
	_, plans, err := enqueue.Plan(e.ID(), e, s.Settings)
	if err != nil {
		return withCode(exitUsage, err)
	}
	var text bytes.Buffer
	chosen := firstRuns(e, plans, n)
	for _, run := range chosen {
		if err := writePrompt(&text, s, run); err != nil {
			return withCode(exitUsage, err)
		}
	}
	if _, err := text.WriteTo(p.stdout); err != nil {
		return err
	}
	runs := 0
	for _, plan := range plans {
		runs += plan.Runs()
	}
	_, err = fmt.Fprintf(p.stderr, "evalfleet: %d of %s shown; nothing was sent or stored\n", len(chosen), wording.Counted(runs, "run"))
	return err
}

// plannedRun is a run and its phase.
type plannedRun struct {
	plan.Run
	phase int
	kind  eval.Kind
	open  bool // it represents one of its phase, whose documents are not chosen yet
}

// firstRuns chooses n runs for which a judge is called: the first of each phase
// and judge, then the second of each, and so on.
func firstRuns(e *eval.Evaluation, plans []*plan.Plan, n int) []plannedRun {
	var chosen []plannedRun
	type line struct{ phase, judge, next int } // next: the index to look at
	var lines []line
	for phase, p := range plans {
		for judge := range e.Asked(p.Kind()) {
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

// writePrompt writes one run's prompt and the settings that go with it.
func writePrompt(to io.Writer, s *config.Submission, run plannedRun) error {
	e := s.Evaluation
	built, err := prompt.Build(e, run.kind, prompt.About{First: run.First, Second: run.Second, Judge: run.Judge, Dimensions: []int{run.Dimension}}, s.Texts)
	if err != nil && run.kind != eval.KindPrompts {
		return err
	}
	judge, shown := e.Asked(run.kind)[run.Judge], e.Shown(run.kind)
	documents := shown[run.First].ID
	if run.Second >= 0 {
		documents += ", then " + shown[run.Second].ID
	}
	if run.open {
		documents += " (an example: which are compared is chosen from results)"
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
		_, err = fmt.Fprintf(to, "\nno call is made, and the run fails: %v\n\n", err)
		return err
	}
	if s.TwoCalls(run.kind, judge) {
		writeMessages(to, built.Prose())
		fmt.Fprintf(to, "\n=== and of its answer, asked of %s:%s\n", e.Jsonify.Provider, e.Jsonify.Model)
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
