package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

const followFlag = "follow"

func collectCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "collect",
		Usage:     "Drain results from Redis into the results store, and rank what has ended",
		ArgsUsage: "[ID]",
		Description: "Drains one evaluation, or all in Redis, into the results store: results.db in the output folder, unless the " +
			"submission named another. When an evaluation has ended, writes report.html and the other files into the output folder, " +
			"and prints who won. Passwords come from PGPASSWORD or ~/.pgpass. A result is removed from Redis only " +
			"after it is stored. An evaluation has one results store; collecting into another is an error.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: followFlag, Usage: "keep collecting until the evaluation is complete or Ctrl-C"},
			&cli.BoolFlag{Name: openFlag, Usage: "then open the report in a browser, also before the end; needs an ID"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("collect takes one ID or none, got %d", c.Args().Len())
			}

			id := eval.ID(c.Args().First())
			if c.Bool(openFlag) && id == "" {
				return usageError("--%s needs the ID of an evaluation: evalfleet collect ID --%s", openFlag, openFlag)
			}
			d, err := p.openConnection(c, false)
			if err != nil {
				return err
			}
			defer d.Close()
			shown := false
			d.Ended = func(built *report.Report, dir string, files []string) error {
				shown = true
				if err := p.printing(c).print(p.stdout, built, dir, files); err != nil {
					return err
				}
				p.printing(c).show(c.Context, files)
				return nil
			}
			if err := withResumeCommand(d.Collect(c.Context, id, c.Bool(followFlag)), p.again(c)); err != nil || shown || !c.Bool(openFlag) {
				return err
			}
			return p.openReport(c, d, id)
		},
	}
}

// openReport writes the report of the results collected so far, and opens it.
func (p *process) openReport(c *cli.Context, d *fleet.Connection, id eval.ID) error {
	reader, id, dir, err := d.Reader(c.Context, id)
	if err != nil {
		return err
	}
	defer reader.Close()
	built, err := report.Build(c.Context, reader, id, report.Options{})
	if err != nil {
		return err
	}
	page, err := outdir.WriteReport(c.Context, dir, reader, built, outdir.HTML)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, page[0])
	p.printing(c).show(c.Context, page)
	return nil
}

// withResumeCommand adds the command that resumes after an interruption, or once Redis or the disk is
// usable again. It cannot restore an evaluation that Redis has lost.
func withResumeCommand(err error, command string) error {
	if errors.Is(err, results.ErrNoEvaluation) {
		return err
	}
	if code := codeOf(err); code == exitInterrupted || code == exitUnreachable {
		return failure.With(kindOf(err), fmt.Errorf("%w; resume with: %s", err, command))
	}
	return err
}
