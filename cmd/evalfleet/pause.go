package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/record"
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
			status, err := t.enqueuer().Pause(c.Context, t.id)
			if err != nil {
				return t.failure(c.Context, err)
			}
			return t.say(status, record.StatusPaused, fmt.Sprintf("is paused; `evalfleet resume %s` lets it go on", t.name))
		},
	}
}
