package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

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
				if !c.Bool(forceFlag) {
					question := fmt.Sprintf("Cancel %s? Its unfinished runs are cancelled; this cannot be undone.", t.Name)
					if _, err := p.confirm(c.Context, t.Screen, question, "nothing was cancelled"); err != nil {
						return "", err
					}
				}
				return t.Cancel(c.Context)
			})
		},
	}
}
