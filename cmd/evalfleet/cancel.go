package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
)

func cancelCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "Cancel an evaluation; recorded results are kept",
		ArgsUsage: "ID|DIR",
		Description: "Cancels all runs that have not ended. Calls in flight may finish, because they are already paid for, but their " +
			"results are discarded. DIR is the output folder of an `evalfleet run` in progress, which then ends with a " +
			"report on the recorded results. On a terminal it asks for confirmation.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: forceFlag, Usage: "do not ask for confirmation"}},
		Action: func(c *cli.Context) error {
			return p.steer(c, func(t *fleet.Target) (string, error) {
				if c.Bool(forceFlag) {
					return t.Cancel(c.Context)
				}

				question := fmt.Sprintf("Cancel %s? Its unfinished runs are cancelled; this cannot be undone.", t.Name)
				yes, asked, err := terminal.Confirm(c.Context, p.stdin, t.Screen, question)
				switch {
				case err != nil:
					return "", failure.With(failure.Interrupted, errors.New("interrupted: nothing was cancelled"))
				case asked && !yes:
					return "", usageError("nothing was cancelled")
				}

				return t.Cancel(c.Context)
			})
		},
	}
}
