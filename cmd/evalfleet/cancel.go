package main

import (
	"github.com/urfave/cli/v2"
)

func cancelCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end an evaluation for good; what is recorded stays",
		ArgsUsage: "ID|DIR",
		Description: "Every run that has not ended is cancelled. Calls in flight may end, because they are paid for, " +
			"but change no result. DIR is the output folder of an `evalfleet run` that is going on: it ends, too, with a report on what there is.",
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
