package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const waitFlag = "wait"

func enqueueCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "enqueue",
		Usage:     "Submit an evaluation to a fleet and print its id",
		ArgsUsage: "FILE…|FOLDER",
		Description: "Stores the plan, the documents and the first runs in Redis for the workers, and prints the evaluation's id as " +
			"the last line. Submitting the same evaluation again resumes it. With --wait, the command stays until all " +
			"results are in the results store, and then writes the output files. With until in the file, the evaluation ends as " +
			"soon as its best candidates are known: --wait, `evalfleet collect --follow` or a controller checks this.",
		Flags: append(submitFlags(), sinkFlag(),
			&cli.StringFlag{
				Name: serverFlag,
				Usage: "`URL` of a controller's pages that takes the evaluation instead of a Redis, such as " +
					"https://ann@evals.example.org (default --redis)",
			},
			&cli.BoolFlag{Name: waitFlag, Usage: "wait until all runs have ended, collect the results and write the output files"}),
		Action: func(c *cli.Context) error {
			if c.IsSet(dryRunFlag) {
				return p.dryRun(c, true)
			}
			on, err := failOnOf(c)
			if err != nil {
				return err
			}
			if c.IsSet(serverFlag) {
				return p.enqueueAt(c, on)
			}
			asked, err := p.request(c, true)
			if err != nil {
				return err
			}
			if err := p.grantCommands(c, asked); err != nil {
				return err
			}
			if asked.judges != nil && !c.Bool(waitFlag) {
				return usageError("--%s needs --%s: the judges start when the experiment has ended", judgeFolderFlag, waitFlag)
			}

			return p.inTurn(c, asked, func(s *config.Submission) ([]string, error) {
				if inParts(s) {
					return nil, p.enqueueParts(c, s, on)
				}
				if len(plan.Phases(s.Evaluation)) == 0 {
					return nil, usageError("no judges, so there is nothing to enqueue; `evalfleet run` ranks votes alone")
				}
				return p.enqueue(c, s, on, target{dir: outDir(c, s), store: storeURL(c, s)})
			})
		},
	}
}

// target says where the results of a submission belong.
type target struct {
	dir   string // output folder; empty: the evaluation's default one
	store string // URL of the results store; empty: results.db in the folder
	part  bool   // another part comes after it: its own result is not printed
}

// storeURL returns the results store that the command line or the file of a submission names; empty: none.
func storeURL(c *cli.Context, s *config.Submission) string {
	return cmp.Or(c.String(sinkFlagName), s.Sink)
}

// enqueueParts submits an evaluation file with several parts, each once the one before is collected.
func (p *process) enqueueParts(c *cli.Context, s *config.Submission, on failOn) error {
	all := parts{process: p, c: c, dir: evaluationDir(c, s), store: storeURL(c, s), failOn: on, retry: c.Bool(retryFailedFlag)}
	return all.do(c.Context, s, func(s *config.Submission, at part) error {
		_, err := p.enqueue(c, s, on, target{dir: at.dir, store: at.store, part: !at.last})
		return err
	})
}

func (p *process) enqueue(c *cli.Context, submission *config.Submission, on failOn, to target) (answers []string, err error) {
	d, err := p.openConnection(c, true)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	d.Dir, d.ResultsURL = to.dir, to.store
	if to.part { // its store is in the folder of the last part, and no flag names it
		saved, err := outdir.SavedURL(to.store)
		if err != nil {
			return nil, outdir.StoreError(err)
		}
		d.Allowed = append(d.Allowed, saved)
	}
	if err := p.own.NoteStore(d.ResultsURL); err != nil {
		d.Log.Debug().Err(err).Msg("cannot remember the results store; other commands need --" + allowSinkFlag)
	}
	if err := p.runCommands(c.Context, submission, d.Stored); err != nil {
		return nil, err
	}
	options := fleet.Options{Waits: c.Bool(waitFlag)}
	if c.Bool(retryFailedFlag) {
		options.Retry = fleet.EveryFailed
	}
	receipt, err := d.Submit(c.Context, submission, options)
	if errors.Is(err, store.ErrCancelled) {
		return nil, usageError("%w; `evalfleet delete %s` lets it be submitted again", err, submission.Evaluation.ID())
	}
	if err != nil {
		return nil, err
	}

	if receipt.Kept {
		fmt.Fprintf(
			d.Screen, "%s is active with other settings, which stay in force: run `evalfleet pause %s`, then submit it again\n",
			receipt.ID, receipt.ID,
		)
	}
	became, elsewhere := "enqueued", ""
	if !receipt.Created {
		if became, elsewhere, err = d.Known(c.Context, receipt.ID); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(d.Screen, "%s: %s in queues %v\n", became, wording.Counted(receipt.Runs, "run"), receipt.Queues)
	if elsewhere != "" {
		fmt.Fprintln(d.Screen, elsewhere+"; to get results there, submit it as a new evaluation with --again NAME")
	}
	if warning := d.Unserved(c.Context, submission); warning != "" {
		fmt.Fprintln(d.Screen, warning)
	}
	if c.Bool(waitFlag) {
		d.Again = p.again(c)
		if d.Place, err = placeOf(c, submission, ""); err != nil {
			return nil, err
		}
		collected, cancelled := d.Stay(c.Context, submission, receipt.ID, options)
		if cancelled != nil && !collect.IsEnding(cancelled) {
			return nil, withResumeCommand(cancelled, p.again(c))
		}
		answers, err = p.concludeIn(c, d, collected, on, to.part)
		if err = cmp.Or(cancelled, err); err != nil || to.part {
			return answers, err
		}
	}

	_, err = fmt.Fprintln(p.stdout, receipt.ID)
	return answers, err
}

// concludeIn writes the exports of a complete evaluation from its results store. It uses Redis only to store the
// result, because by now Redis may be unavailable, or have lost the evaluation. Of a part that is judged next, it prints
// nothing. answers are the paths of files with answers.
func (p *process) concludeIn(
	c *cli.Context, d *fleet.Connection, r record.Evaluation, on failOn, part bool,
) (answers []string, err error) {
	ctx := c.Context
	db, err := d.Open(ctx, r)
	if err != nil {
		return nil, d.Failure(err)
	}
	defer db.Close()
	place := d.Place
	place.Dir = d.FolderOf(r)
	err = conclude(ctx, conclusion{reader: db, id: r.ID, place: place, failOn: on, again: d.Again, answers: &answers, part: part,
		printing: p.printing(c), stdout: p.stdout, console: d.Screen,
		ended: func(built *report.Report) error {
			result := built.Result()
			result.Elsewhere = r.ResultsURL == ""
			return failure.With(failure.Unavailable,
				outage.Through(ctx, func(ctx context.Context) error { return d.Store.Conclude(ctx, r.ID, result) }))
		}})
	return answers, err
}

// openConnection connects to the fleet's Redis, for commands that collect results or only read; stays is as in examine.
func (p *process) openConnection(c *cli.Context, stays bool) (*fleet.Connection, error) {
	at, err := p.namedRedis(c)
	if err != nil {
		return nil, err
	}
	return p.connection(c, at, stays)
}

// namedRedis returns where the fleet's Redis is, for commands that need one.
func (p *process) namedRedis(c *cli.Context) (dial.Settings, error) {
	if c.String(redisFlag) == "" {
		return dial.Settings{}, usageError("%s needs the fleet's Redis: name it with --%s or REDIS_URL", c.Command.Name, redisFlag)
	}
	return p.fleetRedis(c)
}

// connection connects to the Redis at an address, for the results stores that the command line allows.
func (p *process) connection(c *cli.Context, at dial.Settings, stays bool) (*fleet.Connection, error) {
	d, redis, err := p.unconnected(c, at, 0)
	if err != nil {
		return nil, err
	}
	if err := redis.examine(c.Context, stays); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// unconnected returns what connection does, but does not connect to Redis yet. lease is as in open.
func (p *process) unconnected(c *cli.Context, at dial.Settings, lease time.Duration) (*fleet.Connection, *opened, error) {
	out, log, err := p.output(c)
	if err != nil {
		return nil, nil, err
	}
	allowed, err := p.allowedStores(c)
	if err != nil {
		return nil, nil, err
	}
	redis, err := open(at, c.String(namespaceFlag), roleOf(c), lease, log)
	if err != nil {
		return nil, nil, err
	}
	return &fleet.Connection{Store: redis.Store, Dir: c.String(outDirFlag), Allowed: allowed, Screen: out, Log: log}, redis, nil
}
