package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/failure"
)

func validateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "Check an evaluation file",
		ArgsUsage: "FILE…",
		Description: "Reads an evaluation file with its documents, templates and pairs as `run` would, without making calls. Prints " +
			"every problem with its position and the fix, and exits with 2. If there are none, prints a summary: the " +
			"questions, the judges and the number of runs. Says what files of answers contain, and how to rank them.",
		Flags: append(inputFlags(), judgeOption()),
		Action: func(c *cli.Context) error {
			if looked, err := p.look(c); looked || err != nil {
				return err
			}
			asked, err := p.request(c, false)
			if err != nil {
				return err
			}
			return asked.each(func(s *config.Submission) error { return p.validate(c, s) })
		},
	}
}

// look describes files of answers for which no judge is named. looked is false for other inputs.
func (p *process) look(c *cli.Context) (looked bool, err error) {
	if c.IsSet(judgeFlag) || !c.Args().Present() && !c.IsSet(fileFlag) {
		return false, nil
	}
	inputs, err := p.inputs(c, false)
	if err != nil || inputs[0].Kind != config.AnswersFile || inputs[0].Folder {
		return false, err
	}
	text, warnings, err := inputs[0].Look(config.Options{AllowOutside: c.Bool(allowOutsideFlag)})
	if err != nil {
		return true, err
	}
	p.warn(warnings)
	_, err = fmt.Fprint(p.stdout, p.folded(text))
	return true, err
}

func (p *process) validate(c *cli.Context, s *config.Submission) error {
	if s.Anchors != nil {
		if err := p.validate(c, s.Anchors); err != nil {
			return err
		}
	}
	text, plans, err := summary(s)
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	large, err := estimate.OverWindows(estimate.Question{
		Evaluation: s.Evaluation, Plans: plans, Texts: s.Texts, Settings: s.Settings, Capabilities: s.Capabilities,
	})
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	for _, prompts := range large {
		fmt.Fprintf(p.stderr, "evalfleet: warning: %s\n", prompts)
	}

	p.warnOfOldPrices(estimate.OldPrices(p.now(), s.Settings))
	p.sayQueues(s)
	if err := p.sayKnown(c, s); err != nil {
		return err
	}
	if _, err = fmt.Fprint(p.stdout, p.folded(text+"\n")); err != nil || s.Judging == nil {
		return err
	}
	return p.validate(c, s.Judging.Planned)
}

// fleet reads --config, and prints its warnings.
func (p *process) fleet(file string) (*config.Fleet, error) {
	fleet, err := config.LoadFleet(file)
	if err != nil {
		return nil, err
	}
	if err := fleet.Endpoints(p.env, p.keys); err != nil {
		return nil, err
	}
	p.warn(fleet.Warnings)
	return fleet, nil
}

func (p *process) warn(warnings []config.Problem) {
	for _, line := range config.Problems(warnings).Listed("warning") {
		fmt.Fprintln(p.stderr, "evalfleet: warning: "+line)
	}
}

// summary describes in one paragraph what a submission asks. It returns its plans, too.
func summary(s *config.Submission) (string, []*plan.Plan, error) {
	_, plans, err := enqueue.Plan(s.Evaluation.ID(), s.Evaluation, s.Settings)
	if err != nil {
		return "", nil, err
	}
	text, err := s.Summary(plans)
	return text, plans, err
}
