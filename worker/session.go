package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/quarantine"
	"github.com/evalfleet/evalfleet/internal/rescue"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

const (
	// A submitted evaluation is announced; looking finds missed announcements.
	discoverEvery = 1800 * time.Millisecond
	lookEvery     = 5 * time.Second // at limits, statuses and revisions, whose changes are announced
	// lookTimeEach makes lookEvery longer with each active evaluation, so that many
	// workers with many evaluations do not keep Redis busy.
	lookTimeEach = 20 * time.Millisecond
	// idleTime is how long a queue is served after its last active evaluation.
	idleTime = time.Minute
	// giveBackTime bounds the return of tasks that were pulled and not begun.
	giveBackTime = 10 * time.Second
	// graceBeyondCall is how much longer than a call the default grace is.
	graceBeyondCall = 15 * time.Second
)

// session is one life of a worker under one id: from its first heartbeat to a
// stop, or to the moment it could not renew in time.
type session struct {
	cfg         Config
	life        *life
	id          string
	log         zerolog.Logger
	store       *store.Store
	evaluations *evaluations
	quarantine  *quarantine.Quarantine
	halts       *halts
	limiter     *ratelimit.Limiter
	admin       *ratelimit.Admin
	budget      *budget
	asides      *asides
	slots       *semaphore.Weighted // calls in flight in this process
	rooms       *semaphore.Weighted // bytes of long answers in this process
	tokens      *tokens
	named       atomic.Int64 // calls, by their ids
	newer       sync.Map     // queues with tasks of a newer version, once that was said
	dropped     sync.Map     // notSent, once that was said
	absurd      sync.Map     // models already logged for implausible usage
	unserved    sync.Map     // providers of further calls that this worker cannot make, once that was said
	refusals    sync.Map     // refusedProvider by haltKey
	servers     servers
	wordsOnly   sync.Map // models without a JSON mode, by provider:model, once that was said

	stopping context.Context // ends when no more runs may be begun
	working  context.Context // ends when calls in flight must end

	changed chan struct{} // an evaluation was announced; holds one
	broken  chan error    // an error that waiting does not solve; holds one

	looked    time.Time     // at statuses and revisions; discover's alone
	lookAfter time.Duration // how long after looked to look again; discover's alone
	limits    struct {      // discover's alone
		of      []eval.ID
		asked   time.Time
		inForce []ratelimit.Limit
	}

	gate   *gate.Gate // through which server pulls, from all queues that are served
	server *asynq.Server

	mu      sync.Mutex           // guards all below
	queues  map[string]time.Time // that are served, and when an active evaluation last had runs in them
	all     []string             // of all active evaluations, served here or not
	longest time.Duration        // call timeout seen
}

func newSession(cfg Config, id string, of *life) *session {
	log := cfg.Log.With().Str("worker", id).Logger()
	s := &session{
		cfg: cfg, life: of, id: id, log: log, store: storeOf(cfg),
		budget: newBudget(cfg.Slots), asides: newAsides(cfg.Slots), slots: semaphore.NewWeighted(int64(cfg.Slots)), rooms: semaphore.NewWeighted(longAnswers), tokens: newTokens(),
		changed: make(chan struct{}, 1), broken: make(chan error, 1),
		queues: map[string]time.Time{}, longest: record.DefaultTimeout,
	}
	s.evaluations = newEvaluations(s.store)
	s.quarantine = quarantine.New(log)
	s.halts = newHalts(s.store)
	limits := ratelimit.Config{Namespace: s.store.Keys().Namespace, Worker: id, Lease: cfg.Lease, Log: log}
	s.limiter, s.admin = ratelimit.New(cfg.Client, limits), ratelimit.NewAdmin(cfg.Client, limits)
	s.gate = gate.New(cfg.Client, gate.Config{Owner: id, Batch: pullBatch, Permits: s.budget, Prefix: s.store.Keys().Asynq(), Pulled: s.budget.pulled, Log: log})
	s.server = asynq.NewServerFromRedisClient(s.gate.Client(), asynq.Config{
		Queues: map[string]int{gate.Served: 1},
		// The budget decides. asynq counts a task until it has ended it, so that its own
		// bound must not be the tighter one.
		Concurrency: 2 * s.budget.most,
		BaseContext: func() context.Context { return s.working },
		// Attempts are ours: nothing that a handler returns is a failure to
		// asynq, whose count would archive the task.
		IsFailure:         func(error) bool { return false },
		RetryDelayFunc:    retryDelay,
		TaskCheckInterval: gate.CheckInterval,
		// After the grace period, at whose end every handler is told to return.
		ShutdownTimeout: 24 * time.Hour,
		// A Keeper does this for all workers.
		DelayedTaskCheckInterval: 24 * time.Hour,
		JanitorInterval:          24 * time.Hour,
		Logger:                   asynqLog{log},
		LogLevel:                 asynq.WarnLevel,
	})
	return s
}

// run works until ctx ends (nil), or until the session's leases could not be renewed in time
// (ratelimit.ErrFenced). Any other error is one that waiting does not solve.
//
// The order of shutdown matters. First pulling stops and tasks that were pulled but not begun
// go back; then calls in flight may finish; then asynq's servers end, whose last scripts still
// need the gate; the limiter goes last, because leases are renewed until the last call has
// ended.
func (s *session) run(ctx context.Context) error {
	var stop, abort context.CancelFunc
	s.stopping, stop = context.WithCancel(ctx)
	defer stop()
	s.working, abort = context.WithCancel(context.WithoutCancel(ctx))
	defer abort()

	limiting, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	limiter := make(chan error, 1)
	go func() { limiter <- s.limiter.Run(limiting) }()

	// A worker whose heartbeat is not known yet counts as dead.
	select {
	case <-s.limiter.Beating():
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

	// What Redis has lost is recorded again before anything is pulled.
	s.life.enter(s)
	defer s.life.enter(nil)
	s.life.look(s.stopping)

	if err := s.server.Start(asynq.HandlerFunc(s.handle)); err != nil {
		release()
		return errors.Join(fmt.Errorf("start asynq's server: %w", err), <-limiter)
	}
	var parts errgroup.Group
	topUp := enqueue.NewTopUp(s.store, s.admin, s.log)
	topUp.Queued = s.queued()
	parts.Go(func() error { return topUp.Run(s.stopping) })
	parts.Go(func() error { s.discover(s.stopping); return nil })
	parts.Go(func() error { s.listen(s.stopping); return nil })
	parts.Go(func() error { s.keepHouse(s.stopping); return nil })
	parts.Go(func() error { s.offer(s.stopping); return nil })
	parts.Go(func() error { s.tokens.exchange(s.stopping, s.admin); return nil })

	fenced := false
	var broken error
	select {
	case <-ctx.Done():
		s.cfg.Stopping(s.budget.inFlight(), s.grace())
	case broken = <-s.broken:
	case <-s.limiter.Fenced():
		fenced = true
	}
	stop()
	if fenced {
		abort()
	}
	err := parts.Wait()
	s.end(abort)
	if !fenced { // the next session pins them first
		s.unpin(ctx)
	}
	release()
	return errors.Join(broken, err, <-limiter)
}

// queued makes an event of each task that this session puts into its queue; nil without a
// listener.
func (s *session) queued() func(record.Task, time.Time) {
	if s.cfg.Events == nil {
		return nil
	}
	return func(t record.Task, at time.Time) {
		e := Queued(t, at)
		e.Worker = s.id
		s.cfg.Events(e)
	}
}

// end ends pulling, gives back tasks pulled but not begun, and ends the server once its
// handlers have returned. The gate comes first: the server cannot end while it waits in a pull.
// Calls in flight have the grace period, or until the limiter is fenced, or Config.AtOnce.
func (s *session) end(abort context.CancelFunc) {
	grace := time.AfterFunc(s.grace(), abort)
	defer grace.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.limiter.Fenced():
			abort()
		case <-s.cfg.AtOnce:
			abort()
		case <-ended:
		}
	}()
	giveBack, cancel := context.WithTimeout(context.WithoutCancel(s.stopping), giveBackTime)
	defer cancel()
	if err := s.gate.Stop(giveBack); err != nil {
		s.notGivenBack(err)
	}
	s.server.Shutdown()
}

func (s *session) notGivenBack(err error) {
	s.log.WithLevel(levelOf(err)).Err(err).Msg("cannot return pulled tasks; they return when this worker's heartbeat expires")
}

// grace is how long calls in flight may continue after a stop.
func (s *session) grace() time.Duration {
	if s.cfg.Grace > 0 {
		return s.cfg.Grace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest + graceBeyondCall
}

// offerEvery is how often a worker announces which providers it can call; an announcement is
// valid for three times as long.
const offerEvery = 10 * time.Second

// keepHouse looks after the queues of all active evaluations, also for workers that
// serve others, while no other process does.
func (s *session) keepHouse(ctx context.Context) {
	keeper := rescue.NewKeeper(s.store, s.admin, s.log)
	keeper.Queues = func(context.Context) ([]string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		queues := slices.Concat(s.all, slices.Collect(maps.Keys(s.queues)))
		slices.Sort(queues)
		return slices.Compact(queues), nil
	}
	keeper.Note = func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("cannot do housekeeping for the queues; retrying")
		}
	}
	keeper.Run(ctx)
}

func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	var back *putBack
	if errors.As(err, &back) {
		return back.delay
	}
	return time.Second
}

// listen passes on announcements: queues that were filled, evaluations that changed.
func (s *session) listen(ctx context.Context) {
	subscription := s.cfg.Client.Subscribe(ctx, s.store.Keys().Announce())
	defer subscription.Close()
	messages := subscription.ChannelWithSubscriptions()
	for {
		select {
		case heard, ok := <-messages:
			if !ok {
				return
			}
			message, ok := heard.(*redis.Message)
			if !ok { // subscribed, perhaps again: something may have been missed
				s.gate.FilledAll()
				continue
			}
			what, name, _ := strings.Cut(message.Payload, " ")
			switch what {
			case "queue":
				s.gate.Filled(name)
			case "evaluation":
				if err := s.refresh(ctx, eval.ID(name)); err != nil && ctx.Err() == nil {
					s.log.Debug().Err(err).Str("evaluation", name).Msg("cannot read changes; retrying")
				}
				select {
				case s.changed <- struct{}{}:
				default: // it will look anyway
				}
			}
		case <-ctx.Done():
			return
		}
	}
}
