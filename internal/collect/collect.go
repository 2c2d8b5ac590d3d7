// Package collect moves the results of evaluations from Redis into their results stores and
// completes evaluations. It drains, chooses the phases that depend on results, restores budgets and
// quotas that Redis has lost, and stores the end.
//
// A Collector collects any evaluation of one Redis; its caller opens the results stores. An Evaluation
// already has an open results store; ending.reached decides when it is complete. Neither prints: an
// Observer receives progress, and an Outcome says how an evaluation ended.
package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Collector collects the evaluations of one Redis. Store and Open are required. Its methods
// are safe for concurrent use.
type Collector struct {
	Store *store.Store
	// Open opens the results store of an evaluation, where only this process writes.
	// Several evaluations may be open at once.
	Open func(ctx context.Context, r record.Evaluation) (results.Store, error)
	// Allow is called before anything of an evaluation is opened. If it returns an error, the
	// evaluation is not collected. nil: all are allowed.
	Allow func(record.Evaluation) error
	// Refused reports whether an error of Allow or Open concerns one evaluation alone, so that the
	// others are still collected. nil: none does.
	Refused func(error) bool
	// Watch returns the Observer of an evaluation that is being followed, and a function that is
	// called when following ends. nil: no observer.
	Watch func(record.Evaluation) (Observer, func())
	// Conclude is called when the results store, which is still open, has the end of an evaluation,
	// or why the fleet has stopped it. If it returns an error, following fails with it. FollowAll
	// also finds evaluations that ended without a result in their record (store.Store.Conclude),
	// because a process died before. nil: nothing is called.
	Conclude func(context.Context, Outcome, results.Store) error
	// Committed is called with all entries that a results store has committed. nil: no calls.
	Committed func([]record.Entry)
	// Stops makes Follow return when the fleet has stopped an evaluation, too: its budget leaves no
	// room for a call, or only runs of paused providers are left.
	Stops bool
	// Stays makes FollowAll log a failure that concerns one evaluation and try again, instead of
	// returning it. It leaves an evaluation that names no results store to the process that
	// submitted it for 10 s.
	Stays bool
	Log   zerolog.Logger
}

// Limits returns a limiter that reads and registers limits. It admits no call.
func (f *Collector) Limits() *ratelimit.Admin {
	return ratelimit.NewAdmin(f.Store.Client(), ratelimit.Config{Namespace: f.Store.Keys().Namespace, Log: f.Log})
}

// Enqueuer returns an enqueuer of the fleet.
func (f *Collector) Enqueuer() *enqueue.Enqueuer {
	return &enqueue.Enqueuer{Store: f.Store, Limits: f.Limits(), Log: f.Log}
}

// Drained says what Once has moved.
type Drained struct {
	Record  record.Evaluation // empty if its results store could not be opened
	Entries int
}

// Once drains what is in Redis now and starts a due phase. It stores the end of an evaluation that
// has ended, or why the fleet has stopped it. Drained is valid even with an error.
func (f *Collector) Once(ctx context.Context, id eval.ID) (Drained, error) {
	var d Drained
	r, db, err := f.OpenEvaluation(ctx, id)
	if err != nil {
		return d, err
	}
	defer db.Close()
	d.Record = r
	done, err := MarkDone(ctx, f.Store, id) // the results of runs that have ended are collected below
	if err != nil {
		return d, err
	}
	standings, err := f.Store.Standings(ctx, []eval.ID{id})
	if err != nil {
		return d, err
	}

	collector := results.NewCollector(f.Store.Client(), f.Store.Keys(), id, db, results.Options{Log: f.Log})
	drain := func(ctx context.Context) error {
		n, err := collector.Drain(ctx)
		d.Entries += n
		return err
	}
	if err := drain(ctx); err != nil {
		return d, err
	}
	restoration := Restoration{Store: f.Store, Limits: f.Limits(), Evaluation: id, Budget: budgeted(r), Results: db, Log: f.Log, Drain: drain}
	if err := restoration.Restore(ctx); err != nil {
		return d, err
	}
	if _, due := enqueue.Due(r, standings[id]); due {
		_, err := choosePhase(ctx, f.Enqueuer(), db, id)
		return d, err
	}

	switch {
	case done:
		return d, f.finish(ctx, id, db)
	case r.Status == record.StatusCancelled:
		return d, f.Store.Expire(ctx, id)
	}

	return d, f.noteStop(ctx, r, db)
}

// noteStop stores why the fleet has stopped an evaluation whose results are all drained. It also
// stops an evaluation whose best candidates are known.
func (f *Collector) noteStop(ctx context.Context, r record.Evaluation, db results.Store) error {
	e, err := Begin(ctx, Settings{Enqueuer: f.Enqueuer(), Results: db, Record: r, Stops: true, Log: f.Log})
	if err != nil {
		return err
	}
	if _, err := e.countEnded(ctx); err != nil {
		return err
	}
	o, err := e.Outcome(ctx)
	if err != nil || !o.Early() {
		return err
	}
	if err := e.End(ctx, o); err != nil || o.Known == nil { // without Known, it may resume at any time
		return err
	}
	return f.Store.Expire(ctx, r.ID)
}

// Follow drains an evaluation until it has ended, or has stopped if f.Stops is set, and stores its
// end. It waits while the results store is full. The error is an *InterruptedError if ctx ends
// first.
func (f *Collector) Follow(ctx context.Context, id eval.ID) (Outcome, error) {
	spell := outage.Spell{Log: f.Log.With().Str("evaluation", string(id)).Logger(), Fails: "waiting for room in the results store"}
	for {
		outcome, err := f.follow(ctx, id, following{stops: f.Stops})
		if !errors.Is(err, results.ErrFull) {
			return outcome, err
		}
		spell.Note(ctx, err)
		if outage.Pause(ctx, stayTime) != nil {
			return outcome, &InterruptedError{Outcome: outcome, Cause: err}
		}
	}
}

// following says how to follow an evaluation.
type following struct {
	stops  bool
	news   *news         // wakes it; nil: none
	opened func(eval.ID) // called once its results store is open; nil: no call
}

// follow drains an evaluation as Follow does, but it does not wait for room everywhere. It returns
// results.ErrFull if there is none when the results store is opened or the end is stored.
func (f *Collector) follow(ctx context.Context, id eval.ID, how following) (Outcome, error) {
	r, db, err := f.OpenEvaluation(ctx, id)
	if err != nil {
		return Outcome{}, err
	}
	defer db.Close()
	s := Settings{
		Enqueuer: f.Enqueuer(), Results: db, Record: r, Committed: f.Committed,
		Stops: how.stops, WaitForRoom: true, Log: f.Log, news: how.news,
	}
	stop := func() {}
	if f.Watch != nil {
		s.Observer, stop = f.Watch(r)
	}
	defer func() { stop() }()
	e, err := Begin(ctx, s)
	if err != nil {
		return Outcome{Record: r}, err
	}

	if how.opened != nil {
		how.opened(id)
	}
	err = e.Follow(ctx)
	stop()
	stop = func() {}
	outcome := e.counted()
	switch {
	case ctx.Err() != nil:
		return outcome, &InterruptedError{Outcome: outcome}
	case errors.Is(err, results.ErrNoEvaluation):
		return outcome, fmt.Errorf("redis has lost %w: %s", err, outcome.recorded())
	case err != nil:
		return outcome, err
	}

	err = outage.Through(ctx, func(ctx context.Context) (err error) {
		if outcome, err = e.Outcome(ctx); err != nil {
			return err
		}
		if err = e.End(ctx, outcome); err != nil || outcome.Cancelled || outcome.Early() {
			return err
		}
		if _, err = MarkDone(ctx, f.Store, id); errors.Is(err, store.ErrNoEvaluation) { // it was deleted; its results store is complete
			return nil
		}
		return err
	})
	if err != nil {
		return outcome, err
	}

	if f.Conclude != nil {
		if err := f.Conclude(ctx, outcome, db); err != nil {
			return outcome, err
		}
	}

	if outcome.Early() && outcome.Known == nil { // it may resume at any time
		return outcome, nil
	}
	return outcome, outage.Through(ctx, func(ctx context.Context) error { return f.Store.Expire(ctx, id) })
}

// MarkDone marks an evaluation as done in Redis if all its runs have ended, and reports whether they
// have. Workers and the controller do so, too, up to two seconds after the last run. A process that
// has all results does not wait for them: Redis stores a result only of an evaluation that has ended.
func MarkDone(ctx context.Context, s *store.Store, id eval.ID) (bool, error) {
	r, err := s.Evaluation(ctx, id)
	if err != nil {
		return false, err
	}
	return s.Finish(ctx, r)
}

// OpenEvaluation reads an evaluation from Redis, opens its results store, and stores it there.
func (f *Collector) OpenEvaluation(ctx context.Context, id eval.ID) (record.Evaluation, results.Store, error) {
	r, err := f.Store.WithChoices(ctx, id)
	if err != nil {
		return r, nil, err
	}
	e, err := f.Store.Questions(ctx, id)
	if err != nil {
		return r, nil, err
	}

	if f.Allow != nil {
		if err := f.Allow(r); err != nil {
			return r, nil, err
		}
	}

	var hashes []string
	for _, document := range e.Everything() {
		hashes = append(hashes, document.Hashes()...)
	}
	if r.Settings.Votes != "" {
		hashes = append(hashes, r.Settings.Votes)
	}
	texts, err := f.Store.Documents(ctx, id, hashes...)
	if err != nil {
		return r, nil, err
	}

	db, err := f.Open(ctx, r)
	if err != nil {
		return r, nil, err
	}
	if err := Put(ctx, db, r, e, texts); err != nil {
		_ = db.Close()
		return r, nil, err
	}
	return r, db, nil
}

// finish stores the end of an evaluation and lets its data in Redis expire in a week.
func (f *Collector) finish(ctx context.Context, id eval.ID, db results.Store) error {
	if err := db.Finish(ctx, id, time.Now()); err != nil {
		return err
	}
	return f.Store.Expire(ctx, id)
}

// Put makes sure that a results store has an evaluation. texts are its documents and
// votes, by hash.
func Put(ctx context.Context, db results.Store, r record.Evaluation, e *eval.Evaluation, texts map[string]string) error {
	r, err := withChoicesOf(ctx, db, e, r)
	if err != nil {
		return err
	}
	asked := results.Evaluation{ID: r.ID, Plan: e, Settings: r.Settings, Phases: r.Phases, Created: time.Now()}
	switch {
	case r.Status == record.StatusCancelled:
		asked.Cancelled = time.Now()
	case r.Stopped != "" || len(r.Paused) > 0: // these notes are still valid
		stored, err := db.Evaluation(ctx, r.ID)
		if err != nil && !errors.Is(err, results.ErrNoEvaluation) {
			return err
		}
		asked.Stopped = stored.Stopped
	}
	return db.PutEvaluation(ctx, asked, maps.All(texts))
}
