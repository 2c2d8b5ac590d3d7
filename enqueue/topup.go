package enqueue

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// How often TopUp looks at a queue's fill.
const (
	slowTick = time.Second
	fastTick = 20 * time.Millisecond
	idleTick = 2 * time.Second        // while another process holds the lock
	paceTime = 200 * time.Millisecond // the shortest time over which a pace is measured
	// lockLife is longer than the slowest tick, so that the holder keeps the lock.
	lockLife = 3 * time.Second
	// lookTimeEach makes ticks slower with each evaluation looked at, so that many do not keep
	// Redis busy: a look costs five commands.
	lookTimeEach = 10 * time.Millisecond
)

// unpinAfter is how long the limits of an evaluation stay pinned after it was deleted or cancelled,
// or ended early. Workers check every two seconds whether the evaluations that they hold are
// active, in case they missed the announcement.
const unpinAfter = 5 * time.Second

// TopUp keeps the queues of active evaluations filled. Any number of processes may run one. A short
// lock lets one of them work and saves the others the trouble; if two work at once, nothing is lost
// or pushed wrongly.
type TopUp struct {
	// Queued receives each task that this process has queued, with the time. It must not block.
	// nil: tasks are not reported.
	Queued func(task record.Task, at time.Time)

	store      *store.Store
	limits     Limits
	log        zerolog.Logger
	quarantine *quarantine.Quarantine
	lock       *store.Lock
	known      map[eval.ID]*known
	pace       map[string]*pace
	stalled    map[shareKey]stall
	mayLook    allowance // for the search for lost tasks
	waits      *undrained
	full       map[eval.ID]bool      // too many uncollected results; already logged
	short      bool                  // Redis is short of memory; already logged
	failed     map[eval.ID]bool      // in this tick
	dropped    map[eval.ID]time.Time // when evaluations were seen deleted, cancelled or ended early
	looks      map[eval.ID]*look     // the last look at each active evaluation
	beside     int                   // number of active evaluations that are never looked at
	next       time.Duration         // between the last two looks at busy evaluations
	used       float64               // largest share of its window that a queue lacked
}

// known is what has to run according to one revision of a record.
type known struct {
	record record.Evaluation
	plan   *eval.Evaluation
	plans  []*plan.Plan
}

// NewTopUp returns a TopUp; Run or Tick does the work. It must not be used by several goroutines at
// once.
func NewTopUp(s *store.Store, limits Limits, log zerolog.Logger) *TopUp {
	return &TopUp{
		store: s, limits: limits, log: log, quarantine: quarantine.New(log), lock: s.NewLock(s.Keys().TopUpLock(), lockLife), next: paceTime,
		known: map[eval.ID]*known{}, pace: map[string]*pace{}, stalled: map[shareKey]stall{}, full: map[eval.ID]bool{},
		waits: newUndrained(s), dropped: map[eval.ID]time.Time{},
		looks: map[eval.ID]*look{},
	}
}

// Run tops up until ctx ends, and then returns nil. It waits while Redis is unreachable.
func (t *TopUp) Run(ctx context.Context) error {
	spell := outage.Spell{Log: t.log, Fails: "cannot top up queues; retrying", Works: "topping up queues works again", Elsewhere: true}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := idleTick
		held, err := t.lock.Hold(ctx)
		if err == nil && held {
			next, err = t.step(ctx, time.Now())
		} else {
			clear(t.looks) // another process tops up
		}
		spell.Note(ctx, err)
		timer.Reset(next)
	}
}

// isolate handles an error that concerns only one evaluation, so that it does not stop the others.
// It returns any other error.
func (t *TopUp) isolate(id eval.ID, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNoEvaluation): // deleted meanwhile
		delete(t.known, id)
		return nil
	case t.quarantine.Takes(id, err):
		t.failed[id] = true
		return nil
	}
	return err
}

// sharesNow ends an evaluation that is complete or inactive. Otherwise, it returns the evaluation's
// shares of queues, by queue.
func (t *TopUp) sharesNow(ctx context.Context, id eval.ID, standing store.Standing, undrained verdict) (map[string][]*share, error) {
	switch {
	case standing.Unreadable != nil:
		return nil, standing.Unreadable
	case standing.Status == "" || standing.Status == record.StatusCancelled:
		return nil, t.drop(ctx, id)
	case standing.Status == record.StatusPaused && record.HasEnded(standing.Status, standing.Stopped):
		return nil, t.retire(ctx, id)
	}

	delete(t.dropped, id) // submitted again
	if standing.Status != record.StatusActive && standing.Status != record.StatusDone {
		return nil, nil
	}
	k, err := t.load(ctx, id, standing.Revision)
	if err != nil || k.record.Revision != standing.Revision { // it has changed since its state was read
		return nil, err
	}
	if t.complete(k, standing) {
		return nil, t.finish(ctx, k)
	}
	if t.holds(id, undrained, standing.Waiting) {
		return nil, nil
	}
	return t.sharesOf(ctx, k, standing)
}

// sharesOf returns an evaluation's shares of queues, by queue.
func (t *TopUp) sharesOf(ctx context.Context, k *known, standing store.Standing) (map[string][]*share, error) {
	shares := map[string][]*share{}
	for phase, p := range k.plans {
		for _, queue := range p.Queues() {
			if p.Open() || PausedQueue(k.plan, k.record.Phases[phase], queue, standing.Paused) {
				continue
			}
			cursor := min(standing.Pushed(phase, queue, p.Balanced()), p.Len(queue)) // the number in Redis may be wrong
			parked, err := parked(ctx, t.store, k.record, k.plan, p, phase, queue, cursor, standing.Paused)
			if err != nil {
				return nil, err
			}
			shares[queue] = append(shares[queue], &share{
				known: k, phase: phase, length: p.Len(queue),
				cursor: cursor, ended: standing.Ended(phase, queue), parked: parked, paused: standing.Paused,
				perTask: k.runsPerTask(phase, queue), fresh: true,
			})
		}
	}
	return shares, nil
}

// drop removes what the fleet has of an evaluation that was deleted or cancelled.
func (t *TopUp) drop(ctx context.Context, id eval.ID) error {
	if !t.inactive(id) {
		return nil
	}
	// Its calls in flight still count; the next tick tries again.
	if done, err := t.limits.ForgetSpent(ctx, string(id)); err != nil || !done {
		return err
	}
	return t.retire(ctx, id)
}

// inactive reports whether all workers know by now that an evaluation is no longer active.
func (t *TopUp) inactive(id eval.ID) bool {
	delete(t.known, id)
	since, known := t.dropped[id]
	if !known {
		t.dropped[id] = time.Now()
	}
	return known && time.Since(since) >= unpinAfter
}

// retire removes the tasks and limits of an evaluation that is no longer active. It removes the
// limits last: a call that still waits for admission must not be admitted without them.
func (t *TopUp) retire(ctx context.Context, id eval.ID) error {
	if !t.inactive(id) {
		return nil
	}
	// Again, because workers held some of its tasks, and another process may have been pushing
	// others.
	if err := remove(ctx, t.store, id, true); err != nil {
		return err
	}
	if err := unpin(ctx, t.store, t.limits, id); err != nil {
		return err
	}
	delete(t.dropped, id)
	return nil
}

// share is one phase's part of a queue.
type share struct {
	*known
	phase, length, cursor, ended int

	// For a group with paused providers: parked is how many of their runs were skipped or dropped,
	// and paused holds the providers.
	parked int
	paused map[string]record.Pause

	perTask float64 // runs that one task completes; 1 except for panels asked together, and batches
	fresh   bool    // read in this tick; other shares count, but get nothing
}

// outstanding returns about how many of its tasks were pushed and have not ended.
func (s *share) outstanding() int {
	return int(math.Ceil(max(float64(s.cursor-s.ended-s.parked), 0) / s.perTask))
}

// load reads an evaluation, unless its revision is still the one remembered.
func (t *TopUp) load(ctx context.Context, id eval.ID, revision record.Revision) (*known, error) {
	if k, ok := t.known[id]; ok && k.record.Revision == revision {
		return k, nil
	}
	r, e, plans, err := Read(ctx, t.store, id)
	if err != nil {
		return nil, err
	}
	t.known[id] = &known{record: r, plan: e, plans: plans}
	return t.known[id], nil
}

// complete reports whether every run has ended and no open phase has runs to come.
func (t *TopUp) complete(k *known, standing store.Standing) bool {
	for phase, p := range k.plans {
		if p.Open() {
			return false
		}
		for _, queue := range p.Queues() {
			if standing.Ended(phase, queue) < p.Len(queue) {
				return false
			}
		}
	}
	return true
}

func (t *TopUp) finish(ctx context.Context, k *known) error {
	id := k.record.ID
	delete(t.known, id) // even if it is not done: then something has changed
	done, err := t.store.Finish(ctx, k.record)
	if err != nil || !done {
		return err
	}
	// A task that was pushed twice may be left.
	if err := clearTasks(ctx, t.store, id, k.record.QueueNames(), gate.Unpulled); err != nil {
		return err
	}
	return unpin(ctx, t.store, t.limits, id)
}

// holds reports whether an evaluation gets no more runs for now. It logs the reason once.
func (t *TopUp) holds(id eval.ID, v verdict, waiting int64) bool {
	if v.memory != t.short {
		t.short = v.memory
		if v.memory {
			t.log.Warn().Msg("Redis is low on memory; pushing no more runs until results are collected or memory is added")
		} else {
			t.log.Info().Msg("Redis has memory again; pushing runs")
		}
	}
	if v.held[id] && !t.full[id] {
		t.log.Warn().Str("evaluation", string(id)).Int64("results", waiting).
			Msg("too many results wait to be collected; pushing no more runs until `evalfleet collect` has drained them")
	}
	t.full[id] = v.held[id]
	return v.memory || v.held[id]
}

// fill pushes the tasks that a queue's shares lack.
func (t *TopUp) fill(ctx context.Context, queue string, shares []*share) error {
	window := t.measure(queue, shares)
	window = max(window/(1+t.beside), min(window, smallWindow))
	var priorities, ended, missing, outstanding int
	for _, s := range shares {
		if s.cursor < s.length {
			priorities += max(s.record.Settings.Priority, 1)
		}
		ended += s.ended
		missing += s.length - s.ended
		outstanding += s.outstanding()
	}

	if missing == 0 {
		return nil
	}
	active, err := gate.Active(ctx, t.store.Client(), queue)
	if err != nil {
		return err
	}

	filled := false
	for _, s := range shares {
		if s.cursor >= s.length || !s.fresh {
			continue
		}
		want := max(window*max(s.record.Settings.Priority, 1)/priorities, 1)
		waiting := s.outstanding()
		if outstanding > 0 { // assume that those begun are spread evenly over all shares
			waiting -= min(active, outstanding) * waiting / outstanding
		}
		lacking := want - waiting
		t.used = max(t.used, float64(lacking)/float64(want))
		if lacking*16 < want { // too few for a pipeline
			continue
		}
		pushed, err := t.pushShare(ctx, queue, s, min(lacking, want))
		filled = filled || pushed
		if err := t.isolate(s.record.ID, err); err != nil {
			return err
		}
	}

	for _, s := range shares {
		if !s.fresh {
			continue
		}
		pushed, err := t.pushLost(ctx, queue, s)
		filled = filled || pushed
		if err := t.isolate(s.record.ID, err); err != nil {
			return err
		}
	}

	if filled {
		return t.store.AnnounceFilled(ctx, queue)
	}
	return nil
}

// pushShare pushes up to n of a share's runs that have not ended, from its cursor on, and moves the
// cursor past them. It pushes first: if it is killed in between, the range is pushed again, and
// existing tasks are unchanged.
func (t *TopUp) pushShare(ctx context.Context, queue string, s *share, n int) (pushed bool, err error) {
	p := s.plans[s.phase]
	for n > 0 && s.cursor < s.length {
		end := min(s.cursor+min(max(n, smallWindow), pushBatch), s.length)
		_, end = s.groupsOf(s.phase, queue).around(s.cursor, end, s.length) // one task for each of these groups
		tasks, err := t.tasksAt(ctx, queue, s, s.cursor, end)
		if err != nil {
			return pushed, err
		}
		if err := push(ctx, t.store, queue, tasks, s.record.Keeps, withTime(t.Queued)); err != nil {
			return pushed, err
		}
		pushed = pushed || len(tasks) > 0
		moved, err := t.store.Advance(ctx, s.record, record.CursorField(s.phase, queue, p.Balanced()), s.cursor, end)
		if errors.Is(err, store.ErrNoEvaluation) { // deleted meanwhile, with the tasks that were there then
			err = errors.Join(err, remove(ctx, t.store, s.record.ID, false))
		}
		if err != nil {
			return pushed, err
		}
		if !moved { // another process tops up this queue, or the evaluation has changed
			return pushed, nil
		}
		n -= len(tasks)
		s.cursor = end
	}

	return pushed, nil
}

// tasksAt returns the tasks that should be in a queue now of the runs at positions from `from` on and before `to`.
func (t *TopUp) tasksAt(ctx context.Context, queue string, s *share, from, to int) ([]record.Task, error) {
	p, g := s.plans[s.phase], s.groupsOf(s.phase, queue)
	first, last := g.around(from, to, s.length)
	states, err := t.store.StatesIn(ctx, s.record.ID, s.phase, s.spans(queue, first, last))
	if err != nil {
		return nil, err
	}
	g.lead(p, queue, first, last, states)
	tasks := make([]record.Task, 0, (to-from)/max(g.size, 1)+1)
	for i := from; i < to; i++ {
		run := p.At(queue, i)
		if next, ok := s.taskOf(p, run, states); ok {
			var waits bool
			if next.Batch, waits = g.place(i, run, states.Of(run.Index), s.length); !waits {
				tasks = append(tasks, next)
			}
		}
	}
	return tasks, nil
}

// taskOf returns the task of a run that should be in its queue now. states are those of the run and
// its leader. It returns false if the run has ended, its provider is paused, or
// it waits for its leader.
func (s *share) taskOf(p *plan.Plan, run plan.Run, states store.States) (record.Task, bool) {
	state, generation := record.ParseStateByte(states.Of(run.Index))
	_, paused := s.paused[s.plan.JudgesOf(p.Kind())[run.Judge].Provider]
	if state != eval.StateNone || paused || s.waits(p, run, states.Of(s.leader(p, run))) {
		return record.Task{}, false
	}
	next := TaskOf(s.record.ID, s.plan, s.phase, p.Kind(), run)
	next.Generation = generation
	return next, true
}
