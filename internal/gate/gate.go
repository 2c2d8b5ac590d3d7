// Package gate stands between asynq's servers and Redis in a worker.
//
// asynq pulls whatever is pending, one task a round trip, polls empty queues,
// does not pause when Redis is away, and lets a worker that was frozen end tasks
// that another has meanwhile. A server whose client is a Gate's
//
//   - pulls only what may soon start, as its Permits say, so that "active" in
//     Redis means started;
//   - waits for tasks instead of polling, and takes up to 16 in one script;
//   - writes its worker's id into the tasks it pulls, and changes nothing when it
//     ends one that has another's;
//   - backs off while Redis is away.
//
// [Recover] returns the tasks of workers that died.
//
// The package knows asynq v0.26.0's scripts by their keys, and its tests pin
// them. It decides neither what may be pulled nor who is alive, makes no
// heartbeat, and counts no attempts.
//
// # Use
//
// Set [asynq.Config.TaskCheckInterval] to [CheckInterval]; serve one queue with
// one server, since a pull waits on a single queue. Before [asynq.Server.Shutdown] call
// [Gate.Stop]: a server waits in its pull, and cannot shut down while it does.
package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/batch"
)

// MaxBatch is how many tasks are taken at once at most.
const MaxBatch = 16

// CheckInterval is the TaskCheckInterval for asynq's servers behind a Gate. A
// pull that found nothing for 10 s is answered as empty, and asynq then sleeps
// for up to one and a half times this.
const CheckInterval = 10 * time.Millisecond

const (
	// asynq counts a task's lease of 30 s from before its pull and renews it every
	// 5 s: after waiting that long, 20 s of it are left.
	maxWait = 10 * time.Second
	// How long an empty queue is left alone when nothing is announced.
	fallback = 5 * time.Second
	// A task pulled longer ago is returned instead of handed over: nobody renews
	// its lease, and after twice that time a frozen worker counts as dead.
	handOverWithin = 5 * time.Second
	// Of the leases in Redis: asynq's 30 s, which it counts from the hand-over.
	leaseFor = 30*time.Second + handOverWithin
	// Bounds one script.
	callTimeout = 5 * time.Second
	// Tasks whose ends share a script; each costs a pass over the active list.
	endAtOnce = 64
	// They are gathered a little, which holds up no other task.
	endPause  = 10 * time.Millisecond
	endEnough = 8
)

// Permits says how many tasks may be pulled. Its methods are called by several
// goroutines.
//
// A permit goes with its task: once the task was handed to asynq, whoever
// handles it gives the permit back. asynq calls the handler for each task it was
// given, unless the task's deadline has passed or the base context has ended.
type Permits interface {
	// Reserve blocks until at least one task of queue may be pulled, and reserves
	// and returns between one and limit. When ctx ends first it returns an error
	// and has reserved nothing. ctx ends after 10 s at most, and the gate then
	// asks again. It is asked only while the queue may have something to pull.
	Reserve(ctx context.Context, queue string, limit int) (int, error)
	// Cancel gives n reserved permits back, for which no task was there or whose
	// tasks were returned to their queue. It does not block.
	Cancel(queue string, n int)
}

// Config is what a Gate needs.
type Config struct {
	// Owner is the worker's id, never used by another worker or after this one
	// counted as dead: a worker that goes on under a new id makes a new Gate.
	Owner string
	// Batch is how many tasks to take at once; 0 or more than MaxBatch is MaxBatch.
	Batch   int
	Permits Permits
	// Prefix is that of Prefixed where the client has this hook.
	Prefix string
	// Pulled, if set, is told after each pull how many tasks were taken and how
	// many are left in pending. It is called in asynq's pulling goroutine, so it
	// must not block.
	Pulled func(queue string, taken int, left int64)
	Log    zerolog.Logger
}

// Gate pulls for asynq servers of one worker, one gate for all or one each. Make
// it with New.
type Gate struct {
	redis   redis.UniversalClient
	config  Config
	endings endings
	results results
	failing atomic.Int64 // queues whose last pull was an error

	maxWait, fallback time.Duration // tests set others

	mu      sync.RWMutex // guards what follows
	queues  map[string]*queue
	stopped bool
	work    map[*work]struct{} // under way
	idle    chan struct{}      // closed once stopped with no work under way
}

// work is something that Stop ends and waits for.
type work struct{ cancel context.CancelFunc }

// New makes a gate to the Redis of client, which stays the caller's to close. It
// panics without an owner or permits.
func New(client redis.UniversalClient, config Config) *Gate {
	if config.Owner == "" || config.Permits == nil {
		panic("gate: New needs an owner and permits")
	}
	if config.Batch < 1 || config.Batch > MaxBatch {
		config.Batch = MaxBatch
	}
	return &Gate{
		redis:   client,
		config:  config,
		endings: endings{redis: client, guarded: map[string]*redis.Script{}, batches: map[alike]*batch.Batcher[batch.Call, any]{}},
		results: results{pending: map[string][]byte{}},
		maxWait: maxWait, fallback: fallback,
		queues: map[string]*queue{},
		work:   map[*work]struct{}{},
		idle:   make(chan struct{}),
	}
}

// Client is the client to give to asynq.NewServerFromRedisClient. All but
// asynq's pulls and its scripts that end a task goes to Redis as it is.
func (g *Gate) Client() redis.UniversalClient {
	return client{UniversalClient: g.redis, gate: g}
}

// Filled says that tasks were pushed to queue, so that a waiting pull looks at
// once. It does not block. Without it they are found within 5 s.
func (g *Gate) Filled(queue string) {
	g.mu.RLock()
	q := g.queues[queue]
	g.mu.RUnlock()
	if q != nil {
		q.announce()
	}
}

// Stop ends pulling: waiting pulls are answered as empty, and so are all later
// ones. Then it returns the tasks that were pulled but not handed to asynq to
// the head of their queues, in their order. Tasks handed over are not touched;
// their endings still pass.
//
// An error says what could not be returned. Stop may then be called again;
// otherwise Recover returns those tasks once the worker counts as dead.
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
	}
	queues := make([]*queue, 0, len(g.queues))
	for _, q := range g.queues {
		q.close()
		queues = append(queues, q)
	}
	g.mu.Unlock()

	select {
	case <-g.idle:
	case <-ctx.Done():
		return fmt.Errorf("stop pulling: %w", ctx.Err())
	}
	var problems []error
	for _, q := range queues {
		if err := q.lock(ctx); err != nil {
			return fmt.Errorf("stop pulling: %w", err)
		}
		problems = append(problems, g.settle(ctx, q, q.buffered()))
		q.unlock()
	}
	return errors.Join(problems...)
}

// queue is the state of the named queue, or nil after Stop.
func (g *Gate) queue(name string) *queue {
	g.mu.RLock()
	q, stopped := g.queues[name], g.stopped
	g.mu.RUnlock()
	if q != nil || stopped {
		return q
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if q = g.queues[name]; q == nil && !g.stopped {
		q = newQueue(name, g.returnStale)
		g.queues[name] = q
	}
	return q
}

// enter registers work whose waiting ends with the returned context, after
// limit or at Stop. It refuses after Stop.
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
