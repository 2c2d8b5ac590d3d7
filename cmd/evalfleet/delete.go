package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/wording"
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
			if folder.Is(argument) {
				return usageError("delete takes the ID of an evaluation in a fleet's Redis; to end the run in that folder, use `evalfleet cancel %s`", argument)
			}
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.client.Close()
			waiting, err := t.uncollected(c.Context)
			if err != nil {
				return err
			}
			if waiting > 0 && !c.Bool(forceFlag) {
				if err := t.mayLose(c.Context, p.stdin, waiting); err != nil {
					return err
				}
			}
			alive, err := t.limiter().Alive(c.Context)
			if err != nil {
				return withCode(exitUnreachable, err)
			}
			if err := t.enqueuer().Delete(c.Context, t.id, anyAlive(alive)); err != nil {
				return t.failure(c.Context, err)
			}
			_, err = fmt.Fprintf(t.console, "%s is deleted\n", t.id)
			return err
		},
	}
}

func anyAlive(workers map[string]bool) bool {
	for _, alive := range workers {
		if alive {
			return true
		}
	}
	return false
}

// uncollected is how many results of an evaluation that is there wait to be
// collected.
func (t *target) uncollected(ctx context.Context) (int64, error) {
	standings, err := t.store.Standings(ctx, []eval.ID{t.id})
	if err != nil {
		return 0, withCode(exitUnreachable, err)
	}
	standing := standings[t.id]
	if standing.Status == "" {
		// What an interrupted deletion left may be deleted on.
		if ids, err := t.store.Evaluations(ctx); err != nil || !slices.Contains(ids, t.id) {
			return 0, unknownEvaluation(ctx, t.store, t.id)
		}
	}
	return standing.Waiting, nil
}

// mayLose asks before deleting results that were not collected.
func (t *target) mayLose(ctx context.Context, stdin io.Reader, waiting int64) error {
	what := fmt.Sprintf("%s of %s have not been collected", wording.Counted(int(waiting), "result"), t.id)
	yes, asked, err := confirm(ctx, stdin, t.console, what+" and would be lost. Delete anyway?")
	switch {
	case err != nil:
		return withCode(exitInterrupted, errors.New("interrupted: nothing was deleted"))
	case !asked:
		return usageError("%s and would be lost: `evalfleet collect %s` first, or --%s", what, t.id, forceFlag)
	case !yes:
		return usageError("nothing was deleted")
	}
	return nil
}
