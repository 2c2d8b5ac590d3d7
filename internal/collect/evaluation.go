package collect

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Settings of a Collection. Enqueuer, Results and Record are required.
type Settings struct {
	Enqueuer *enqueue.Enqueuer // of the fleet; starts phases
	Results  results.Store     // has the evaluation already, as after Put
	Record   record.Evaluation
	Planned  int // number of runs, if Record's phases may have changed; 0: as in Record
	// Unrecorded describes calls that the results store may lack.
	Unrecorded Unrecorded
	// Retried selects the failed runs that are being retried; nil: none.
	Retried func(enqueue.Recorded) bool
	// Observer receives progress; it may be nil.
	Observer Observer
	// Committed, Stops and Log are as in Collector.
	Committed func([]record.Entry)
	Stops     bool
	Log       zerolog.Logger
	// WaitForRoom makes Follow wait while the results store is full. Without it, Follow returns
	// results.ErrFull.
	WaitForRoom bool

	news *news // nil: none
}

// Collection collects one evaluation whose results store is open. Drain and Follow must
// not run at the same time.
type Collection struct {
	ending
	settings  Settings
	collector *results.Collector
}

// Begin counts what the results store has already, and tells the observer.
func Begin(ctx context.Context, s Settings) (*Collection, error) {
	if s.Observer == nil {
		s.Observer = unobserved{}
	}
	store, id := s.Enqueuer.Store, s.Record.ID
	t := &tally{id: id, reader: s.Results, observer: s.Observer, counts: Counts{Planned: cmp.Or(s.Planned, planned(s.Record))}}
	if err := t.recount(ctx); err != nil {
		return nil, err
	}

	if s.Retried != nil {
		if err := t.without(ctx, s.Retried); err != nil {
			return nil, err
		}
	}

	e := &Collection{
		ending: ending{
			store: store, limits: ratelimit.NewAdmin(store.Client(), ratelimit.Config{Namespace: store.Keys().Namespace}),
			id: id, tally: t, phases: s.Record.Phases, news: s.news, stops: s.Stops,
		},
		settings: s,
	}
	var err error
	if e.until, err = newUntil(ctx, s); err != nil {
		return nil, err
	}
	if err := e.stopKnown(ctx); err != nil { // if it is known already, nothing is asked
		return nil, err
	}
	e.collector = results.NewCollector(store.Client(), store.Keys(), id, s.Results, results.Options{
		Committed: e.committed, WaitForRoom: s.WaitForRoom, Waiting: s.Observer.Waiting, Woken: s.news.wakes(), Log: s.Log,
	})
	return e, nil
}

func (e *Collection) committed(entries []record.Entry) {
	e.tally.committed(entries)
	if e.settings.Committed != nil {
		e.settings.Committed(entries)
	}
}

// Counts returns the evaluation's progress.
func (e *Collection) Counts() Counts { return e.tally.now() }

// Drain moves the results now in Redis to the results store.
func (e *Collection) Drain(ctx context.Context) error {
	_, err := e.collector.Drain(ctx)
	return err
}

// Follow collects until the evaluation has ended or stopped, and starts its phases as the earlier
// ones end. Outcome says how it ended. Follow waits during an outage of Redis or of the results
// store.
func (e *Collection) Follow(ctx context.Context) error {
	for {
		e.due, e.forgotten = false, false
		err := e.collector.Follow(ctx, e.reached)
		switch {
		case err != nil:
			return err
		case e.forgotten:
			err = e.restore(ctx)
		case e.due:
			if _, err = choosePhase(ctx, e.settings.Enqueuer, e.settings.Results, e.id); err == nil {
				err = e.reread(ctx)
			}
		default:
			return nil
		}

		if err == nil {
			continue
		}
		if !outage.Temporary(err) && !errors.Is(err, results.ErrBusy) {
			return err
		}
		if err := outage.Pause(ctx, outage.AwayFor); err != nil { // the collector meets the outage as well, and logs it
			return err
		}
	}
}

// restore tells Redis the used amounts of the budget and of daily quotas.
func (e *Collection) restore(ctx context.Context) error {
	memory := e.memory
	e.memory, e.asked = "", time.Time{} // look again, also after an error
	r, err := e.store.Evaluation(ctx, e.id)
	if err == nil {
		err = Restoration{
			Store: e.store, Limits: e.limits, Evaluation: e.id, Budget: budgeted(r),
			Results: e.settings.Results, Unrecorded: e.settings.Unrecorded, Log: e.settings.Log, Drain: e.Drain,
		}.Restore(ctx)
	}
	if err == nil {
		e.memory = memory
	}
	return err
}

// reread reads the phases from the record again.
func (e *Collection) reread(ctx context.Context) error {
	r, err := e.store.Evaluation(ctx, e.id)
	if err != nil {
		return err
	}
	e.phases = r.Phases
	e.tally.change(func(c *Counts) { c.Planned = planned(r) })
	return nil
}

// counted returns the outcome without the amount spent.
func (e *Collection) counted() Outcome {
	now := e.Counts()
	return Outcome{
		Record: e.settings.Record, Planned: now.Planned, Ended: now.Ended,
		Cancelled: e.cancelled, Stopped: e.stopped, Budget: e.budget, Paused: e.paused,
	}
}

// Outcome returns how Follow ended, and the evaluation's progress now. If its budget has stopped
// it, Outcome reads the amount spent from the results store.
func (e *Collection) Outcome(ctx context.Context) (Outcome, error) {
	o := e.counted()
	var err error
	if o.Stopped == record.StoppedByUntil && e.until != nil {
		if e.until.known == nil { // another process has found it
			err = e.until.check(ctx)
		}
		o.Known = e.until.known
		return o, err
	}
	if o.Stopped == "" || o.Budget == 0 {
		return o, nil
	}
	o.Spent, err = spent(ctx, e.id, e.settings.Results)
	return o, err
}

// End stores in the results store how the evaluation ended: that it was cancelled or has ended, or
// why it has stopped.
func (e *Collection) End(ctx context.Context, how Outcome) error {
	switch {
	case how.Cancelled:
		return e.settings.Results.Cancel(ctx, e.id, time.Now())
	case how.Early():
		return e.stop(ctx, how.Why())
	}
	return e.settings.Results.Finish(ctx, e.id, time.Now())
}

// stop stores why the evaluation has stopped. If the same reason is stored already, its time stays.
func (e *Collection) stop(ctx context.Context, why results.Stop) error {
	stored, err := e.settings.Results.Evaluation(ctx, e.id)
	if err != nil {
		return err
	}
	if noted := stored.Stopped; noted != nil && noted.Same(why) {
		return nil
	}
	return e.settings.Results.Stop(ctx, e.id, why)
}
