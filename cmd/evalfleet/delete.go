package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const forceFlag = "force"

func deleteCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "Delete an evaluation from Redis",
		ArgsUsage: "ID",
		Description: "Deletes everything about an evaluation from Redis. The results store is kept. Workers drop its runs. If results " +
			"have not been collected, the command asks for confirmation. Stop an `enqueue --wait` for the evaluation first, " +
			"because it would submit it again.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: forceFlag, Usage: "do not ask for confirmation, even if uncollected results are lost"}},
		Action: func(c *cli.Context) error {
			argument, err := oneArgument(c, c.Command.ArgsUsage)
			if err != nil {
				return err
			}
			if outdir.Is(argument) {
				return usageError(
					"delete takes the ID of an evaluation in a fleet's Redis; to end the run in that folder, use `evalfleet cancel %s`",
					argument,
				)
			}

			return p.steer(c, func(t *fleet.Target) (string, error) {
				waiting, err := t.Uncollected(c.Context)
				if err == nil && waiting > 0 && !c.Bool(forceFlag) {
					err = p.mayLose(c.Context, t, waiting)
				}
				if err != nil {
					return "", err
				}

				return fmt.Sprintf("%s is deleted", t.ID), t.Delete(c.Context)
			})
		},
	}
}

// mayLose returns an error unless the user confirms that results that were not collected may be deleted.
func (p *process) mayLose(ctx context.Context, t *fleet.Target, waiting int64) error {
	what := fmt.Sprintf("%s of %s have not been collected", wording.Counted(int(waiting), "result"), t.ID)
	asked, err := p.confirm(ctx, t.Screen, what+" and would be lost. Delete anyway?", "nothing was deleted")
	if !asked {
		return usageError("%s and would be lost: `evalfleet collect %s` first, or --%s", what, t.ID, forceFlag)
	}
	return err
}
