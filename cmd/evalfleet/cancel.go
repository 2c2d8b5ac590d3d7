package main

import (
	"github.com/urfave/cli/v2"
)

func cancelCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "Cancel an evaluation; recorded results are kept",
		ArgsUsage: "ID|DIR",
		Description: "Cancels all runs that have not ended. Calls in flight may finish, because they are already paid for, but their " +
			"results are discarded. DIR is the output folder of an `evalfleet run` in progress, which then ends with a " +
			"report on the recorded results.",
		Action: func(c *cli.Context) error {
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.client.Close()
			return t.tell(t.cancel(c.Context))
		},
	}
}
