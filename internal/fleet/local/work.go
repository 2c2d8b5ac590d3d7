package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// work submits the evaluation, works on it and drains it until every run is in the results store.
// more holds the calls of earlier runs that the store may lack.
func (j *job) work(ctx context.Context, db results.Store, rest *results.Rest, more collect.Unrecorded) error {
	r, s := j.Record, store.New(j.Worker.Client, j.Worker.Namespace)
	fleet := &collect.Collector{Store: s, Log: j.Worker.Log}
	limits, enqueuer := fleet.Limits(), fleet.Enqueuer()
	enqueuer.Queued = func(t record.Task, at time.Time) { j.Worker.Observer.Event(observe.Queued(t, at)) }
	resultsURL, err := results.Public(j.StoreURL)
	if err != nil {
		return outdir.StoreError(err)
	}
	var evaluation *collect.Collection
	submit := func(ctx context.Context, settle func(context.Context) error) (enqueue.Receipt, error) {
		receipt, err := collect.Submit(ctx, enqueuer, enqueue.Submission{
			Evaluation: j.Submission.Evaluation, Texts: j.Submission.Texts, Settings: j.Submission.Settings,
			Record: r, Plans: j.Plans,
			ResultsURL: resultsURL, Retry: j.Retry, Settle: settle, Lost: settle != nil,
		}, db)
		if err != nil {
			return receipt, err
		}
		drain := func(ctx context.Context) error {
			_, err := results.NewCollector(s.Client(), s.Keys(), r.ID, db, results.Options{Log: j.Worker.Log}).Drain(ctx)
			return err
		}
		if evaluation != nil {
			drain = evaluation.Drain // it also counts what it drains
		}
		return receipt, collect.Restoration{
			Store: s, Limits: limits, Evaluation: r.ID, Budget: j.Submission.Settings.Budget() > 0,
			Results: db, Unrecorded: more, Log: j.Worker.Log, Drain: drain,
		}.Restore(ctx)
	}
	receipt, err := submit(ctx, nil)
	if errors.Is(err, store.ErrCancelled) {
		if err := db.Cancel(ctx, r.ID, time.Now()); err != nil {
			return outdir.StoreError(err)
		}
		return failure.Usagef("%w in this Redis; `evalfleet delete %s` lets it be submitted again", err, r.ID)
	}
	if err != nil {
		return err
	}
	watch := plain.NewProgress(j.Screen, r)
	if err := watch.Recorded(ctx, db, r.ID); err != nil {
		return outdir.StoreError(err)
	}
	files := &outdir.EarlyFiles{Reader: db, ID: r.ID, Place: j.Place, Log: j.Worker.Log}
	evaluation, err = collect.Begin(ctx, collect.Settings{
		Enqueuer: enqueuer, Results: db, Record: r, Planned: receipt.Runs, Unrecorded: more,
		Retried: j.Retry, Observer: watch, Stops: true, Log: j.Worker.Log,
		Committed: func(entries []record.Entry) { files.Committed(context.WithoutCancel(ctx), entries) },
	})
	if err != nil {
		return outdir.StoreError(err)
	}
	begins := plain.Facts(receipt.ID, evaluation.Counts())
	begins["folder"] = j.Place.Dir
	j.Screen.Report(
		fmt.Sprintf("evaluation %s: %s, results in %s", receipt.ID, wording.Counted(receipt.Runs, "run"), j.Place.Dir), begins,
	)
	if done := evaluation.Counts().Ended; done > 0 {
		fmt.Fprintf(j.Screen, "skipping %s\n", wording.Counted(done, "finished run"))
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	// After a stop, calls in flight may take long. Their results are collected as they come, so
	// that whatever happens meanwhile loses none of them.
	collecting, workEnded := context.WithCancel(context.WithoutCancel(ctx))
	defer workEnded()
	var parts errgroup.Group
	parts.Go(func() error {
		defer workEnded()
		return worker.Run(working, j.Worker)
	})
	parts.Go(func() error { watch.Show(collecting); return nil })
	parts.Go(func() error {
		defer stop()
		err := collect.Resubmitting(collecting, j.Worker.Log, receipt.ID, evaluation.Follow,
			func(ctx context.Context) error {
				_, err := submit(ctx, collect.Settle(s, limits, receipt.ID, j.Worker.Log))
				return err
			})
		if collecting.Err() != nil {
			return nil
		}
		if errors.Is(err, results.ErrFull) {
			fmt.Fprintln(j.Screen, "no space left: waiting for calls in flight, starting no more")
		}
		return err
	})
	err = parts.Wait()
	held := ""
	if drainErr := evaluation.Drain(context.WithoutCancel(ctx)); drainErr != nil {
		held = j.hold(context.WithoutCancel(ctx), rest, s)
		err = cmp.Or(err, drainErr)
	} else if ctx.Err() != nil {
		if err := results.ExportManifest(context.WithoutCancel(ctx), j.Place, db, r.ID); err != nil {
			j.Worker.Log.Warn().Err(err).Msg("cannot write the manifest of the interrupted run")
		}
	}
	counts := evaluation.Counts()
	standing := fmt.Sprintf(
		"%s of %s runs are recorded in %s%s; resume with: %s", wording.Count(counts.Ended), wording.Count(counts.Planned),
		j.Place.Dir, held, j.Resume,
	)
	switch {
	case ctx.Err() != nil:
		return failure.With(failure.Interrupted, fmt.Errorf("interrupted: %s", standing))
	case err != nil:
		return failure.With(failure.Unavailable, fmt.Errorf("%w\n%s", err, standing))
	}
	outcome, err := evaluation.Outcome(ctx)
	if err != nil {
		return err
	}
	if err := evaluation.End(ctx, outcome); err != nil {
		return outdir.StoreError(err)
	}
	if outcome.Known != nil {
		return nil
	}
	if outcome.Early() {
		return outcome.StoppedError(j.Raise, j.Resume)
	}
	if _, err := collect.MarkDone(ctx, s, r.ID); err != nil {
		j.Worker.Log.Warn().Err(err).Msg("evaluation stays active in Redis")
	}
	if err := s.Expire(ctx, r.ID); err != nil {
		j.Worker.Log.Warn().Err(err).Msg("evaluation stays in Redis")
	}
	if outcome.Cancelled {
		return outcome.CancelledError("continue with: " + j.Resume)
	}
	return nil
}
