package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
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
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.Client.Close()

			if !c.Bool(forceFlag) {
				yes, asked, err := terminal.Confirm(
					c.Context, p.stdin, t.Screen,
					fmt.Sprintf("Cancel %s? Its unfinished runs are cancelled; this cannot be undone.", t.Name),
				)
				if err != nil {
					return withCode(exitInterrupted, errors.New("interrupted: nothing was cancelled"))
				}
				if asked && !yes {
					return usageError("nothing was cancelled")
				}
			}

			said, err := t.Cancel(c.Context)
			return printChange(t, said, err)
		},
	}
}
