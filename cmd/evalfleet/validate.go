package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
)

func validateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check an evaluation file: every problem at once, each with its line and the fix",
		ArgsUsage: "FILE",
		Description: "Reads an evaluation file with its documents, templates and pairs as run would, and calls nobody. " +
			"Every problem is printed with its place and what would be right; the exit code is then 2. " +
			"A file without problems is summed up in one paragraph: what it asks, of whom, and in how many runs.",
		Action: func(c *cli.Context) error {
			file, err := oneArgument(c, "FILE")
			if err != nil {
				return err
			}
			return p.validate(file, c.String(configFlag))
		},
	}
}

func (p *process) validate(file, fleetFile string) error {
	fleet, err := p.fleet(fleetFile)
	if err != nil {
		return err
	}
	s, err := config.LoadEvaluation(file, config.Options{Env: p.env, Fleet: fleet})
	if err != nil {
		return err
	}
	text, err := summary(s)
	if err != nil {
		return withCode(exitUsage, err)
	}
	p.warn(s.Warnings)
	_, err = fmt.Fprintln(p.stdout, text)
	return err
}

// fleet reads --config, and says what is odd about it.
func (p *process) fleet(file string) (*config.Fleet, error) {
	fleet, err := config.LoadFleet(file)
	if err != nil {
		return nil, err
	}
	p.warn(fleet.Warnings)
	return fleet, nil
}

func (p *process) warn(warnings []config.Problem) {
	for _, w := range warnings {
		fmt.Fprintln(p.stderr, "evalfleet: warning: "+w.String())
	}
}

// summary is what a submission asks, in one paragraph.
func summary(s *config.Submission) (string, error) {
	e := s.Evaluation
	record, plans, err := enqueue.Plan(e.ID(), e, s.Settings)
	if err != nil {
		return "", err
	}
	bytes := 0
	for _, text := range s.Texts {
		bytes += len(text)
	}
	var judges, phases []string
	for _, judge := range e.Judges {
		name := judge.Name
		if name != judge.Target() {
			name += " (" + judge.Target() + ")"
		}
		judges = append(judges, name)
	}
	runs := 0
	for i, p := range plans {
		runs += p.Runs()
		phases = append(phases, fmt.Sprintf("%s of %s", record.Phases[i].Kind, count(p.Runs(), "run")))
	}
	return fmt.Sprintf("%s (%s): %s of %s (%s, %d bytes), judged by %s. %s: %s, %s in all.%s",
		e.Name, e.ID(), count(len(e.Documents), "document"), count(len(e.Items), "item"),
		count(len(s.Texts), "different text"), bytes, strings.Join(judges, ", "),
		count(len(plans), "phase"), strings.Join(phases, ", "), count(runs, "run"), inFlight(s)), nil
}

// inFlight says how many calls the evaluation may have in flight and who says so.
func inFlight(s *config.Submission) string {
	switch source := s.Settings.ConcurrencySource; source {
	case "fleet", "providers":
		return fmt.Sprintf(" Calls in flight are bounded by the %s.", source)
	default:
		for _, limit := range s.Settings.Limits {
			if limit.Evaluation != "" {
				return fmt.Sprintf(" At most %s in flight (%s).", count(int(limit.Max), "call"), source)
			}
		}
		return ""
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
