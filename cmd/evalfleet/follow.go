package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/results"
)

const (
	followEvery = time.Second
	// followTimeEach makes followEvery longer with each evaluation, so that many do not
	// keep Redis busy: a look at one costs five commands.
	followTimeEach = 8 * time.Millisecond
	// sweepEvery is how often those evaluations are looked at, too, of which no run is to
	// be pushed or to end any more: calls that end late are drained then. A fleet may have
	// thousands of them.
	sweepEvery = 30 * time.Second
	// stayTime is how long whoever submitted an evaluation has to drain it first, and what
	// a drain that stays waits after a failure, and any for room in a results store.
	stayTime = 10 * time.Second
)

// followers drain all evaluations, each in a goroutine of its own.
type followers struct {
	*drain
	swept time.Time // when all were looked at
	seen  map[eval.ID]store.Standing
	pause time.Duration // between looks

	mu    sync.Mutex // guards what follows
	busy  map[eval.ID]*news
	ended map[eval.ID]int  // how many runs had ended when all was drained
	said  map[eval.ID]bool // is not drained for now, which was said
	// failed ones are followed again, also where all is drained and only the end of the
	// evaluation is not stored yet.
	failed map[eval.ID]bool
}

// news of an evaluation that is watched together with others.
type news struct {
	moved atomic.Bool   // since it was asked about last
	woken chan struct{} // has room for one
}

// bring says that something is new.
func (n *news) bring() {
	n.moved.Store(true)
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// wakes tells of what is new; nil: never.
func (n *news) wakes() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.woken
}

// followAll drains every evaluation that has something to drain, now or later, until
// ctx ends.
func (d *drain) followAll(ctx context.Context) error {
	f := &followers{drain: d, pause: followEvery, busy: map[eval.ID]*news{}, ended: map[eval.ID]int{}, said: map[eval.ID]bool{}, failed: map[eval.ID]bool{}}
	d.opened = f.again
	group, ctx := errgroup.WithContext(ctx)
	spell := outage.Spell{Log: d.log, Fails: "cannot list evaluations; retrying", Works: "listing evaluations again"}
	for {
		ids, err := f.look(ctx)
		spell.Note(ctx, err)
		for _, id := range ids {
			group.Go(func() error { return f.one(ctx, id) })
		}
		select {
		case <-time.After(f.pause):
		case <-ctx.Done():
			return group.Wait()
		}
	}
}

// look finds the evaluations that are to be drained and that nobody here drains yet.
func (f *followers) look(ctx context.Context) ([]eval.ID, error) {
	list, all := f.store.Active, time.Since(f.swept) > sweepEvery
	if all {
		list = f.store.Evaluations
	}
	ids, err := list(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	ids = slices.AppendSeq(slices.AppendSeq(ids, maps.Keys(f.busy)), maps.Keys(f.failed))
	f.mu.Unlock()
	slices.Sort(ids)
	ids = slices.Compact(ids)
	standings, err := f.store.Standings(ctx, ids)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if all {
		f.swept = time.Now()
		maps.DeleteFunc(f.ended, func(id eval.ID, _ int) bool { return standings[id].Status == "" })
		maps.DeleteFunc(f.said, func(id eval.ID, _ bool) bool { return standings[id].Status == "" })
	}
	for id, n := range f.busy {
		if !standings[id].Same(f.seen[id]) {
			n.bring()
		}
	}
	f.seen = standings
	if !all {
		f.pause = max(followEvery, time.Duration(len(ids))*followTimeEach)
	}
	return slices.DeleteFunc(ids, func(id eval.ID) bool { return !f.takes(id, standings[id]) }), nil
}

// takes reports whether an evaluation is to be drained from now on.
func (f *followers) takes(id eval.ID, now store.Standing) bool {
	if f.busy[id] != nil {
		return false
	}
	ended, drained := f.ended[id]
	failed := f.failed[id] && now.Status != "" // else it is gone
	delete(f.failed, id)
	if !failed && now.Waiting == 0 && (now.Status != record.StatusActive || drained && ended == endedRuns(now)) {
		return false
	}
	f.busy[id] = &news{woken: make(chan struct{}, 1)}
	return true
}

func endedRuns(s store.Standing) int {
	return s.Total(eval.StateSucceeded) + s.Total(eval.StateFailed) + s.Total(eval.StateCancelled)
}

// one drains an evaluation to its end. An error is what ends all others, too.
func (f *followers) one(ctx context.Context, id eval.ID) error {
	var err error
	if f.stays {
		err = f.leave(ctx, id)
	}
	if err == nil {
		f.mu.Lock()
		n := f.busy[id]
		f.mu.Unlock()
		err = f.followOne(ctx, id, false, n)
	}
	var rest time.Duration
	switch {
	case err == nil, errors.Is(err, errCancelled):
		f.end(ctx, id)
	case (f.stays || errors.Is(err, results.ErrFull)) && ctx.Err() == nil:
		f.say(id, err)
		rest = stayTime
	case outage.Is(err) || errors.Is(err, results.ErrAway) || errors.Is(err, results.ErrNoEvaluation) || errors.Is(err, store.ErrNoEvaluation) || errors.Is(err, store.ErrUnreadable) || errors.Is(err, errForeignSink):
		f.say(id, err) // it may come back: Redis with its memory, the sink, or its submission
	default:
		return err
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, id)
	if rest > 0 {
		f.failed[id] = true
	}
	return nil
}

// end notes that all is drained of an evaluation. It is drained once more where failed
// runs are made again: then the number of those that have ended is another.
func (f *followers) end(ctx context.Context, id eval.ID) {
	standings, err := f.store.Standings(ctx, []eval.ID{id})
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ended, id)
	if err == nil {
		f.ended[id] = endedRuns(standings[id])
	}
}

// say says, once until it is over, that an evaluation is not drained.
func (f *followers) say(id eval.ID, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.said[id] {
		f.said[id] = true
		f.log.Warn().Str("evaluation", string(id)).Err(why).Msg("cannot drain results; retrying")
	}
}

// again says that an evaluation of which the contrary was said is drained.
func (f *followers) again(id eval.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said[id] {
		delete(f.said, id)
		f.log.Info().Str("evaluation", string(id)).Msg("draining results again")
	}
}

// leave leaves a new evaluation that names no results store for a moment to whoever
// submitted it.
func (d *drain) leave(ctx context.Context, id eval.ID) error {
	r, err := d.store.Evaluation(ctx, id)
	if err != nil || r.SinkURL != "" || r.Sink != "" {
		return err
	}
	select {
	case <-time.After(time.Until(r.Created.Add(stayTime))):
	case <-ctx.Done():
	}
	return ctx.Err()
}
