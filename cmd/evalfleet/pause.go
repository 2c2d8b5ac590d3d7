package main

import (
	"github.com/urfave/cli/v2"
)

func pauseCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "begin no more runs of an evaluation until it is resumed",
		ArgsUsage: "ID|DIR",
		Description: "Calls in flight may end and are recorded; no other begins. " +
			"`evalfleet resume` lets it go on, and so does submitting it again, with other limits where those were changed. " +
			"DIR is the output folder of an `evalfleet run` that is going on.",
		Action: func(c *cli.Context) error {
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.client.Close()
			return t.tell(t.pause(c.Context))
		},
	}
}
