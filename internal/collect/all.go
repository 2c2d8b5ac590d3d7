package collect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	followEvery = time.Second
	// followTimeEach makes followEvery longer with each evaluation, so that many do not keep Redis
	// busy: reading the state of one costs five commands.
	followTimeEach = 8 * time.Millisecond
	// sweepEvery is how often FollowAll also looks at evaluations that have no run left to push or
	// to end. It then drains calls that end late, and evaluations that ended between two looks
	// while their announcement was lost. A fleet may have thousands of them.
	sweepEvery = 30 * time.Second
	// stayTime is how long the process that submitted an evaluation has to drain it first. It is
	// also how long FollowAll waits after a failure, and Follow for room in a results store.
	stayTime = 10 * time.Second
)

// followers drain all evaluations, each in its own goroutine.
type followers struct {
	*Collector
	swept  time.Time // when all were last looked at
	seen   map[eval.ID]store.Standing
	pause  time.Duration // between looks
	limits *ratelimit.Admin

	mu sync.Mutex // guards the fields below
	// memory is that of Redis's limits, once its grace period is over. When it changes, every
	// evaluation checks whether Redis has lost something of it.
	memory string
	busy   map[eval.ID]*news
	ended  map[eval.ID]int  // number of ended runs when all was drained
	said   map[eval.ID]bool // already logged: these cannot be drained
	// stopped evaluations are followed again as soon as they resume, so that their results stores
	// record it.
	stopped map[eval.ID]bool
	// failed evaluations are followed again, even if all is drained and only the end of the
	// evaluation is not stored yet.
	failed map[eval.ID]bool
	// announced evaluations were submitted or changed since the last look. They may have ended
	// since.
	announced map[eval.ID]bool
	missed    bool // announcements may have been missed since the last look
	// silent evaluations have ended without a result in their record. The value is true once this
	// has lasted longer than the process that collected them needs to write one.
	silent map[eval.ID]bool
}

func newFollowers(f *Collector) *followers {
	return &followers{
		Collector: f, limits: f.Limits(), pause: followEvery, busy: map[eval.ID]*news{}, ended: map[eval.ID]int{},
		said: map[eval.ID]bool{}, stopped: map[eval.ID]bool{}, failed: map[eval.ID]bool{}, announced: map[eval.ID]bool{},
		silent: map[eval.ID]bool{},
	}
}

// news wakes the collector of one of many evaluations that are followed together.
type news struct {
	moved atomic.Bool   // something has changed since Redis was last asked
	woken chan struct{} // has a buffer of one
	// memory returns that of Redis's limits; empty: unknown, or not to be used yet.
	memory func() string
}

func (n *news) bring() {
	n.moved.Store(true)
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// wakes returns a channel that receives when something is new; nil: never.
func (n *news) wakes() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.woken
}

// FollowAll drains every evaluation that has something to drain, now or later, until ctx ends. It
// logs outages, and failures that may pass, and waits for their end. The error is an
// *InterruptedError if an evaluation was being followed when ctx ended.
func (f *Collector) FollowAll(ctx context.Context) error {
	all := newFollowers(f)
	group, ctx := errgroup.WithContext(ctx)
	spell := outage.Spell{Log: all.Log, Fails: "cannot list evaluations; retrying", Works: "listing evaluations again"}
	group.Go(func() error { all.listen(ctx); return nil })
	for {
		ids, err := all.findDue(ctx)
		spell.Note(ctx, err)
		for _, id := range ids {
			group.Go(func() error { return all.one(ctx, id) })
		}
		if outage.Pause(ctx, all.pause) != nil {
			return group.Wait()
		}
	}
}

// listen notes which evaluations are announced, until ctx ends.
func (f *followers) listen(ctx context.Context) {
	f.Store.Listen(ctx, func(string) {}, func(id eval.ID) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.announced[id] = true
	}, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.missed = true
	})
}

// findDue returns the evaluations that must be drained and that this process is not draining yet.
func (f *followers) findDue(ctx context.Context) (due []eval.ID, err error) {
	f.mu.Lock()
	announced, missed := f.announced, f.missed
	f.announced, f.missed = map[eval.ID]bool{}, false
	f.mu.Unlock()
	defer func() {
		if err != nil {
			f.mu.Lock()
			maps.Copy(f.announced, announced)
			f.missed = f.missed || missed
			f.mu.Unlock()
		}
	}()

	list, all := f.Store.Active, time.Since(f.swept) > sweepEvery
	if all || missed {
		list = f.Store.Evaluations
	}
	ids, err := list(ctx)
	if err != nil {
		return nil, err
	}

	ids = slices.AppendSeq(ids, maps.Keys(announced))
	f.mu.Lock()
	ids = slices.AppendSeq(slices.AppendSeq(ids, maps.Keys(f.busy)), maps.Keys(f.failed))
	f.mu.Unlock()
	slices.Sort(ids)
	ids = slices.Compact(ids)
	standings, err := f.Store.Standings(ctx, ids)
	if err != nil {
		return nil, err
	}

	memory, grace, err := f.limits.Memory(ctx)
	if err != nil {
		return nil, err
	}
	concluded, err := f.concluded(ctx, standings)
	if err != nil {
		return nil, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	anew := memory != f.memory && grace <= 0
	if anew {
		f.memory = memory
	}
	if all {
		f.swept = time.Now()
		before := f.silent
		f.silent = map[eval.ID]bool{}
		for id, has := range concluded {
			if !has && f.Conclude != nil && standings[id].Waiting == 0 {
				_, f.silent[id] = before[id]
			}
		}
		maps.DeleteFunc(f.ended, func(id eval.ID, _ int) bool { return standings[id].Status == "" })
		for _, of := range []map[eval.ID]bool{f.said, f.stopped} {
			maps.DeleteFunc(of, func(id eval.ID, _ bool) bool { return standings[id].Status == "" })
		}
	}

	for id, has := range concluded {
		if has && standings[id].Stopped != "" {
			f.stopped[id] = true
		}
	}

	for id, n := range f.busy {
		if anew || !standings[id].Same(f.seen[id]) {
			n.bring()
		}
	}

	f.seen = standings
	if !all && !missed {
		f.pause = max(followEvery, time.Duration(len(ids))*followTimeEach)
	}
	return slices.DeleteFunc(ids, func(id eval.ID) bool { return !f.mustDrain(id, standings[id]) }), nil
}

// concluded returns which evaluations have a result in their record. It asks about evaluations that
// have ended without this process noticing: another process has handled their end, or this one
// before it was restarted.
func (f *followers) concluded(ctx context.Context, standings map[eval.ID]store.Standing) (map[eval.ID]bool, error) {
	var ended []eval.ID
	f.mu.Lock()
	for id, now := range standings {
		_, met := f.ended[id]
		if record.HasEnded(now.Status, now.Stopped) && f.busy[id] == nil && !met && !f.stopped[id] {
			ended = append(ended, id)
		}
	}
	f.mu.Unlock()
	return f.Store.Concluded(ctx, ended)
}

// mustDrain reports whether an evaluation must be drained from now on.
func (f *followers) mustDrain(id eval.ID, now store.Standing) bool {
	if f.busy[id] != nil {
		return false
	}
	ended, drained := f.ended[id]
	failed := (f.failed[id] || f.silent[id]) && now.Status != "" // otherwise it was deleted
	delete(f.failed, id)
	resumed := f.stopped[id] && now.Status == record.StatusActive && len(now.Paused) == 0
	stopped := now.Stopped != "" && !f.stopped[id] // its results store must record that
	if !failed && !resumed && !stopped && now.Waiting == 0 && (now.Status != record.StatusActive || drained && ended == endedRuns(now)) {
		return false
	}
	delete(f.stopped, id)
	f.busy[id] = &news{woken: make(chan struct{}, 1), memory: f.memoryNow}
	return true
}

func (f *followers) memoryNow() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.memory
}

func endedRuns(s store.Standing) int {
	return s.Total(eval.StateSucceeded) + s.Total(eval.StateFailed) + s.Total(eval.StateCancelled)
}

// one drains an evaluation to its end. An error ends all others, too.
func (f *followers) one(ctx context.Context, id eval.ID) error {
	var err error
	var outcome Outcome
	if f.Stays {
		err = f.letSubmitterOpen(ctx, id)
	}
	if err == nil {
		f.mu.Lock()
		n := f.busy[id]
		f.mu.Unlock()
		outcome, err = f.follow(ctx, id, following{stops: true, news: n, opened: f.again})
	}

	var rest time.Duration
	switch {
	case err == nil:
		f.end(ctx, id, outcome.Early())
	case errors.Is(err, results.ErrOtherStore) && f.drained(ctx, id): // its collector concludes it
		f.end(ctx, id, false)
	case (f.Stays || errors.Is(err, results.ErrFull)) && ctx.Err() == nil:
		f.say(id, err)
		rest = stayTime
	case f.passes(err):
		f.say(id, err)
	default:
		return err
	}

	_ = outage.Pause(ctx, rest)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, id)
	if rest > 0 {
		f.failed[id] = true
	}
	return nil
}

// passes reports whether an error may pass, or concerns one evaluation alone. Redis may come back
// with its memory, the results store may come back, and the evaluation may be submitted again.
func (f *followers) passes(err error) bool {
	for _, passing := range []error{results.ErrAway, results.ErrNoEvaluation, store.ErrNoEvaluation, store.ErrUnreadable} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return outage.Temporary(err) || f.refused(err)
}

func (f *Collector) refused(err error) bool { return f.Refused != nil && f.Refused(err) }

// end notes that all of an evaluation is drained, and whether it has stopped. It is drained again
// when failed runs are retried, because the number of ended runs differs then.
func (f *followers) end(ctx context.Context, id eval.ID, stopped bool) {
	standings, err := f.Store.Standings(ctx, []eval.ID{id})
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ended, id)
	if stopped {
		f.stopped[id] = true
	}
	if err == nil {
		f.ended[id] = endedRuns(standings[id])
	}
}

// drained reports whether an evaluation has ended and none of its results wait in Redis.
func (f *followers) drained(ctx context.Context, id eval.ID) bool {
	standings, err := f.Store.Standings(ctx, []eval.ID{id})
	now := standings[id]
	return err == nil && now.Waiting == 0 && record.HasEnded(now.Status, now.Stopped)
}

// say logs that an evaluation cannot be drained; once, until it can be drained again.
func (f *followers) say(id eval.ID, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.said[id] {
		f.said[id] = true
		f.Log.Warn().Str("evaluation", string(id)).Err(why).Msg("cannot drain results; retrying")
	}
}

// again logs that an evaluation can be drained again.
func (f *followers) again(id eval.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said[id] {
		delete(f.said, id)
		f.Log.Info().Str("evaluation", string(id)).Msg("draining results again")
	}
}

// letSubmitterOpen waits until the process that submitted a new evaluation has had time to open its results
// store, unless the evaluation names one.
func (f *followers) letSubmitterOpen(ctx context.Context, id eval.ID) error {
	r, err := f.Store.Evaluation(ctx, id)
	if err != nil || r.ResultsURL != "" || r.ResultsID != "" {
		return err
	}
	// Created is on the submitter's clock.
	return outage.Pause(ctx, min(time.Until(r.Created.Add(stayTime)), stayTime))
}
