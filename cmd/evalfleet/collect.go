package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
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

// drain takes evaluations' results out of Redis, each into its sink.
type drain struct {
	client  redis.UniversalClient
	store   *store.Store
	retry   func(enqueue.Recorded) bool // failed runs that a submission makes again; nil: none
	again   string                      // the command that submits the evaluation once more
	dir     string                      // of the output folder; empty: each evaluation's default one
	place   results.Place               // of files besides the output folder
	sinkURL string                      // as it was named here, with its password; empty: as the record says
	allowed allowedSinks                // that records may name
	answers []string                    // the paths of those that hold answers, once they are written
	stdout  io.Writer
	console *console
	log     zerolog.Logger
	// committed is told of every entry that is safe in a sink; nil: nobody.
	committed func([]record.Entry)
	// opened is told of each evaluation whose sink is open and can be written; nil:
	// nobody.
	opened func(eval.ID)
	// stays has what goes wrong with one evaluation be said and tried again, and end
	// nothing; and leaves one that names no results store for a moment to whoever
	// submitted it.
	stays bool
}

func (d *drain) enqueuer() *enqueue.Enqueuer {
	return &enqueue.Enqueuer{Store: d.store, Limits: d.limiter(), Log: d.log}
}

// limiter reads and registers limits; it admits no call.
func (d *drain) limiter() *ratelimit.Limiter {
	return ratelimit.New(d.client, ratelimit.Config{Namespace: d.store.Keys().Namespace, Log: d.log})
}

// collect drains one evaluation, or every one that Redis knows.
func (d *drain) collect(ctx context.Context, id eval.ID, follow bool) error {
	ids := []eval.ID{id}
	if id == "" {
		var err error
		if ids, err = d.store.Evaluations(ctx); err != nil {
			return withCode(exitUnreachable, err)
		}
		if len(ids) == 0 && !follow {
			fmt.Fprintln(d.console, "no evaluation in Redis: nothing to collect")
		}
	}
	if follow {
		return d.follow(ctx, id)
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

// once drains what is there now and writes the evaluation's files.
func (d *drain) once(ctx context.Context, id eval.ID) error {
	r, sink, out, err := d.open(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) {
		return unknownEvaluation(ctx, d.store, id)
	}
	if err != nil {
		return err
	}
	defer out.Close()
	defer sink.Close()
	standings, err := d.store.Standings(ctx, []eval.ID{id}) // what had ended by now is then collected
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	n, err := results.NewCollector(d.client, d.store.Keys(), id, sink, results.Options{Log: d.log}).Drain(ctx)
	fmt.Fprintf(d.console, "%s: %d entries collected into %s\n", id, n, cmp.Or(r.SinkURL, out.path(sinkFile)))
	if err != nil {
		return sinkError(err)
	}
	if err := d.tellAgain(ctx, r, sink); err != nil {
		return err
	}
	if _, due := enqueue.Due(r, standings[id]); due {
		_, err := choosePhase(ctx, d.enqueuer(), sink, id)
		return sinkError(err)
	}
	switch r.Status {
	case record.StatusDone:
		return d.finish(ctx, r, sink)
	case record.StatusCancelled:
		return withCode(exitUnreachable, d.store.Expire(ctx, r.ID))
	}
	return nil
}

// follow drains the evaluation, or all there are and those to come, until ctx
// ends or the evaluation is complete.
func (d *drain) follow(ctx context.Context, only eval.ID) error {
	if only == "" {
		return d.followAll(ctx)
	}
	err := d.untilRoom(ctx, only, func() error { return d.followOne(ctx, only, false, nil) })
	if errors.Is(err, store.ErrNoEvaluation) {
		return unknownEvaluation(ctx, d.store, only)
	}
	return err
}

// untilRoom tries again what fails because the sink is full, which it says once.
func (d *drain) untilRoom(ctx context.Context, id eval.ID, do func() error) error {
	for said := false; ; said = true {
		err := do()
		if !errors.Is(err, results.ErrFull) {
			return err
		}
		if !said {
			d.log.Warn().Str("evaluation", string(id)).Err(err).Msg("waiting for room in the results store")
		}
		select {
		case <-time.After(stayTime):
		case <-ctx.Done():
			return withCode(exitInterrupted, fmt.Errorf("interrupted: %w", err))
		}
	}
}

// followOne drains one evaluation until it is complete or cancelled, or, when
// stops, has stopped by itself. What is new of it is brought by n; nil: by nobody.
func (d *drain) followOne(ctx context.Context, id eval.ID, stops bool, n *news) error {
	r, sink, out, err := d.open(ctx, id)
	if err != nil {
		return err
	}
	defer out.Close()
	defer sink.Close()
	watch, err := watchProgress(ctx, d.console, sink, r, plannedRuns(r))
	if err != nil {
		return err
	}
	if d.opened != nil {
		d.opened(id)
	}
	showing, stop := context.WithCancel(ctx)
	var shown errgroup.Group
	shown.Go(func() error { watch.show(showing); return nil })
	end := &ending{store: d.store, id: id, watch: watch, phases: r.Phases, stops: stops, news: n}
	collector := results.NewCollector(d.client, d.store.Keys(), id, sink, results.Options{Committed: func(entries []record.Entry) {
		watch.committed(entries)
		if d.committed != nil {
			d.committed(entries)
		}
	}, WaitForRoom: true, Waiting: watch.waiting, Woken: n.wakes(), Log: d.log})
	err = end.follow(ctx, collector, d.enqueuer(), sink)
	stop()
	_ = shown.Wait()
	switch {
	case ctx.Err() != nil:
		return withCode(exitInterrupted, fmt.Errorf("interrupted: %d of %d runs of %s are in %s, the rest is in Redis", watch.ended(), watch.planned(), id, out.dir))
	case errors.Is(err, results.ErrNoEvaluation):
		return withCode(exitUnreachable, fmt.Errorf("redis has lost %w: %d of %d runs are in %s; submit it again, with the same --%s: evalfleet enqueue FILE --%s --%s %s",
			err, watch.ended(), watch.planned(), out.dir, redisFlag, waitFlag, outDirFlag, quoted(out.dir)))
	case err != nil:
		return sinkError(err)
	case end.cancelled:
		if err := sink.Cancel(ctx, id, time.Now()); err != nil {
			return sinkError(err)
		}
		if err := d.store.Expire(ctx, r.ID); err != nil {
			return withCode(exitUnreachable, err)
		}
		return end.cancellation("they are in " + out.dir)
	case end.reachedEarly():
		if r, err = d.store.Evaluation(ctx, id); err != nil { // its budget may be another by now
			return withCode(exitUnreachable, err)
		}
		return end.stop(ctx, r.Settings, sink, d.again, d.again)
	}
	return d.finish(ctx, r, sink)
}

// open finds an evaluation and opens its sink in its folder.
func (d *drain) open(ctx context.Context, id eval.ID) (record.Evaluation, results.Sink, *folder, error) {
	r, err := d.store.WithChoices(ctx, id)
	if err != nil {
		return r, nil, nil, err
	}
	e, err := d.store.Plan(ctx, id)
	if err != nil {
		return r, nil, nil, withCode(exitUnreachable, err)
	}
	if e.ID() != id {
		return r, nil, nil, withCode(exitUnreachable, fmt.Errorf("%q: %w: its plan is that of another evaluation", id, store.ErrUnreadable))
	}
	named, err := d.allowed.of(r)
	if err != nil {
		return r, nil, nil, withCode(exitUsage, err)
	}
	var hashes []string
	for _, document := range e.Everything() {
		hashes = append(hashes, document.Hash)
	}
	if r.Settings.Votes != "" {
		hashes = append(hashes, r.Settings.Votes)
	}
	texts, err := d.store.Documents(ctx, id, hashes...)
	if err != nil {
		return r, nil, nil, withCode(exitUnreachable, err)
	}
	dir := d.dir
	if dir == "" {
		dir = defaultFolder(r.Name, id)
	}
	out, err := openFolder(dir)
	if err != nil {
		return r, nil, nil, err
	}
	sink, err := openSink(ctx, cmp.Or(d.sinkURL, named), out, r, e, texts)
	if err != nil {
		_ = out.Close()
		return r, nil, nil, err
	}
	return r, sink, out, nil
}

// finish notes the end and lets Redis forget the evaluation in a week.
func (d *drain) finish(ctx context.Context, r record.Evaluation, sink results.Sink) error {
	if err := sink.Finish(ctx, r.ID, time.Now()); err != nil {
		return withCode(exitUnreachable, err)
	}
	if err := d.store.Expire(ctx, r.ID); err != nil {
		return withCode(exitUnreachable, err)
	}
	return nil
}

func plannedRuns(r record.Evaluation) int {
	n := 0
	for _, phase := range r.Phases {
		n += phase.Runs
	}
	return n
}

// goOnWith adds the command that goes on after an interruption, or once Redis or
// the disk is usable again. An evaluation that Redis has lost, it cannot bring back.
func goOnWith(err error, command string) error {
	if errors.Is(err, results.ErrNoEvaluation) {
		return err
	}
	if code := codeOf(err); code == exitInterrupted || code == exitUnreachable {
		return withCode(code, fmt.Errorf("%w; resume with: %s", err, command))
	}
	return err
}
