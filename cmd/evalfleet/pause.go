package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/fleet"
)

func pauseCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "Pause an evaluation",
		ArgsUsage: "ID|DIR",
		Description: "Calls in flight finish and are recorded; no further calls start. `evalfleet resume` continues the evaluation. " +
			"So does submitting it again, optionally with other limits. DIR is the output folder of an `evalfleet run` in " +
			"progress.",
		Action: func(c *cli.Context) error {
			return p.steer(c, func(t *fleet.Target) (string, error) { return t.Pause(c.Context) })
		},
	}
}
