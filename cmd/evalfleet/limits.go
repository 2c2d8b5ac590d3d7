package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

func limitsCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "limits",
		Usage:     "Show limits, their use, and which one calls wait for",
		ArgsUsage: "[ID|DIR]",
		Description: "Shows the limits in force in the fleet's Redis: all of them, or those that apply to one evaluation. With an " +
			"output folder, shows the run in progress there; after its end, the limits that applied and how long calls " +
			"waited for each. Request rates come with the redis_rate.Limit that other programs can use to share them through " +
			"the same Redis.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("limits takes one ID or folder or none, got %d", c.Args().Len())
			}

			s, err := p.source(c, c.Args().First())
			if err != nil {
				return err
			}
			defer s.Close()
			watched := fleet.NewLimits(s)
			return p.showFrames(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				limits, err := watched.Read(ctx, now)
				if err != nil {
					return "", false, err
				}
				if c.Bool(jsonFlag) {
					text, err := asJSON(limits, c.Bool(watchFlag))
					return text, limits.Ended, err
				}
				return plain.Limits(limits, now, p.columns(p.stdout)), limits.Ended, nil
			})
		},
	}
}
