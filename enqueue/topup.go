package enqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
)

// How often a queue's fill is looked at.
const (
	slowTick = time.Second
	fastTick = 20 * time.Millisecond
	idleTick = 2 * time.Second        // where another process holds the lock
	paceTime = 200 * time.Millisecond // the least over which a pace is measured
	// lockLife outlives the slowest tick, so that the holder keeps the lock.
	lockLife = 3 * time.Second
)

// stallTime is how long no run of a queue may end before it is asked whether
// its tasks are still there.
const stallTime = 5 * time.Second

// unpinAfter is how long the limits of a deleted or cancelled evaluation stay
// pinned: workers look every two seconds whether what they hold goes on, also
// when they missed that it was announced.
const unpinAfter = 5 * time.Second

// undrainedBound is how much of results may wait for a collector before no more
// runs are pushed.
const undrainedBound = 256 << 20

// TopUp keeps the queues of active evaluations filled. Any number of processes
// may run one: a short lock lets one of them work and saves the others the
// trouble, and nothing is lost or pushed wrongly when two work at once.
type TopUp struct {
	// Queued is told of each task that this process has put into its queue, and
	// when. It must not block. nil: nobody.
	Queued func(task record.Task, at time.Time)

	store   *store.Store
	limits  Limits
	log     zerolog.Logger
	id      string
	known   map[eval.ID]*known
	pace    map[string]*pace
	stalled map[string]stall
	full    map[eval.ID]bool      // results wait to be collected, said once
	dropped map[eval.ID]time.Time // deleted or cancelled, and since when that is known
	holder  bool                  // of the lock, when it last looked
	next    time.Duration         // between the last two looks
	used    float64               // the most that a queue lacked of its window, as a share of it
}

// known is what does not change while an evaluation is active.
type known struct {
	record record.Evaluation
	plan   *eval.Evaluation
	plans  []*plan.Plan
}

// stall is since when no run of a queue has ended.
type stall struct {
	ended int
	since time.Time
}

// NewTopUp makes a TopUp; Run or Tick does the work. It is for one goroutine.
func NewTopUp(s *store.Store, limits Limits, log zerolog.Logger) *TopUp {
	return &TopUp{
		store: s, limits: limits, log: log, id: rand.Text(), next: paceTime,
		known: map[eval.ID]*known{}, pace: map[string]*pace{}, stalled: map[string]stall{}, full: map[eval.ID]bool{}, dropped: map[eval.ID]time.Time{},
	}
}

// Run tops up until ctx ends, and returns nil then. Redis going away is waited
// out.
func (t *TopUp) Run(ctx context.Context) error {
	var away bool
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := idleTick
		held, err := t.lock(ctx)
		if err == nil && held {
			err = t.Tick(ctx)
			next = t.nextTick()
		}
		switch {
		case err != nil && ctx.Err() == nil && !away:
			level := zerolog.WarnLevel
			if outage.Is(err) { // the worker says so itself
				level = zerolog.DebugLevel
			}
			t.log.WithLevel(level).Err(err).Msg("cannot top up queues; trying again")
			away = true
		case err == nil && away:
			t.log.Debug().Msg("topping up queues again")
			away = false
		}
		timer.Reset(next)
	}
}

// lock takes or keeps the lock.
func (t *TopUp) lock(ctx context.Context) (held bool, err error) {
	defer func() { t.holder = held }()
	client, key := t.store.Client(), t.store.Keys().TopUpLock()
	if t.holder {
		switch holder, err := client.GetEx(ctx, key, lockLife).Result(); {
		case err == nil:
			return holder == t.id, nil
		case !errors.Is(err, redis.Nil):
			return false, fmt.Errorf("keep the lock: %w", err)
		}
	}
	if held, err = client.SetNX(ctx, key, t.id, lockLife).Result(); err != nil {
		return false, fmt.Errorf("take the lock: %w", err)
	}
	return held, nil
}

// Tick looks at every active evaluation once, ends those that are complete, and
// pushes what each queue lacks.
func (t *TopUp) Tick(ctx context.Context) error {
	ids, err := t.store.Active(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	standings, err := t.store.Standings(ctx, ids)
	if err != nil {
		return err
	}
	t.used = 0
	shares := map[string][]*share{} // by queue
	for _, id := range ids {
		standing := standings[id]
		if standing.Status == "" || standing.Status == record.StatusCancelled {
			if err := t.drop(ctx, id); err != nil {
				return err
			}
			continue
		}
		delete(t.dropped, id) // submitted again
		if standing.Status != record.StatusActive && standing.Status != record.StatusDone {
			delete(t.known, id) // its settings may change before it goes on
			continue
		}
		k, err := t.load(ctx, id, standing.Chosen)
		if err != nil {
			return err
		}
		if t.complete(k, standing) {
			if err := t.finish(ctx, k); err != nil {
				return err
			}
			continue
		}
		if wait, err := t.undrained(ctx, id, standing); err != nil || wait {
			if err != nil {
				return err
			}
			continue
		}
		for phase, p := range k.plans {
			for _, queue := range p.Queues() {
				if p.Open() || PausedQueue(k.plan, k.record.Phases[phase], queue, standing.Paused) {
					continue
				}
				cursor := standing.Pushed(phase, queue)
				parked, err := parked(ctx, t.store, k.record, k.plan, p, phase, queue, cursor, standing.Paused)
				if err != nil {
					return err
				}
				shares[queue] = append(shares[queue], &share{
					known: k, phase: phase, length: p.Len(queue),
					cursor: cursor, ended: standing.Ended(phase, queue), parked: parked, paused: standing.Paused,
					perTask: k.runsPerTask(phase, queue),
				})
			}
		}
	}
	for queue, of := range shares {
		if err := t.fill(ctx, queue, of); err != nil {
			return fmt.Errorf("fill queue %s: %w", queue, err)
		}
	}
	return nil
}

// drop ends the part in the fleet of an evaluation that was deleted or
// cancelled. Its limits go last: a call that still waits for admission must not
// be admitted without them.
func (t *TopUp) drop(ctx context.Context, id eval.ID) error {
	delete(t.known, id)
	since, known := t.dropped[id]
	switch {
	case !known:
		t.dropped[id] = time.Now()
		return nil
	case time.Since(since) < unpinAfter:
		return nil
	}
	// Its calls in flight still count; the next tick asks again.
	if done, err := t.limits.ForgetSpent(ctx, string(id)); err != nil || !done {
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

	// Of a group, some of whose providers are paused: how many of their runs were passed
	// over or dropped, and who is.
	parked int
	paused map[string]record.Pause

	perTask float64 // runs that one task carries out; 1 but for panels that are asked together
}

// outstanding is about how many of its tasks were pushed and have not ended.
func (s *share) outstanding() int {
	return int(math.Ceil(max(float64(s.cursor-s.ended-s.parked), 0) / s.perTask))
}

// load reads an evaluation, or remembers it if no phase was chosen since.
func (t *TopUp) load(ctx context.Context, id eval.ID, chosen int) (*known, error) {
	if k, ok := t.known[id]; ok && k.record.Chosen >= chosen {
		return k, nil
	}
	r, err := t.store.WithChoices(ctx, id)
	if err != nil {
		return nil, err
	}
	e, err := t.store.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	plans, err := Plans(e, r)
	if err != nil {
		return nil, err
	}
	t.known[id] = &known{record: r, plan: e, plans: plans}
	return t.known[id], nil
}

// complete reports whether every run has ended and none is still to come of a phase
// that is open.
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
	done, err := t.store.Finish(ctx, k.record)
	if err != nil || !done {
		return err
	}
	id := k.record.ID
	delete(t.known, id)
	if err := unpin(ctx, t.store, t.limits, id); err != nil {
		return err
	}
	// Whoever has had failed runs made again meanwhile pinned the limits before.
	r, err := t.store.Evaluation(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) || err == nil && r.Status != record.StatusActive {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.limits.Register(ctx, string(id), r.Settings.Limits); err != nil {
		return fmt.Errorf("pin limits of %s: %w", id, err)
	}
	return t.store.Activate(ctx, id)
}

// undrained reports whether so many results wait for a collector that no more
// runs are to be started.
func (t *TopUp) undrained(ctx context.Context, id eval.ID, standing store.Standing) (bool, error) {
	full := false
	if standing.Waiting > 10_000 { // below, not even long answers reach the bound
		// Redis adds up the whole, in some milliseconds: the first nodes of a stream, which
		// it would take for all, may hold short answers.
		size, err := t.store.Client().MemoryUsage(ctx, t.store.Keys().Results(id), 0).Result()
		if err != nil {
			return false, fmt.Errorf("measure undrained results of %s: %w", id, err)
		}
		full = size > undrainedBound
	}
	if full && !t.full[id] {
		t.log.Warn().Str("evaluation", string(id)).Int64("results", standing.Waiting).
			Msg("results wait to be collected; no more runs are pushed until `evalfleet collect` has drained them")
	}
	t.full[id] = full
	return full, nil
}

// fill pushes what a queue's shares lack.
func (t *TopUp) fill(ctx context.Context, queue string, shares []*share) error {
	window := t.measure(queue, shares)
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
		if s.cursor >= s.length {
			continue
		}
		want := max(window*max(s.record.Settings.Priority, 1)/priorities, 1)
		waiting := s.outstanding()
		if outstanding > 0 { // those begun are taken to be of all shares alike
			waiting -= min(active, outstanding) * waiting / outstanding
		}
		lacking := want - waiting
		t.used = max(t.used, float64(lacking)/float64(want))
		if lacking*16 < want { // not worth a pipeline yet
			continue
		}
		pushed, err := t.pushShare(ctx, queue, s, min(lacking, want))
		if errors.Is(err, store.ErrNoEvaluation) { // deleted meanwhile
			delete(t.known, s.record.ID)
			continue
		}
		if err != nil {
			return err
		}
		filled = filled || pushed
	}
	if filled {
		delete(t.stalled, queue)
		return t.store.AnnounceFilled(ctx, queue)
	}
	before, known := t.stalled[queue]
	switch {
	case !known || before.ended != ended:
		t.stalled[queue] = stall{ended: ended, since: time.Now()}
	case time.Since(before.since) > stallTime:
		delete(t.stalled, queue)
		return t.rewindLost(ctx, queue, shares)
	}
	return nil
}

// pushShare pushes up to n of a share's runs that have not ended, from its
// cursor on, and moves the cursor behind them. The push comes first: killed in
// between, the range is pushed again, and a task that exists is left alone.
func (t *TopUp) pushShare(ctx context.Context, queue string, s *share, n int) (pushed bool, err error) {
	p := s.plans[s.phase]
	for n > 0 && s.cursor < s.length {
		end := min(s.cursor+min(max(n, smallWindow), pushBatch), s.length)
		first, last := s.firstOf(p, p.At(queue, s.cursor).Index), p.At(queue, end-1).Index
		states, err := t.store.States(ctx, s.record.ID, s.phase, first, last)
		if err != nil {
			return pushed, err
		}
		tasks := make([]record.Task, 0, end-s.cursor)
		for i := s.cursor; i < end; i++ {
			run := p.At(queue, i)
			state, generation := record.ParseStateByte(states[run.Index-first])
			_, paused := s.paused[s.plan.Asked(p.Kind())[run.Judge].Provider]
			if state == eval.StateNone && !paused && !s.waits(p, run, states[s.leader(p, run)-first]) {
				next := task(s.record.ID, s.plan, s.phase, p.Kind(), run)
				next.Generation = generation
				tasks = append(tasks, next)
			}
		}
		if err := push(ctx, t.store.Client(), queue, tasks, s.record.Keeps, told(t.Queued)); err != nil {
			return pushed, err
		}
		pushed = pushed || len(tasks) > 0
		moved, err := t.store.Advance(ctx, s.record.ID, s.phase, queue, s.cursor, end)
		if err != nil {
			return pushed, err
		}
		if !moved { // another process tops this queue up as well
			return pushed, nil
		}
		n -= len(tasks)
		s.cursor = end
	}
	return pushed, nil
}

// rewindLost sets the cursors of a queue back when runs are missing from it:
// they were pushed, have not ended, and asynq holds no task. That happens when
// tasks were deleted by hand, or dropped while the evaluation was paused.
// Recorded runs are passed over when the range is pushed again.
func (t *TopUp) rewindLost(ctx context.Context, queue string, shares []*share) error {
	info, err := asynq.NewInspectorFromRedisClient(t.store.Client()).GetQueueInfo(queue)
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound): // everything in it is gone
	case err != nil:
		return fmt.Errorf("inspect: %w", err)
	case info.Pending+info.Active+info.Scheduled+info.Retry > 0:
		return nil // they only take their time
	}
	for _, s := range shares {
		if s.cursor <= s.ended+s.parked {
			continue
		}
		if _, err := t.store.Advance(ctx, s.record.ID, s.phase, queue, s.cursor, 0); err != nil {
			return err
		}
		t.log.Warn().Str("evaluation", string(s.record.ID)).Str("queue", queue).Int("runs", s.cursor-s.ended-s.parked).
			Msg("tasks are missing from the queue; pushing them again")
	}
	return nil
}
