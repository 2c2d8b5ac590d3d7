package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/queue/rescue"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/prefixes"
	"github.com/evalfleet/evalfleet/worker/internal/pulse"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
	"github.com/evalfleet/evalfleet/worker/internal/task"
	"github.com/evalfleet/evalfleet/worker/internal/tokens"
	"github.com/evalfleet/evalfleet/worker/internal/trouble"
)

const (
	// giveBackTime bounds the time for returning tasks that were pulled and not begun.
	giveBackTime = 10 * time.Second
	// graceBeyondCall is how much longer than a call's timeout the default grace period is.
	graceBeyondCall = 15 * time.Second
)

// session is one life of a worker under one ID: from its first heartbeat to a stop, or until it could not renew its
// heartbeat in time.
type session struct {
	cfg        Config
	life       *life
	worker     *run.Session
	tokens     *tokens.Learnt
	asides     *call.Asides
	troubles   *trouble.Troubles
	quarantine *quarantine.Quarantine
	gate       *gate.Gate    // pulls tasks from all queues that are served
	changed    chan struct{} // an evaluation was announced; holds one
	handler    *task.Handler
	queues     *queues
}

func newSession(cfg Config, id string, of *life) *session {
	log := cfg.Log.With().Str("worker", id).Logger()
	s := &session{
		cfg: cfg, life: of, tokens: tokens.New(), asides: call.NewAsides(cfg.Slots), quarantine: quarantine.New(log),
		changed: make(chan struct{}, 1), queues: newQueues(),
	}

	busy := storeOf(cfg)
	limits := ratelimit.Config{Namespace: busy.Keys().Namespace, Worker: id, Lease: cfg.Lease, Notes: of.notes, Log: log}
	s.worker = &run.Session{
		ID: id, Log: log, Store: busy, Ledger: of.ledger, Evaluations: evaluations.New(busy), Halts: evaluations.NewHalts(busy),
		Limiter: ratelimit.New(cfg.Client, limits), Admin: ratelimit.NewAdmin(cfg.Client, limits),
		Shares: share.New(cfg.Slots), Endpoints: cfg.Endpoints, Observer: cfg.Observer, Stopping: stop.NewSignal(),
	}
	s.troubles = trouble.New(s.worker.Limiter, log, s.worker.Shares.Hold, s.worker.Halts.EndAt)
	s.handler = &task.Handler{
		Worker: s.worker, Quarantine: s.quarantine,
		Caller: call.NewCaller(call.Config{
			Worker: s.worker, Slots: cfg.Slots, MaxAnswer: cfg.MaxAnswer, Limits: cfg.Limits, Holder: ratelimit.WorkerHolder(id),
			Tokens: s.tokens, Prefixes: prefixes.New(), Cache: of.cache, Asides: s.asides, Troubles: s.troubles,
		}),
	}
	s.gate = gate.New(cfg.Client, gate.Config{
		Owner: id, Batch: share.Batch, Permits: s.worker.Shares, Prefix: busy.Keys().Asynq(), Pulled: s.worker.Shares.Pulled, Log: log,
	})
	return s
}

// server returns the asynq server that pulls the session's tasks. Its handlers end with working.
func (s *session) server(working context.Context) *asynq.Server {
	return asynq.NewServerFromRedisClient(s.gate.Client(), asynq.Config{
		Queues: map[string]int{gate.Served: 1},
		// The shares limit the tasks. asynq counts a task until it has ended it, so its own bound must not be the
		// tighter one.
		Concurrency: 2 * s.worker.Shares.Most(),
		BaseContext: func() context.Context { return working },
		// We count attempts: nothing that a handler returns is a failure to asynq, whose count would archive the task.
		IsFailure:         func(error) bool { return false },
		RetryDelayFunc:    retryDelay,
		TaskCheckInterval: gate.CheckInterval,
		// The grace period ends before, and every handler is then told to return.
		ShutdownTimeout: 24 * time.Hour,
		// A Keeper does this for all workers.
		DelayedTaskCheckInterval: 24 * time.Hour,
		JanitorInterval:          24 * time.Hour,
		Logger:                   asynqLog{s.worker.Log},
		LogLevel:                 asynq.WarnLevel,
	})
}

// handle handles a task, unless the worker has ended.
func (s *session) handle(ctx context.Context, t *asynq.Task) error {
	progress, leave, ok := s.life.begin()
	if !ok {
		return &run.PutBack{Why: "the worker has ended"}
	}
	defer leave()
	return s.handler.Handle(pulse.With(ctx, progress), t)
}

// run executes runs until ctx ends (nil), or until the session's leases could not be renewed in time
// (ratelimit.ErrFenced). Any other error is one that waiting does not solve, such as ErrStuck.
//
// The order of shutdown matters. First pulling stops, and tasks that were pulled but not begun return to their queues.
// Then calls in flight may finish. Then asynq's servers end; their last scripts still need the gate. The limiter goes
// last, because leases are renewed until the last call has ended.
func (s *session) run(ctx context.Context) error {
	stopping, stop := stop.Context(ctx, s.worker.Stopping) // ends when no more runs may be begun
	defer stop()
	defer context.AfterFunc(stopping, func() { s.worker.Stopping.Give(run.ErrStopping) })()
	working, abort := context.WithCancel(context.WithoutCancel(ctx)) // ends when calls in flight must end
	defer abort()

	limiting, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	limiter := make(chan error, 1)
	go func() { limiter <- s.worker.Limiter.Run(limiting) }()

	// A worker whose heartbeat is not known yet counts as dead.
	select {
	case <-s.worker.Limiter.Beating():
	case <-ctx.Done():
		release()
		return <-limiter
	}

	told := make(chan struct{})
	go func() {
		defer close(told)
		s.tell(limiting)
	}()
	defer func() { <-told }()

	// Record what Redis has lost again before anything is pulled.
	s.life.enter(s)
	defer s.life.enter(nil)
	s.life.checkRedis(stopping)

	server := s.server(working)
	if err := server.Start(asynq.HandlerFunc(s.handle)); err != nil {
		release()
		return errors.Join(fmt.Errorf("start asynq's server: %w", err), <-limiter)
	}
	var parts errgroup.Group
	topUp := enqueue.NewTopUp(s.worker.Store, s.worker.Admin, s.worker.Log)
	topUp.Queued = s.worker.Queued()
	parts.Go(func() error { return topUp.Run(stopping) })
	broken := make(chan error, 1) // an error that waiting does not solve
	parts.Go(func() error { s.newDiscovery().run(stopping, broken); return nil })
	parts.Go(func() error { s.listen(stopping); return nil })
	parts.Go(func() error { s.keepHouse(stopping); return nil })
	parts.Go(func() error { s.offer(stopping); return nil })
	parts.Go(func() error { s.settleOrphans(stopping); return nil })
	parts.Go(func() error { s.returnStrays(stopping); return nil })
	parts.Go(func() error { s.tokens.Exchange(stopping, s.worker.Admin); return nil })

	fenced := false
	var unsolved error
	select {
	case <-ctx.Done():
		s.cfg.Observer.Stopping(s.worker.Shares.InFlight(), s.grace())
	case unsolved = <-broken:
	case <-s.worker.Limiter.Fenced():
		fenced = true
	case <-s.life.stuck:
		unsolved = ErrStuck
	}
	s.worker.Stopping.Give(run.ErrStopping)
	if fenced {
		abort()
	}
	err := parts.Wait()
	s.end(ctx, server, abort)
	release()
	return errors.Join(unsolved, err, <-limiter)
}

// end stops pulling, returns tasks pulled but not begun, and ends the server once its handlers have returned. The gate
// comes first: the server cannot end while it waits in a pull. Calls in flight have the grace period, or until the
// limiter is fenced or Config.AtOnce is closed.
func (s *session) end(ctx context.Context, server *asynq.Server, abort context.CancelFunc) {
	grace := time.AfterFunc(s.grace(), abort)
	defer grace.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.worker.Limiter.Fenced():
			abort()
		case <-s.cfg.AtOnce:
			abort()
		case <-s.life.idle: // only stuck handlers are left, and asynq no longer waits for them
			abort()
		case <-ended:
		}
	}()
	giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	if err := s.gate.Stop(giveBack); err != nil {
		s.notGivenBack(err)
	}
	server.Shutdown()
}

func (s *session) notGivenBack(err error) {
	s.worker.Log.WithLevel(outage.Level(err)).Err(err).Msg("cannot return pulled tasks; they return when this worker's heartbeat expires")
}

// grace returns how long calls in flight may continue after a stop.
func (s *session) grace() time.Duration {
	if s.cfg.Grace > 0 {
		return s.cfg.Grace
	}
	return s.queues.longestCall() + graceBeyondCall
}

// offerEvery is how often a worker announces which providers it can call; an announcement is
// valid for three times as long.
const offerEvery = 10 * time.Second

// keepHouse maintains the queues of all active evaluations, also for workers that serve others, unless another process
// does so.
func (s *session) keepHouse(ctx context.Context) {
	keeper := rescue.NewKeeper(s.worker.Store, s.worker.Admin, s.worker.Log)
	keeper.Queues = func(context.Context) ([]string, error) { return s.queues.all(), nil }
	keeper.Note = func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			s.worker.Log.Debug().Err(err).Msg("cannot do housekeeping for the queues; retrying")
		}
	}
	keeper.Run(ctx)
}

// orphansEvery is how often the jobs that no run has are looked at.
const orphansEvery = 10 * time.Second

// settleOrphans ends jobs that no run has, which count under the limits.
func (s *session) settleOrphans(ctx context.Context) {
	for outage.Pause(ctx, orphansEvery) == nil {
		s.handler.Caller.SettleOrphans(ctx)
	}
}

const (
	// straysEvery is how often the worker looks for tasks that it holds only in Redis.
	straysEvery = 15 * time.Second
	// strayTimeEach makes straysEvery longer with each queue, so that many queues do not keep Redis busy.
	strayTimeEach = 50 * time.Millisecond
)

// returnStrays returns tasks that this worker holds in Redis and not in fact, as after Redis went back to an older copy.
func (s *session) returnStrays(ctx context.Context) {
	for {
		queues := s.queues.all()
		if outage.Pause(ctx, max(straysEvery, time.Duration(len(queues))*strayTimeEach)) != nil {
			return
		}
		for _, queue := range queues {
			n, err := s.gate.ReturnStrays(ctx, queue)
			if err != nil {
				s.worker.Log.Debug().Err(err).Str("queue", queue).Msg("cannot look for stray tasks; retrying")
				break
			}
			if n > 0 {
				s.worker.Log.Warn().Str("queue", queue).Int("tasks", n).
					Msg("Redis says that this worker has tasks that it has ended; they return to their queue")
			}
		}
	}
}

func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	var back *run.PutBack
	if errors.As(err, &back) {
		return back.Delay
	}
	return time.Second
}

// listen passes on announcements: queues that were filled, evaluations that changed.
func (s *session) listen(ctx context.Context) {
	s.worker.Store.Listen(ctx, s.gate.Filled, func(id eval.ID) {
		if err := s.refresh(ctx, id); err != nil && ctx.Err() == nil {
			s.worker.Log.Debug().Err(err).Str("evaluation", string(id)).Msg("cannot read changes; retrying")
		}
		select {
		case s.changed <- struct{}{}:
		default: // a look is due already
		}
	}, s.gate.FilledAll)
}
