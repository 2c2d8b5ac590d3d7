package enqueue

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

// stallTimes are how long no run of a share may end before its tasks are searched for: longer with each search, because
// the tasks may all be there, and calls take long.
var stallTimes = backoff.Waits{First: 5 * time.Second, Longest: 2 * time.Minute, Factor: 2}

// Searching for a task costs a command. If many evaluations stall at once, tasksPerSecond are
// searched for, after tasksAtOnce at the beginning.
const (
	tasksPerSecond = 500
	tasksAtOnce    = largestWindow
)

// allowance is how many more tasks may be searched for.
type allowance struct {
	tasks float64
	at    time.Time
}

// take reports whether n more tasks may be searched for. A share may have more tasks than are ever
// allowed at once, so the last one taken may exceed the allowance.
func (a *allowance) take(n int, now time.Time) bool {
	if a.at.IsZero() {
		a.tasks = tasksAtOnce
	} else {
		a.tasks = min(a.tasks+now.Sub(a.at).Seconds()*tasksPerSecond, tasksAtOnce)
	}
	a.at = now
	if a.tasks <= 0 {
		return false
	}
	a.tasks -= float64(n)
	return true
}

// shareKey identifies one phase's part of a queue.
type shareKey struct {
	evaluation eval.ID
	phase      int
	queue      string
}

// stall says since when no run of a share has ended and none was pushed.
type stall struct {
	ended, cursor int
	since         time.Time
	searches      int // for its tasks
}

// pushLost pushes again the missing runs of a stalled share: runs that were pushed and have not
// ended, and for which asynq has no task that can be pulled. Tasks are lost when a user deletes or
// archives them, or when Redis loses them. A worker also drops them because of a pause that may
// have ended since.
func (t *TopUp) pushLost(ctx context.Context, queue string, s *share) (pushed bool, err error) {
	key := shareKey{s.record.ID, s.phase, queue}
	if s.cursor <= s.ended+s.parked {
		delete(t.stalled, key)
		return false, nil
	}
	now := time.Now()
	before, known := t.stalled[key]
	switch {
	case !known || before.ended != s.ended || before.cursor != s.cursor:
		t.stalled[key] = stall{ended: s.ended, cursor: s.cursor, since: now}
		return false, nil
	case now.Sub(before.since) <= stallTimes.After(before.searches) || !t.mayLook.take(s.cursor-s.ended, now):
		return false, nil
	}

	lost, err := t.lost(ctx, queue, s)
	if err != nil {
		return false, err
	}
	t.stalled[key] = stall{ended: s.ended, cursor: s.cursor, since: now, searches: before.searches + 1}
	if len(lost) == 0 {
		return false, nil
	}
	t.log.Warn().Str("evaluation", string(s.record.ID)).Str("queue", queue).Int("runs", len(lost)).
		Msg("tasks are missing from the queue; pushing them again")
	return true, push(ctx, t.store, queue, lost, s.record.Keeps, withTime(t.Queued))
}

// lost returns the tasks of a share's runs that should be in the queue and are not.
func (t *TopUp) lost(ctx context.Context, queue string, s *share) ([]record.Task, error) {
	wanted, err := t.tasksAt(ctx, queue, s, 0, s.cursor)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(wanted))
	for i, task := range wanted {
		ids[i] = task.ID()
	}
	there, err := gate.Pullable(ctx, t.store.Client(), queue, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(wanted, func(t record.Task) bool { return there[t.ID()] }), nil
}
