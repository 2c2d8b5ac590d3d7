package gate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// pulls is the number of the last pull of all gates of the process. A later gate of the same owner
// must not reuse the number of a pull whose tasks still run.
var pulls atomic.Int64

// nextPull numbers a pull by its time, in Unix microseconds, so that a task shows since when it is
// held. The numbers increase even if the clock does not.
func nextPull(now time.Time) int64 {
	for {
		last := pulls.Load()
		if next := max(last+1, now.UnixMicro()); pulls.CompareAndSwap(last, next) {
			return next
		}
	}
}

// pull answers one of asynq's pulls: with a task of any served queue, or with none after 10 s or at
// Stop.
func (g *Gate) pull(ctx context.Context) (message string, ok bool) {
	limited, cancel := context.WithTimeout(ctx, g.maxWait)
	defer cancel()
	for {
		g.mu.RLock()
		queues, changed, stopped := g.queues, g.changed, g.stopped
		g.mu.RUnlock()
		if stopped {
			return "", false
		}
		// Each queue takes its turn at being looked at first.
		first := int(g.turn.Add(1) % int64(max(len(queues), 1)))
		for i := range queues {
			if message, ok = queues[(first+i)%len(queues)].handOver(&g.hands); ok {
				return message, true
			}
		}
		if !g.await(ctx, limited, queues, changed) {
			return "", false
		}
	}
}

// await waits until one of queues has a task to hand over, or the queues have changed. It returns
// false if limited has ended. What another queue pulls meanwhile stays in its buffer for the next
// pull.
func (g *Gate) await(ctx, limited context.Context, queues []*queue, changed <-chan struct{}) bool {
	waiting, cancel := context.WithCancel(limited)
	defer cancel()
	found := make(chan struct{}, len(queues))
	for _, q := range queues {
		go func() {
			if g.replenish(context.WithoutCancel(ctx), waiting, q) {
				found <- struct{}{}
			}
		}()
	}
	select {
	case <-found:
	case <-changed:
	case <-limited.Done():
		return false
	}
	return true
}

// replenish waits until q has a task to hand over, and returns false if waiting has ended before.
func (g *Gate) replenish(ctx, waiting context.Context, q *queue) bool {
	waiting, leave, ok := g.enter(waiting, g.maxWait)
	if !ok {
		return false
	}
	defer leave()
	if q.takeTurn(waiting) != nil {
		return false
	}
	defer q.leaveTurn()
	for !q.ready() {
		if q.left() || !q.due(waiting) {
			return false
		}
		if err := g.fill(ctx, waiting, q); err != nil {
			g.failed(q, err)
		}
	}
	return true
}

// fill pulls tasks into the buffer, which keeps them until they are stale. It waits for permits
// until waiting ends, and talks to Redis under ctx. Stop does not abandon a script once sent,
// because it could not know which tasks it pulled.
func (g *Gate) fill(ctx, waiting context.Context, q *queue) error {
	if err := g.settle(ctx, q, q.overdue()); err != nil {
		return err
	}
	permits, err := g.config.Permits.Reserve(waiting, q.name, g.config.Batch)
	switch {
	case waiting.Err() != nil:
		if err == nil {
			g.config.Permits.Cancel(q.name, permits)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reserve permits: %w", err)
	}

	select {
	case <-q.filled: // this pull sees it
	default:
	}
	now := time.Now()
	number := nextPull(now)
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := pullTasks(call, g.redis, q.keys, g.config.Owner, number, permits, now.Add(leaseFor))
	if unused := permits - len(answer.tasks); unused > 0 {
		g.config.Permits.Cancel(q.name, unused)
	}
	if err != nil {
		q.lost = number
		return err
	}

	tasks, err := g.sound(call, q, answer.tasks)
	q.keep(g.notInHand(q, tasks), now)
	if err != nil {
		return err
	}

	if q.looked(answer, max(g.fallback, time.Duration(len(g.served()))*fallbackEach)) && g.failing.Add(-1) == 0 {
		g.config.Log.Debug().Str("queue", q.name).Msg("pulling tasks works again")
	}
	if g.config.Pulled != nil {
		g.config.Pulled(q.name, len(tasks), answer.left)
	}
	return nil
}

// notInHand returns the tasks just pulled that asynq does not have in hand. The others go back to the
// queue when they end.
func (g *Gate) notInHand(q *queue, tasks []pulled) []pulled {
	rest := slices.DeleteFunc(tasks, func(task pulled) bool { return g.hands.markPulledAgain(q.keys.task+task.id, task.pull) })
	g.config.Permits.Cancel(q.name, len(tasks)-len(rest))
	return rest
}

// settle returns tasks to the queue that must not be handed over: the given tasks of its buffer and
// those of a pull with a lost answer. The caller must have the turn.
func (g *Gate) settle(ctx context.Context, q *queue, tasks []pulled) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if q.lost != 0 {
		if err := reclaim(ctx, g.redis, q.keys, g.config.Owner, q.lost); err != nil {
			return err
		}
		q.lost = 0
		q.more = true
	}

	if len(tasks) == 0 {
		return nil
	}
	back := make([]held, 0, len(tasks))
	for i := len(tasks) - 1; i >= 0; i-- {
		back = append(back, heldBy(g.config.Owner, tasks[i].id, tasks[i].pull))
	}
	if _, err := giveBack(ctx, g.redis, q.keys, back); err != nil {
		return err
	}
	q.empty()
	q.more = true
	g.config.Permits.Cancel(q.name, len(tasks))
	return nil
}

// returnStale returns the tasks of a buffer that asynq did not ask for in time.
func (g *Gate) returnStale(q *queue) {
	ctx := context.Background() // called by a timer; settle has its own timeout
	_, leave, ok := g.enter(ctx, callTimeout)
	if !ok {
		return
	}
	defer leave()
	select {
	case q.turn <- struct{}{}:
		defer q.leaveTurn()
	default: // a pull is in progress, and settles first
		q.later()
		return
	}
	if err := g.settle(ctx, q, q.overdue()); err != nil {
		g.failed(q, err)
		q.later()
	}
}

// failed makes the queue wait. It logs this once for all queues, until pulling from each works
// again; the worker's owner reports that Redis is unreachable.
func (g *Gate) failed(q *queue, err error) {
	if q.failed() && g.failing.Add(1) == 1 {
		level := zerolog.WarnLevel
		if outage.Is(err) {
			level = zerolog.DebugLevel
		}
		g.config.Log.WithLevel(level).Str("queue", q.name).AnErr("err", err).Msg("cannot pull tasks; retrying")
	}
}
