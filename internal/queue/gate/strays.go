package gate

import (
	"context"
	"fmt"
	"slices"
)

// ReturnStrays returns tasks of a queue to it that this worker holds in Redis and not in fact: it ended or returned
// them, and Redis has gone back to an older copy of its data since. No other process returns them, because the worker
// is alive. It returns how many there were.
func (g *Gate) ReturnStrays(ctx context.Context, name string) (int, error) {
	q := g.servedQueue(name)
	if q == nil {
		return g.returnStrays(ctx, newQueue(name, nil), func() bool { return g.servedQueue(name) == nil })
	}
	if err := q.takeTurn(ctx); err != nil {
		return 0, fmt.Errorf("return strays of queue %s: %w", name, err)
	}
	defer q.leaveTurn()
	return g.returnStrays(ctx, q, func() bool { return q.lost == 0 }) // settle returns those of a lost answer
}

// servedQueue returns a queue that is served; nil if it is not.
func (g *Gate) servedQueue(name string) *queue {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if i := g.find(name); i >= 0 {
		return g.queues[i]
	}
	return nil
}

// returnStrays does the work of ReturnStrays, unless certain is false once the tasks were read. The caller prevents
// pulls from the queue.
func (g *Gate) returnStrays(ctx context.Context, q *queue, certain func() bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	active, err := readActive(ctx, g.redis, q.keys, 0, readAtOnce)
	if err != nil || !certain() {
		return 0, err
	}

	// A task goes from the buffer into asynq's hands, so they are looked at in this order.
	buffered := map[string]bool{}
	for _, task := range q.buffered() {
		buffered[task.id] = true
	}
	strays := slices.DeleteFunc(active, func(task held) bool {
		return task.owner != g.config.Owner || buffered[task.id] || g.hands.has(q.keys.task+task.id)
	})
	if len(strays) == 0 {
		return 0, nil
	}
	returned, err := giveBack(ctx, g.redis, q.keys, strays[:min(len(strays), returnAtOnce)])
	if len(returned) > 0 {
		q.announce()
	}
	return len(returned), err
}
