package main

import (
	"bytes"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

const dryRunFlag = "dry-run"

func dryRunOption() cli.Flag {
	return commandline.OptionalInt{IntFlag: &cli.IntFlag{
		Name:  dryRunFlag,
		Usage: "print the first prompts of each phase and judge, `N` in total (default 3); send and store nothing",
	}, Alone: "3"}
}

// dryRun prints prompts as they would be sent to judges.
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
		return failure.With(failure.Usage, err)
	}
	var text bytes.Buffer
	shown, err := plain.Prompts{Evaluation: e, Plans: plans, Texts: s.Texts, TwoCalls: s.TwoCalls}.Write(&text, n)
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	if _, err := text.WriteTo(p.stdout); err != nil {
		return err
	}
	runs := 0
	for phase, one := range plans {
		if !plan.Recorded(e, phase) {
			runs += one.Runs()
		}
	}
	_, err = fmt.Fprintf(p.stderr, "evalfleet: %d of %s shown; nothing was sent or stored\n", shown, wording.Counted(runs, "run"))
	return err
}
