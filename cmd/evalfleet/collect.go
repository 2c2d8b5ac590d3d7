package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/results"
)

const followFlag = "follow"

func collectCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "collect",
		Usage:     "Drain results from Redis into the results store",
		ArgsUsage: "[ID]",
		Description: "Drains one evaluation, or all in Redis, into the results store: results.db in the output folder, unless the " +
			"submission named another. Passwords come from PGPASSWORD or ~/.pgpass. A result is removed from Redis only " +
			"after it is stored. An evaluation has one results store; collecting into another is an error.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: followFlag, Usage: "keep collecting until the evaluation is complete or Ctrl-C"}},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("collect takes one ID or none, got %d", c.Args().Len())
			}
			d, err := p.openDrain(c, 0, false)
			if err != nil {
				return err
			}
			defer d.Client.Close()
			return goOnWith(d.Collect(c.Context, eval.ID(c.Args().First()), c.Bool(followFlag)), p.again(c))
		},
	}
}

// goOnWith adds the command that resumes after an interruption, or once Redis or the disk is
// usable again. It cannot restore an evaluation that Redis has lost.
func goOnWith(err error, command string) error {
	if errors.Is(err, results.ErrNoEvaluation) {
		return err
	}
	if code := codeOf(err); code == exitInterrupted || code == exitUnreachable {
		return withCode(code, fmt.Errorf("%w; resume with: %s", err, command))
	}
	return err
}
