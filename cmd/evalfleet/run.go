package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/dial"
	"github.com/evalfleet/evalfleet/internal/embedded"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/worker"
)

func runCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "Run an evaluation on this machine",
		ArgsUsage: "FILE|FOLDER",
		Description: "Plans, executes, collects and ranks in one process. It starts its own Redis unless --redis is set. Results are " +
			"written to the output folder as they arrive. To resume after an interruption, repeat the command or run " +
			"`evalfleet resume` with the output folder; recorded runs are not repeated. A FOLDER instead of a FILE compares " +
			"its documents in pairs; set the judges with --judge. Listed runs, from the file, --runs-config, --runs-stdin, " +
			"or --file-a and --file-b, write each answer to a file and print its path.",
		Flags: append(append(submitFlags(), workFlags(metricsOff)...), sinkFlag(), allowKeysOption()),
		Action: func(c *cli.Context) error {
			if c.IsSet(dryRunFlag) {
				return p.dryRun(c, false)
			}
			asked, err := p.request(c, false)
			if err != nil {
				return err
			}
			if err := p.grantKeys(c, asked); err != nil {
				return err
			}
			return p.inTurn(c, asked, func(s *config.Submission) (answers []string, err error) {
				j, err := p.newJob(c, s)
				if err != nil {
					return nil, err
				}
				err = j.run(c.Context)
				return j.answers, err
			})
		},
	}
}

// newJob reads the command line of `run` for one evaluation.
func (p *process) newJob(c *cli.Context, submission *config.Submission) (*job, error) {
	out, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	on, err := failOnOf(c)
	if err != nil {
		return nil, err
	}
	how, err := workOf(c)
	if err != nil {
		return nil, err
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return nil, err
	}
	j := &job{
		submission: submission, redis: at, namespace: c.String(namespaceFlag),
		dir: outDir(c, submission), sinkURL: cmp.Or(c.String(sinkFlagName), submission.Sink), how: how,
		env: p.env, keys: p.keys, own: p.own, atOnce: p.atOnce, failOn: on, printing: p.printing(c), stdout: p.stdout, console: out, log: log,
	}
	if j.dir == "" {
		j.dir = defaultFolder(submission.Evaluation.Name, submission.Evaluation.ID())
	}
	if j.place, err = placeOf(c, submission, j.dir); err != nil {
		return nil, err
	}
	j.resumeWith, j.again = resumeWith(c, j.dir), p.again(c)
	if c.IsSet(judgeFolderFlag) { // the part after it is no part of the folder
		j.resumeWith = j.again
	}
	if c.Bool(retryFailedFlag) {
		j.retry = everyFailed
	}
	return j, nil
}

// job is one `run`: an evaluation run, drained and reported in one process.
type job struct {
	submission *config.Submission
	redis      dial.Settings // no URL: an embedded one
	namespace  string
	dir        string        // output folder
	place      results.Place // of files, in the output folder and besides
	answers    []string      // the paths of the files with answers, once it has run
	sinkURL    string        // empty: results.db in the folder
	how        work
	env        config.Lookup
	keys       config.Lookup // as in process
	own        sealer
	atOnce     <-chan struct{} // as in process
	failOn     failOn
	retry      func(enqueue.Recorded) bool // failed runs to retry; nil: none
	resumeWith string                      // the command that resumes after an interruption
	again      string                      // the command that submits the evaluation once more

	printing
	stdout  io.Writer
	console *console
	log     zerolog.Logger
}

// run runs the job. Interrupted, it keeps finished work and prints how to resume. It reports
// invalid input before anything is written.
func (j *job) run(ctx context.Context) (err error) {
	e := j.submission.Evaluation
	id := e.ID()
	r, _, err := enqueue.Plan(id, e, j.submission.Settings)
	if err != nil {
		return withCode(exitUsage, err)
	}
	if err := j.how.checkQueues(r, j.redis.URL == ""); err != nil {
		return err
	}
	callable, err := openEndpoints(j.submission.Providers, j.env, j.keys, j.how.slots, ofJudges(j.submission.Settings.Everyone(e)))
	if err != nil {
		return err
	}
	defer callable.Close()
	settings := worker.Config{
		Namespace: j.namespace, Endpoints: callable.byName, Lease: j.submission.Lease, AtOnce: j.atOnce, Log: j.log,
		Stopping: func(inFlight int, grace time.Duration) {
			if ctx.Err() != nil {
				sayStopping(j.console, inFlight, grace)
			}
		},
	}
	open, err := j.how.open(ctx, &settings, j.env, callable, j.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(withCode(exitUnreachable, open.Close()), err) }()
	var client redis.UniversalClient
	if j.redis.URL != "" {
		if client, err = connect(ctx, j.redis, j.namespace, dial.Controller, j.submission.Lease, true, j.log); err != nil {
			return err
		}
		defer client.Close()
	}
	out, err := openFolder(j.dir)
	if err != nil {
		return err
	}
	defer out.Close()
	sink, err := openSink(ctx, j.sinkURL, out)
	if err != nil {
		return err
	}
	defer sink.Close()
	if err := collect.Put(ctx, sink, r, e, j.submission.Texts); err != nil {
		return sinkError(err)
	}
	if len(r.Phases) == 0 { // votes alone: no model is asked
		if err := sink.Finish(ctx, id, time.Now()); err != nil {
			return sinkError(err)
		}
		return j.conclude(ctx, sink)
	}
	settings.Cache = sink
	if err := j.saveResumption(); err != nil {
		return withCode(folderCode(err), err)
	}
	var rest *results.Rest
	if client == nil {
		if rest, err = j.openRest(ctx, out, sink); err != nil {
			return err
		}
		defer func() { err = errors.Join(withCode(exitUnreachable, rest.Close()), err) }()
		var end func()
		if client, end, err = j.embedded(ctx); err != nil {
			return err
		}
		defer end()
		if err := j.remember(ctx, client, sink); err != nil {
			return err
		}
	}

	events, err := openOwnEvents(out.path(eventsFile))
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	defer func() { err = errors.Join(withCode(exitUnreachable, events.Close()), err) }()
	settings.Client, settings.Events = client, both(settings.Events, events.write)
	before, err := collect.Spent(ctx, id, j.submission.Settings, sink)
	if err != nil {
		return collectError(err)
	}
	if rest != nil && j.submission.Settings.Budget() > 0 {
		spending, openErr := openSpent(out.path(spentFile), id, before)
		if openErr != nil {
			return withCode(exitUnreachable, openErr)
		}
		defer func() { err = errors.Join(withCode(exitUnreachable, spending.Close()), err) }()
		settings.Spending, before = spending.note, spending.spent()
	}
	cancelled := j.work(ctx, settings, sink, rest, r, before)
	if cancelled != nil && !isEnding(cancelled) {
		return cancelled
	}
	return cmp.Or(cancelled, j.conclude(context.WithoutCancel(ctx), sink))
}

// conclude writes the job's results.
func (j *job) conclude(ctx context.Context, sink results.Reader) error {
	return conclude(ctx, conclusion{
		reader: sink, id: j.submission.Evaluation.ID(), place: j.place, failOn: j.failOn,
		again: j.resumeWith, answers: &j.answers, printing: j.printing, stdout: j.stdout, console: j.console,
	})
}

// work submits the evaluation, works on it and drains it until every run is in the results
// store. work's before is the amount already spent of a budget, in nano-USD.
func (j *job) work(ctx context.Context, settings worker.Config, sink results.Sink, rest *results.Rest, r record.Evaluation, before int64) error {
	client := settings.Client
	s := store.New(client, j.namespace)
	limits := ratelimit.NewAdmin(client, ratelimit.Config{Namespace: s.Keys().Namespace, Log: j.log})
	sinkURL, err := results.Public(j.sinkURL)
	if err != nil {
		return sinkError(err)
	}
	enqueuer := &enqueue.Enqueuer{Store: s, Limits: limits, Log: j.log, Queued: func(t record.Task, at time.Time) { settings.Events(worker.Queued(t, at)) }}
	var evaluation *collect.Evaluation
	submit := func(ctx context.Context, settle time.Duration) (enqueue.Receipt, error) {
		jobs, err := sink.Jobs(ctx, r.ID)
		if err != nil {
			return enqueue.Receipt{}, sinkError(err)
		}
		receipt, err := collect.Submit(ctx, enqueuer, enqueue.Submission{
			Evaluation: j.submission.Evaluation, Texts: j.submission.Texts, Settings: j.submission.Settings,
			SinkURL: sinkURL, Jobs: jobs, Retry: j.retry, Settle: settle, Lost: settle > 0,
		}, sink)
		if err != nil {
			return receipt, err
		}
		drain := func(ctx context.Context) error {
			_, err := results.NewCollector(client, s.Keys(), r.ID, sink, results.Options{Log: j.log}).Drain(ctx)
			return err
		}
		if evaluation != nil {
			drain = evaluation.Drain // which counts
		}
		return receipt, collect.Restore(ctx, limits, r.ID, j.submission.Settings, sink, before, drain)
	}
	receipt, err := submit(ctx, 0)
	if errors.Is(err, store.ErrCancelled) {
		if err := sink.Cancel(ctx, r.ID, time.Now()); err != nil {
			return sinkError(err)
		}
		return usageError("%w in this Redis; `evalfleet delete %s` lets it be submitted again", err, r.ID)
	}
	if err != nil {
		return collectError(err)
	}
	watch := newProgress(j.console, r)
	files := &earlyFiles{reader: sink, id: r.ID, place: j.place, log: j.log}
	evaluation, err = collect.Begin(ctx, collect.Settings{
		Enqueuer: enqueuer, Sink: sink, Record: r, Planned: receipt.Runs, Retried: j.retry, Observer: watch, Stops: true, Log: j.log,
		Committed: func(entries []record.Entry) { files.committed(context.WithoutCancel(ctx), entries) },
	})
	if err != nil {
		return sinkError(err)
	}
	fmt.Fprintf(j.console, "evaluation %s: %s, results in %s\n", receipt.ID, wording.Counted(receipt.Runs, "run"), j.dir)
	if done := evaluation.Counts().Ended; done > 0 {
		fmt.Fprintf(j.console, "skipping %s\n", wording.Counted(done, "finished run"))
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	// After a stop, calls in flight may take long. Their results are collected as
	// they come, so that whatever happens meanwhile loses none of them.
	collecting, workEnded := context.WithCancel(context.WithoutCancel(ctx))
	defer workEnded()
	var parts errgroup.Group
	parts.Go(func() error {
		defer workEnded()
		return worker.Run(working, settings)
	})
	parts.Go(func() error { watch.show(collecting); return nil })
	parts.Go(func() error {
		defer stop()
		err := collect.Resubmitting(collecting, j.log, receipt.ID, evaluation.Follow,
			func(ctx context.Context) error { _, err := submit(ctx, collect.SettleTime); return err })
		if collecting.Err() != nil {
			return nil
		}
		if errors.Is(err, results.ErrFull) {
			fmt.Fprintln(j.console, "no space left: waiting for calls in flight, starting no others")
		}
		return err
	})
	err = parts.Wait()
	held := ""
	if drainErr := evaluation.Drain(context.WithoutCancel(ctx)); drainErr != nil {
		held = j.hold(context.WithoutCancel(ctx), rest, client, s.Keys(), receipt.ID)
		err = cmp.Or(err, drainErr)
	} else if ctx.Err() != nil {
		if err := results.ExportManifest(context.WithoutCancel(ctx), j.place, sink, r.ID); err != nil {
			j.log.Warn().Err(err).Msg("cannot write the manifest of the interrupted run")
		}
	}
	counts := evaluation.Counts()
	standing := fmt.Sprintf("%d of %d runs are recorded in %s%s; resume with: %s", counts.Ended, counts.Planned, j.dir, held, j.resumeWith)
	switch {
	case ctx.Err() != nil:
		return withCode(exitInterrupted, fmt.Errorf("interrupted: %s", standing))
	case err != nil:
		return withCode(exitUnreachable, fmt.Errorf("%w\n%s", err, standing))
	}
	outcome, err := evaluation.Outcome(ctx)
	if err != nil {
		return collectError(err)
	}
	if err := evaluation.End(ctx); err != nil {
		return sinkError(err)
	}
	if outcome.Early() {
		return stoppedError(outcome, j.again, j.resumeWith)
	}
	if err := s.Expire(ctx, r.ID); err != nil {
		j.log.Warn().Err(err).Msg("evaluation stays in Redis")
	}
	if outcome.Cancelled {
		return cancelledError(outcome, "continue with: "+j.resumeWith)
	}
	return nil
}

// openRest opens the file for what the sink may come to have no room for, when the
// embedded Redis ends: at least the calls in flight, of a few kilobytes each.
func (j *job) openRest(ctx context.Context, out *folder, sink results.Sink) (*results.Rest, error) {
	rest, err := results.OpenRest(ctx, out.path(restFile), int64(64<<10+4<<10*j.how.slots), sink)
	switch {
	case errors.Is(err, results.ErrNoEvaluation):
		return nil, usageError("%w; they belong to another run in this folder: resume it first, or choose another folder with --%s", err, outDirFlag)
	case err != nil:
		return nil, withCode(exitUnreachable, err)
	}
	return rest, nil
}

// hold keeps what the sink could not take, and says so. A Redis that was named
// keeps it by itself; rest is nil then.
func (j *job) hold(ctx context.Context, rest *results.Rest, client redis.UniversalClient, keys record.Keys, id eval.ID) string {
	if rest == nil {
		return ", more are in Redis"
	}
	kept, left, err := rest.Keep(ctx, client, keys, id)
	if err != nil {
		j.log.Error().Err(err).Int("results", left).Msg("results are lost; their runs will be repeated")
	}
	if left > 0 {
		return fmt.Sprintf(" and %d in its %s, and %d will be repeated because the disk is full", kept, restFile, left)
	}
	return fmt.Sprintf(" and %d in its %s", kept, restFile)
}

// sayStopping tells the user who asked for a stop what the command waits for, and how not to
// wait.
func sayStopping(to io.Writer, inFlight int, grace time.Duration) {
	if inFlight > 0 {
		fmt.Fprintf(to, "stopping: %s in flight have up to %s to finish; press Ctrl-C again to abort them\n",
			wording.Counted(inFlight, "call"), grace)
	}
}

// remember tells an embedded Redis, which is always new, when the last call was
// made: what a rate or a window had left then is taken as used up.
func (j *job) remember(ctx context.Context, client redis.UniversalClient, sink results.Reader) error {
	last, err := sink.LastCall(ctx)
	if err != nil {
		return sinkError(err)
	}
	// A sink has times in whole milliseconds.
	return ratelimit.NewAdmin(client, ratelimit.Config{Namespace: j.namespace}).Begin(ctx, time.Since(last.Add(time.Millisecond)))
}

// embedded brings a Redis for this run alone, and says how to end it.
func (j *job) embedded(ctx context.Context) (redis.UniversalClient, func(), error) {
	alone := j.alone()
	server, err := embedded.Start(j.dir)
	if err != nil {
		return nil, nil, withCode(exitUnreachable, err)
	}
	client, err := connect(ctx, dial.Settings{URL: server.URL()}, j.namespace, dial.Controller, 0, false, j.log)
	if err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	return client, func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			j.log.Warn().Err(err).Msg("embedded Redis")
		}
		_ = alone.Unlock()
	}, nil
}

// alone says so when another run of this user brings a Redis of its own as well:
// each keeps its own limits then.
func (j *job) alone() *flock.Flock {
	lock := flock.New(filepath.Join(os.TempDir(), fmt.Sprintf("evalfleet-embedded-%d.lock", os.Getuid())))
	if held, err := lock.TryLock(); err == nil && !held {
		fmt.Fprintln(j.console, "another `evalfleet run` is active on this machine; to share limits with it, give both the same --redis")
	}
	return lock
}
