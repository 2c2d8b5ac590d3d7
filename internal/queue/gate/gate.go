// Package gate connects asynq's servers to Redis in a worker.
//
// asynq pulls whatever is pending, one task per round trip, and polls empty queues. It does not
// pause while Redis is unreachable, and lets a suspended worker end tasks that another has
// meanwhile. A server whose client is a Gate's
//
//   - pulls only what may soon start, as its Permits say, so that "active" in
//     Redis means started;
//   - waits for tasks instead of polling, in all queues that are served at once, and
//     takes up to 16 in one script;
//   - writes its worker's id into the tasks it pulls, and changes nothing when it
//     ends one that has another's;
//   - backs off while Redis is unreachable.
//
// [Recover] returns the tasks of workers that died.
//
// The package knows asynq's scripts by their keys: asynq.go lists what it relies on, and its tests
// pin it. It decides neither which tasks may be pulled nor which workers are alive, makes no
// heartbeat, and counts no attempts.
//
// # Use
//
// Make one server for all queues, with [Served] as its only queue and [CheckInterval] as its
// [asynq.Config.TaskCheckInterval]. Name the queues to the gate with [Gate.Serve]. It answers each
// pull with a task of any of them, so that a queue whose limits are used up delays no other. Before
// [asynq.Server.Shutdown], call [Gate.Stop]: a server waits in its pull, and cannot shut down while
// it does.
//
// The server does nothing for a queue while it is empty. The caller has to [Forward] the delayed
// tasks of queues, and to [Recover] those of workers that died.
package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/redisx/batch"
)

// MaxBatch is the maximum number of tasks taken at once.
const MaxBatch = 16

// CheckInterval is the TaskCheckInterval for asynq's servers behind a Gate. A pull that found
// nothing for 10 s returns empty, and asynq then sleeps for up to one and a half times this.
const CheckInterval = 10 * time.Millisecond

// Served is the queue that asynq's servers behind a Gate are given. No such queue exists: it
// represents those that the gate serves.
const Served = "evalfleet"

const (
	// asynq counts a task's lease of 30 s from before its pull and renews it every 5 s. After
	// waiting that long, 20 s of it are left.
	maxWait = 10 * time.Second
	// How long an empty queue is not looked at unless something is announced. A worker of many
	// queues waits longer, so that it looks at one of them per second.
	fallback     = 5 * time.Second
	fallbackEach = time.Second
	// Length of the leases in Redis: asynq's 30 s, which it counts from the hand-over, and
	// handOverWithin.
	leaseFor = 35 * time.Second
	// Tasks whose ends share a script. Each costs a pass over the active list.
	endAtOnce = 64
	// Ends wait a little for each other, which delays no other task.
	endPause  = 10 * time.Millisecond
	endEnough = 8
)

// Tests have more patience.
var (
	// A task pulled longer ago is returned instead of handed over. Its lease is not renewed, and
	// after twice that time a suspended worker counts as dead.
	handOverWithin = 5 * time.Second
	// Bounds one script.
	callTimeout = 5 * time.Second
)

// Permits decides how many tasks may be pulled. Its methods are called by several goroutines.
//
// A permit goes with its task: after the task was handed to asynq, its handler gives the permit
// back. asynq calls the handler for each task it was given, unless the task's deadline has passed
// or the base context has ended.
type Permits interface {
	// Reserve blocks until at least one task of queue may be pulled. It reserves and returns
	// between one and limit. If ctx ends first, it returns an error and has reserved nothing. ctx
	// ends after 10 s at most, and the gate then calls it again. It is called only while the queue
	// may have something to pull.
	Reserve(ctx context.Context, queue string, limit int) (int, error)
	// Cancel gives back n reserved permits that got no task or whose tasks were returned to
	// their queue. It does not block.
	Cancel(queue string, n int)
}

// Config configures a Gate.
type Config struct {
	// Owner is the worker's ID, never used by another worker or after this one counted as dead:
	// a worker that continues under a new ID makes a new Gate.
	Owner string
	// Batch is how many tasks to take at once; 0 or more than MaxBatch is MaxBatch.
	Batch   int
	Permits Permits
	// Prefix is that of Prefixed, if the client has this hook.
	Prefix string
	// Pulled, if set, is called after each pull with how many tasks were taken and how many are
	// left in pending. It is called in asynq's pulling goroutine, so it must not block.
	Pulled func(queue string, taken int, left int64)
	Log    zerolog.Logger
}

// Gate pulls for the asynq server of one worker. Make it with New.
type Gate struct {
	redis   redis.UniversalClient
	config  Config
	endings endings
	hands   hands
	failing atomic.Int64 // number of queues whose last pull failed
	turn    atomic.Int64 // counts pulls

	maxWait, fallback time.Duration // tests set others

	mu      sync.RWMutex // guards the fields below
	queues  []*queue
	changed chan struct{} // closed when queues change, and at Stop
	stopped bool
	work    map[*work]struct{} // in progress
	idle    chan struct{}      // closed when stopped and no work is in progress
}

// work is an operation that Stop ends and waits for.
type work struct{ cancel context.CancelFunc }

// New returns a gate to the Redis of client, which the caller closes. It panics without an owner or
// permits.
func New(client redis.UniversalClient, config Config) *Gate {
	if config.Owner == "" || config.Permits == nil {
		panic("gate: New needs an owner and permits")
	}
	if config.Batch < 1 || config.Batch > MaxBatch {
		config.Batch = MaxBatch
	}
	return &Gate{
		redis:  client,
		config: config,
		endings: endings{
			redis:   client,
			pause:   endPause,
			guarded: map[string]*redis.Script{},
			batches: map[alike]*batch.Batcher[batch.Call, any]{},
		},
		hands:   hands{tasks: map[string]*hand{}},
		maxWait: maxWait, fallback: fallback,
		changed: make(chan struct{}),
		work:    map[*work]struct{}{},
		idle:    make(chan struct{}),
	}
}

// Client returns the client to pass to asynq.NewServerFromRedisClient. It sends everything to Redis
// unchanged, except for asynq's pulls and its scripts that end a task.
func (g *Gate) Client() redis.UniversalClient {
	return client{UniversalClient: g.redis, gate: g}
}

// Serve lets pulls return tasks of queue, too. It does nothing for a queue that is served already,
// and after Stop.
func (g *Gate) Serve(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped || g.find(name) >= 0 {
		return
	}
	g.queues = append(slices.Clip(g.queues), newQueue(name, g.returnStale))
	g.change()
}

// Leave undoes Serve, and returns the tasks that were pulled but not handed to asynq to their
// queue, and strays (see ReturnStrays). After an error, Recover returns them once the worker counts as dead.
func (g *Gate) Leave(ctx context.Context, name string) error {
	g.mu.Lock()
	i := g.find(name)
	if i < 0 || g.stopped { // Stop returns its tasks
		g.mu.Unlock()
		return nil
	}
	q := g.queues[i]
	q.close()
	g.queues = slices.Delete(slices.Clone(g.queues), i, i+1)
	g.change()
	g.mu.Unlock()

	if err := q.takeTurn(ctx); err != nil {
		return fmt.Errorf("leave queue %s: %w", name, err)
	}
	defer q.leaveTurn()
	if q.failures > 0 {
		g.failing.Add(-1)
	}
	if err := g.settle(ctx, q, q.buffered()); err != nil {
		return err
	}
	_, err := g.returnStrays(ctx, q, func() bool { return true })
	return err
}

// find returns a queue's position among those that are served, or -1. g.mu must be held.
func (g *Gate) find(name string) int {
	return slices.IndexFunc(g.queues, func(q *queue) bool { return q.name == name })
}

// change tells waiting pulls that the queues have changed. g.mu must be held.
func (g *Gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Filled says that tasks were pushed to queue, so that a waiting pull looks at it at once. It does
// not block. Without it, tasks are found within 5 s, or within as many seconds as queues are served
// if those are more.
func (g *Gate) Filled(queue string) {
	for _, q := range g.served() {
		if q.name == queue {
			q.announce()
		}
	}
}

// FilledAll calls Filled for every queue, for when announcements may have been missed.
func (g *Gate) FilledAll() {
	for _, q := range g.served() {
		q.announce()
	}
}

// served returns the queues that are served.
func (g *Gate) served() []*queue {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.queues
}

// Stop ends pulling: waiting pulls return empty, and so do all later ones. Then it returns the
// tasks that were pulled but not handed to asynq to the head of their queues, in their order. It
// does not touch tasks that were handed over; their endings still pass.
//
// An error says which tasks could not be returned. Stop may then be called again; otherwise,
// Recover returns those tasks once the worker counts as dead.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	if !g.stopped {
		g.stopped = true
		for w := range g.work {
			w.cancel()
		}
		if len(g.work) == 0 {
			close(g.idle)
		}
		for _, q := range g.queues {
			q.close()
		}
		g.change()
	}
	queues := g.queues
	g.mu.Unlock()

	select {
	case <-g.idle:
	case <-ctx.Done():
		return fmt.Errorf("stop pulling: %w", ctx.Err())
	}
	var problems []error
	for _, q := range queues {
		if err := q.takeTurn(ctx); err != nil {
			return fmt.Errorf("stop pulling: %w", err)
		}
		problems = append(problems, g.settle(ctx, q, q.buffered()))
		q.leaveTurn()
	}
	return errors.Join(problems...)
}

// enter registers work whose waiting ends with the returned context, after limit or at Stop. After
// Stop, ok is false.
func (g *Gate) enter(ctx context.Context, limit time.Duration) (waiting context.Context, leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, nil, false
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	w := &work{cancel}
	g.work[w] = struct{}{}
	return waiting, func() {
		cancel()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.work, w)
		if g.stopped && len(g.work) == 0 {
			close(g.idle)
		}
	}, true
}
