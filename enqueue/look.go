package enqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
)

// look is the result of a TopUp's last look at an active evaluation. TopUp looks less and less
// often at an evaluation that has not changed since the look before.
type look struct {
	standing store.Standing
	shares   map[string][]*share // by queue
	busy     bool                // it had changed since the look before
	same     int                 // looks in a row that had found no change since the one before
	next     time.Time           // while nothing changes
}

// due reports whether it is time for another look.
func (l *look) due(now time.Time) bool { return l == nil || l.busy || !now.Before(l.next) }

// after returns the look that follows l, which is nil before the first.
func (l *look) after(standing store.Standing, now time.Time, longest time.Duration) *look {
	next := &look{standing: standing}
	if l != nil && l.standing.Same(standing) {
		next.same = l.same + 1
	} else {
		next.busy = l != nil
	}
	waits := backoff.Waits{First: max(paceTime, longest/8), Longest: longest, Factor: 2}
	next.next = now.Add(waits.After(next.same))
	return next
}

// longest returns the longest time between two looks at n evaluations.
func longest(n int) time.Duration { return max(slowTick, time.Duration(n)*lookTimeEach) }

// Tick looks at every active evaluation once, ends those that are complete, and pushes what each
// queue lacks. It skips evaluations that cannot be read.
func (t *TopUp) Tick(ctx context.Context) error {
	ids, err := t.store.Active(ctx)
	if err != nil {
		return err
	}
	return t.tick(ctx, ids, ids, time.Now())
}

// tickOne does what Tick does for one active evaluation. The evaluation gets no more than an equal
// share of its queues' windows: the fleet looks after the others.
func (t *TopUp) tickOne(ctx context.Context, id eval.ID) error {
	ids, err := t.store.Active(ctx)
	if err != nil || !slices.Contains(ids, id) {
		return err
	}
	t.beside = len(ids) - 1
	ids = []eval.ID{id}
	return t.tick(ctx, ids, ids, time.Now())
}

// step looks at those active evaluations that are due for a look. It returns when there is more to
// do.
func (t *TopUp) step(ctx context.Context, now time.Time) (next time.Duration, err error) {
	ids, err := t.store.Active(ctx)
	if err != nil {
		return t.next, err
	}
	var due []eval.ID
	for _, id := range ids {
		if t.looks[id].due(now) {
			due = append(due, id)
		}
	}

	if len(due) > 0 {
		if err := t.tick(ctx, ids, due, now); err != nil {
			clear(t.looks)
			return slowTick, err
		}
	}

	busy, next := 0, longest(len(ids))
	for _, l := range t.looks {
		if l.busy {
			busy++
		}
		next = min(next, l.next.Sub(now))
	}

	if due != nil {
		t.nextTick(busy)
	}
	if busy > 0 {
		next = min(next, t.next)
	}
	return min(max(next, fastTick), slowTick), nil
}

// tick looks at those of the active evaluations that are due.
func (t *TopUp) tick(ctx context.Context, ids, due []eval.ID, now time.Time) error {
	standings, err := t.store.Standings(ctx, due)
	if err != nil {
		return err
	}
	active := make(map[eval.ID]bool, len(ids))
	for _, id := range ids {
		active[id] = true
	}
	t.forget(active, now)
	for id, standing := range standings {
		t.looks[id] = t.looks[id].after(standing, now, longest(len(ids)))
	}
	if len(ids) == 0 {
		return nil
	}
	verdict, err := t.waits.decide(ctx, t.standings())
	if err != nil {
		return err
	}

	t.quarantine.Keep(ids)
	t.used, t.failed = 0, map[eval.ID]bool{}
	for _, id := range due {
		shares, err := t.sharesNow(ctx, id, standings[id], verdict)
		if err := t.isolate(id, err); err != nil {
			return err
		}
		t.looks[id].shares = shares
	}

	if err := t.fillAll(ctx); err != nil {
		return err
	}

	for _, id := range due {
		if !t.failed[id] {
			t.quarantine.Release(id)
		}
	}

	return nil
}

// forget drops the state of evaluations that are no longer active, and of queues that have had none
// for a while.
func (t *TopUp) forget(active map[eval.ID]bool, now time.Time) {
	maps.DeleteFunc(t.looks, func(id eval.ID, _ *look) bool { return !active[id] })
	maps.DeleteFunc(t.known, func(id eval.ID, _ *known) bool { return !active[id] })
	maps.DeleteFunc(t.full, func(id eval.ID, _ bool) bool { return !active[id] })
	maps.DeleteFunc(t.dropped, func(id eval.ID, _ time.Time) bool { return !active[id] })
	maps.DeleteFunc(t.stalled, func(of shareKey, _ stall) bool { return !active[of.evaluation] })
	maps.DeleteFunc(t.pace, func(_ string, p *pace) bool { return now.Sub(p.at) > paceKept })
}

// standings returns the last seen states of the active evaluations.
func (t *TopUp) standings() map[eval.ID]store.Standing {
	all := make(map[eval.ID]store.Standing, len(t.looks))
	for id, l := range t.looks {
		all[id] = l.standing
	}
	return all
}

// fillAll fills the queues of the evaluations just looked at.
func (t *TopUp) fillAll(ctx context.Context) error {
	queues, fresh := map[string][]*share{}, map[string]bool{}
	for _, l := range t.looks {
		for queue, shares := range l.shares {
			queues[queue] = append(queues[queue], shares...)
			for _, s := range shares {
				if s.fresh {
					fresh[queue] = true
				}
			}
		}
	}

	var errs []error
	for queue := range fresh {
		err := t.fill(ctx, queue, queues[queue])
		if err != nil {
			errs = append(errs, fmt.Errorf("fill queue %s: %w", queue, err))
		}
		if err != nil && !quarantine.Concerns(err) {
			break // Redis is unreachable: the other queues would fail, too
		}
		for _, s := range queues[queue] {
			s.fresh = false
		}
	}

	return errors.Join(errs...)
}
