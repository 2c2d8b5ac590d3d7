package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/fleet"
)

const classFlag = "class"

func retryCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "Retry failed runs",
		ArgsUsage: "ID|DIR",
		Description: "Repeats the failed runs of an evaluation: all, or those of the given error classes. `evalfleet status DIR` " +
			"counts them by class. Classes come from the results store, so they are unknown for results not yet collected. " +
			"With the output folder of a finished `evalfleet run`, the command executes the runs itself, like resume.",
		Flags: append(workFlags(metricsOff), failOnOption(), detailsOption(), openOption(), sinkFlag(),
			&cli.StringSliceFlag{
				Name:  classFlag,
				Usage: "retry only runs that failed with this error `CLASS`, such as timeout; repeatable (default all)",
			}),
		Action: func(c *cli.Context) error {
			classes, err := classesOf(c)
			if err != nil {
				return err
			}

			going, err := p.going(c)
			if err != nil {
				return err
			}
			if !going {
				return p.continueRun(c, classes)
			}
			return p.steer(c, func(t *fleet.Target) (string, error) { return t.Retry(c.Context, classes, c.String(sinkFlagName)) })
		},
	}
}

// classesOf returns the error classes that the command line selects; an empty slice, not nil, if there are none.
func classesOf(c *cli.Context) ([]string, error) {
	classes := append([]string{}, c.StringSlice(classFlag)...)
	if err := fleet.CheckClasses(classes); err != nil {
		return nil, usageError("--%s: %w", classFlag, err)
	}
	return classes, nil
}
