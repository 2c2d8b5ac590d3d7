package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/terminal"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/view/plain"
)

const followFlag = "follow"

func collectCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "collect",
		Usage:     "Drain results from Redis into the results store",
		ArgsUsage: "[ID]",
		Description: "Drains one evaluation, or all in Redis, into the results store: results.db in the output folder, unless the " +
			"submission named another. Passwords come from PGPASSWORD or ~/.pgpass. A result is removed from Redis only " +
			"after it is stored. An evaluation has one results store; collecting into another is an error.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: followFlag, Usage: "keep collecting until the evaluation is complete or Ctrl-C"}},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("collect takes one ID or none, got %d", c.Args().Len())
			}
			d, err := p.openDrain(c, 0, false)
			if err != nil {
				return err
			}
			defer d.client.Close()
			return goOnWith(d.collect(c.Context, eval.ID(c.Args().First()), c.Bool(followFlag)), p.again(c))
		},
	}
}

// drain is a connection to a fleet's Redis, and where results of its evaluations go.
type drain struct {
	client  redis.UniversalClient
	store   *store.Store
	retry   func(enqueue.Recorded) bool // failed runs that a submission retries; nil: none
	waits   bool                        // it collects what it submits
	again   string                      // the command that submits the evaluation once more
	dir     string                      // of the output folder; empty: each evaluation's default one
	place   results.Place               // of files besides the output folder
	sinkURL string                      // as it was named here, with its password; empty: as the record says
	allowed allowedSinks                // that records may name
	answers []string                    // the paths of the files with answers, once they are written
	printing
	stdout  io.Writer
	console *terminal.Console
	log     zerolog.Logger
}

// fleet collects evaluations, each into the results store of its output folder.
func (d *drain) fleet() *collect.Fleet {
	return &collect.Fleet{
		Store: d.store, Log: d.log, Open: d.open, Watch: d.watch,
		Allow:   func(r record.Evaluation) error { _, err := d.allowed.of(r); return withCode(exitUsage, err) },
		Refused: func(err error) bool { return errors.Is(err, errForeignSink) },
	}
}

func (d *drain) enqueuer() *enqueue.Enqueuer { return d.fleet().Enqueuer() }

func (d *drain) limiter() *ratelimit.Admin { return d.fleet().Limits() }

// folderOf is the output folder of an evaluation.
func (d *drain) folderOf(r record.Evaluation) string {
	return cmp.Or(d.dir, folder.Default(r.Name, r.ID))
}

// open opens the results store of an evaluation and holds its output folder.
func (d *drain) open(ctx context.Context, r record.Evaluation) (results.Sink, error) {
	named, err := d.allowed.of(r)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	out, err := folder.Open(d.folderOf(r))
	if err != nil {
		return nil, err
	}
	url := cmp.Or(d.sinkURL, named)
	if _, err := os.Stat(out.Path(folder.ResultsFile)); url == "" && r.Sink != "" && errors.Is(err, fs.ErrNotExist) {
		out.Undo()
		_ = out.Close()
		return nil, otherStore(r)
	}
	sink, err := out.OpenStore(ctx, url)
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	return folder.Store{Sink: sink, Folder: out}, nil
}

// otherStore is the error for an evaluation whose results another results store has.
func otherStore(r record.Evaluation) error {
	where := "use the folder of the command that collects them, or name the results store with --" + sinkFlagName
	if r.SinkURL != "" {
		where = "name that one with --" + sinkFlagName + ": " + folder.PublicURL(r.SinkURL)
	}
	return usageError("%w of %s has its results: %s", results.ErrOtherSink, r.ID, where)
}

// watch shows an evaluation's progress until the function that it returns is called.
func (d *drain) watch(r record.Evaluation) (collect.Observer, func()) {
	watch := plain.NewProgress(d.console, r)
	ctx, stop := context.WithCancel(context.Background())
	var shown sync.WaitGroup
	shown.Go(func() { watch.Show(ctx) })
	return watch, func() {
		stop()
		shown.Wait()
	}
}

// collect drains one evaluation, or every one that Redis knows.
func (d *drain) collect(ctx context.Context, id eval.ID, follow bool) error {
	switch {
	case follow && id == "":
		return d.failure(d.fleet().FollowAll(ctx))
	case follow:
		outcome, err := d.fleet().Follow(ctx, id)
		if errors.Is(err, store.ErrNoEvaluation) {
			return unknownEvaluation(ctx, d.store, id)
		}
		return cmp.Or(d.lost(outcome, err), d.ended(outcome))
	case id != "":
		return d.once(ctx, id)
	}
	ids, err := d.store.Evaluations(ctx)
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	if len(ids) == 0 {
		fmt.Fprintln(d.console, "no evaluation in Redis: nothing to collect")
	}
	var unreadable []error
	for _, id := range ids {
		err := d.once(ctx, id)
		switch {
		case err == nil:
		case errors.Is(err, store.ErrUnreadable), errors.Is(err, errForeignSink): // the others can be collected
			unreadable = append(unreadable, err)
		default:
			return err
		}
	}
	return withCode(exitUnreachable, errors.Join(unreadable...))
}

// once drains everything now in Redis.
func (d *drain) once(ctx context.Context, id eval.ID) error {
	drained, err := d.fleet().Once(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) {
		return unknownEvaluation(ctx, d.store, id)
	}
	if r := drained.Record; r.ID != "" {
		fmt.Fprintf(d.console, "%s: %d entries collected into %s\n", id, drained.Entries, cmp.Or(r.SinkURL, filepath.Join(d.folderOf(r), folder.ResultsFile)))
	}
	return d.failure(err)
}

// lost adds to the error of following an evaluation that Redis has lost how to submit it
// again.
func (d *drain) lost(o collect.Outcome, err error) error {
	if !errors.Is(err, results.ErrNoEvaluation) {
		return d.failure(err)
	}
	dir := d.folderOf(o.Record)
	return withCode(exitUnreachable, fmt.Errorf("%w in %s; submit it again, with the same --%s: evalfleet enqueue FILE --%s --%s %s",
		err, dir, redisFlag, waitFlag, outDirFlag, quoted(dir)))
}

// goOnWith adds the command that resumes after an interruption, or once Redis or the disk is
// usable again. It cannot restore an evaluation that Redis has lost.
func goOnWith(err error, command string) error {
	if errors.Is(err, results.ErrNoEvaluation) {
		return err
	}
	if code := codeOf(err); code == exitInterrupted || code == exitUnreachable {
		return withCode(code, fmt.Errorf("%w; resume with: %s", err, command))
	}
	return err
}
