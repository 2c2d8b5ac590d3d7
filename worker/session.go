package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// An evaluation that was submitted is announced; looking finds those whose
	// announcement was missed.
	discoverEvery = 1800 * time.Millisecond
	lookEvery     = 5 * time.Second // at limits, statuses and revisions, whose changes are announced
	// lookTimeEach makes lookEvery longer with each active evaluation, so that many
	// workers with many evaluations do not keep Redis busy.
	lookTimeEach = 20 * time.Millisecond
	recoverEvery = 5 * time.Second
	// idleTime is how long a queue is served after its last active evaluation.
	idleTime = time.Minute
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
	budget      *budget
	slots       *semaphore.Weighted // calls in flight in this process
	tokens      *tokens
	named       atomic.Int64 // calls, by their ids
	newer       sync.Map     // queues with tasks of a newer version, once that was said
	unserved    sync.Map     // providers of further calls that this worker cannot make, once that was said

	stopping context.Context // ends when no more runs may be begun
	working  context.Context // ends when calls in flight must end

	changed chan struct{} // an evaluation was announced; holds one
	broken  chan error    // what no waiting mends; holds one

	looked    time.Time     // at statuses and revisions; discover's alone
	lookAfter time.Duration // how long after looked to look again; discover's alone
	limits    struct {      // discover's alone
		of      []eval.ID
		asked   time.Time
		inForce []ratelimit.Limit
	}

	mu      sync.Mutex // guards queues and longest
	queues  map[string]*service
	longest time.Duration // call timeout seen
}

// service is one queue being served: an asynq server, and the gate that it pulls
// through.
type service struct {
	gate   *gate.Gate
	server *asynq.Server
	wanted time.Time // when an active evaluation last had runs in the queue
}

func newSession(cfg Config, id string, of *life) *session {
	log := cfg.Log.With().Str("worker", id).Logger()
	s := &session{
		cfg: cfg, life: of, id: id, log: log, store: storeOf(cfg),
		budget: newBudget(cfg.Slots), slots: semaphore.NewWeighted(int64(cfg.Slots)), tokens: newTokens(),
		changed: make(chan struct{}, 1), broken: make(chan error, 1),
		queues: map[string]*service{}, longest: record.DefaultTimeout,
	}
	s.evaluations = newEvaluations(s.store)
	s.quarantine = quarantine.New(log)
	s.halts = newHalts(s.store)
	s.limiter = ratelimit.New(cfg.Client, ratelimit.Config{
		Namespace: s.store.Keys().Namespace, Worker: id, Lease: cfg.Lease, Log: log,
	})
	return s
}

// run works until ctx ends (nil), or until the session's leases could not be
// renewed in time (ratelimit.ErrFenced). Any other error is one that waiting
// does not mend.
//
// The order of the end matters. First nothing more is pulled and what was
// pulled but not begun goes back; then calls in flight may finish; then asynq's
// servers end, whose last scripts still need the gate; the limiter goes last,
// because leases are renewed until the last call has ended.
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

	var parts errgroup.Group
	topUp := enqueue.NewTopUp(s.store, s.limiter, s.log)
	topUp.Queued = s.queued()
	parts.Go(func() error { return topUp.Run(s.stopping) })
	parts.Go(func() error { s.discover(s.stopping); return nil })
	parts.Go(func() error { s.listen(s.stopping); return nil })
	parts.Go(func() error { s.recoverDead(s.stopping); return nil })
	parts.Go(func() error { s.offer(s.stopping); return nil })
	parts.Go(func() error { s.tokens.exchange(s.stopping, s.limiter); return nil })

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
	s.endAll(abort)
	if !fenced { // the next session pins them first
		s.unpin(ctx)
	}
	release()
	return errors.Join(broken, err, <-limiter)
}

// queued makes an event of each task that this session puts into its queue; nil where
// nobody listens.
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

// endAll ends every queue's service. Calls in flight have the grace, or until
// the limiter is fenced, or Config.AtOnce.
func (s *session) endAll(abort context.CancelFunc) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	var ending sync.WaitGroup
	for queue, service := range s.queues {
		ending.Go(func() { s.end(queue, service) })
	}
	ending.Wait()
}

// end gives back what was pulled and not begun, and ends the queue's server once
// its handlers have returned. The gate comes first: a server cannot end while it
// waits in a pull.
func (s *session) end(queue string, of *service) {
	giveBack, cancel := context.WithTimeout(context.WithoutCancel(s.stopping), 10*time.Second)
	defer cancel()
	if err := of.gate.Stop(giveBack); err != nil {
		s.log.WithLevel(levelOf(err)).Err(err).Str("queue", queue).Msg("pulled tasks not given back; they are returned when this worker's heartbeat lapses")
	}
	of.server.Shutdown()
}

// grace is how long calls in flight may go on after a stop.
func (s *session) grace() time.Duration {
	if s.cfg.Grace > 0 {
		return s.cfg.Grace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest + graceBeyondCall
}

// discover serves the queues of active evaluations, new ones within a second.
func (s *session) discover(ctx context.Context) {
	away := false
	for {
		err := s.discoverOnce(ctx)
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			s.broken <- err
			return
		case err != nil && ctx.Err() == nil && !away:
			s.log.WithLevel(levelOf(err)).Err(err).Msg("cannot look for queues; trying again")
			away = true
		case err == nil:
			away = false
		}
		select {
		case <-time.After(discoverEvery):
		case <-s.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) discoverOnce(ctx context.Context) error {
	ids, err := s.store.Active(ctx)
	if err != nil {
		return err
	}
	s.evaluations.keep(ids)
	if time.Since(s.looked) >= s.lookAfter { // for what was announced and missed
		if err := s.refresh(ctx, slices.Concat(ids, s.halts.held())...); err != nil {
			return err
		}
		s.looked, s.lookAfter = time.Now(), max(lookEvery, time.Duration(len(ids))*lookTimeEach)
	}
	s.quarantine.Keep(ids)
	limits, err := s.inForce(ctx, ids)
	if err != nil {
		return err
	}
	wanted := map[string]int{} // by queue, how many of its calls may be in flight
	for _, id := range ids {
		e, err := s.evaluations.load(ctx, id)
		switch {
		case errors.Is(err, store.ErrNoEvaluation), err != nil && s.quarantine.Takes(id, err):
			continue
		case err != nil:
			return err
		}
		s.quarantine.Release(id)
		s.mu.Lock()
		for _, timeout := range e.record.Settings.Timeouts {
			s.longest = max(s.longest, timeout)
		}
		s.mu.Unlock()
		for _, phase := range e.record.Phases {
			for i, queue := range phase.JudgeQueues {
				judge := e.asked.Asked(phase.Kind)[i]
				if s.serves(queue, judge.Provider) {
					wanted[queue] = max(wanted[queue], allowedInFlight(limits, e.record.Call(phase.Kind, i, judge)))
				}
			}
		}
	}
	for queue, most := range wanted { // all, before the first of them takes its share
		s.budget.allow(queue, most)
	}
	for queue := range wanted {
		if err := s.serve(queue); err != nil {
			return err
		}
	}
	s.endIdle()
	return nil
}

// refresh drops what is remembered of evaluations that have changed. Their runs that
// wait for a call, and those of evaluations that begin none, go back to their queues:
// the next check finds out what holds by then.
func (s *session) refresh(ctx context.Context, ids ...eval.ID) error {
	changed, err := s.evaluations.look(ctx, ids...)
	if err != nil {
		return err
	}
	for _, id := range changed {
		s.halts.end(id)
	}
	return s.halts.look(ctx, ids...)
}

// endIdle ends the service of queues in which nobody has had runs for a while:
// each costs connections and a few commands a second.
func (s *session) endIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for queue, service := range s.queues {
		if time.Since(service.wanted) > idleTime && s.budget.idle(queue) {
			delete(s.queues, queue)
			s.end(queue, service)
			s.log.Info().Str("queue", queue).Msg("queue is idle, no longer served")
		}
	}
}

// inForce are the limits in force, asked for again when evaluations come or go
// and every few seconds.
func (s *session) inForce(ctx context.Context, ids []eval.ID) ([]ratelimit.Limit, error) {
	slices.Sort(ids)
	if slices.Equal(ids, s.limits.of) && time.Since(s.limits.asked) < lookEvery {
		return s.limits.inForce, nil
	}
	if err := s.pin(ctx); err != nil {
		return nil, err
	}
	if err := enqueue.RegisterAgain(ctx, s.store, s.limiter, s.log, ids); err != nil {
		return nil, err
	}
	limits, err := s.limiter.InForce(ctx)
	if err == nil {
		s.limits.of, s.limits.asked, s.limits.inForce = ids, time.Now(), limits
	}
	return limits, err
}

// allowedInFlight is the tightest bound on calls in flight for a call's scope.
func allowedInFlight(limits []ratelimit.Limit, call ratelimit.Scope) int {
	most := math.MaxInt
	for _, limit := range limits {
		if limit.Kind == ratelimit.Concurrency && limit.Matches(call) {
			most = min(most, int(limit.Max))
		}
	}
	return most
}

// serves reports whether this worker can and may carry out a queue's runs.
func (s *session) serves(queue, provider string) bool {
	if _, ok := s.cfg.Endpoints[provider]; !ok {
		return false
	}
	return Serves(s.cfg.Queues, queue)
}

// offerEvery is how often a worker says which providers it can call; what it said
// holds three times as long.
const offerEvery = 10 * time.Second

// offer lets those who enqueue know which providers are called here.
func (s *session) offer(ctx context.Context) {
	names := slices.Sorted(maps.Keys(s.cfg.Endpoints))
	for {
		if err := s.store.Offer(ctx, names, time.Now().Add(3*offerEvery)); err != nil && ctx.Err() == nil {
			s.log.Debug().Err(err).Msg("nobody knows which providers can be called here; trying again")
		}
		select {
		case <-time.After(offerEvery):
		case <-ctx.Done():
			return
		}
	}
}

// serve starts a queue's service, once. Each queue has a server of its own,
// because a server pulls from all its queues with one goroutine: a saturated
// provider would hold up the others.
func (s *session) serve(queue string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, ok := s.queues[queue]; ok || s.stopping.Err() != nil {
		if ok {
			of.wanted = time.Now()
		}
		return nil
	}
	pulls := gate.New(s.cfg.Client, gate.Config{Owner: s.id, Batch: pullBatch, Permits: s.budget, Prefix: s.store.Keys().Asynq(), Pulled: s.budget.pulled, Log: s.log})
	server := asynq.NewServerFromRedisClient(pulls.Client(), asynq.Config{
		Queues:      map[string]int{queue: 1},
		Concurrency: s.budget.most,
		BaseContext: func() context.Context { return s.working },
		// Attempts are ours: nothing that a handler returns is a failure to
		// asynq, whose count would archive the task.
		IsFailure:         func(error) bool { return false },
		RetryDelayFunc:    retryDelay,
		TaskCheckInterval: gate.CheckInterval,
		// Beyond the grace, at whose end every handler is told to return.
		ShutdownTimeout:          24 * time.Hour,
		DelayedTaskCheckInterval: 2 * time.Second,
		Logger:                   asynqLog{s.log.With().Str("queue", queue).Logger()},
		LogLevel:                 asynq.WarnLevel,
	})
	if err := server.Start(asynq.HandlerFunc(s.handle)); err != nil {
		return fmt.Errorf("serve queue %s: %w", queue, err)
	}
	s.queues[queue] = &service{gate: pulls, server: server, wanted: time.Now()}
	s.log.Info().Str("queue", queue).Msg("serving queue")
	return nil
}

// filled tells a queue's gate that there is something to pull.
func (s *session) filled(queue string) {
	s.mu.Lock()
	of, ok := s.queues[queue]
	s.mu.Unlock()
	if ok {
		of.gate.Filled(queue)
	}
}

func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	var back *putBack
	if errors.As(err, &back) {
		return back.delay
	}
	return time.Second
}

// listen passes on what is announced: queues that were filled, evaluations that
// changed.
func (s *session) listen(ctx context.Context) {
	subscription := s.cfg.Client.Subscribe(ctx, s.store.Keys().Announce())
	defer subscription.Close()
	messages := subscription.Channel()
	for {
		select {
		case message, ok := <-messages:
			if !ok {
				return
			}
			what, name, _ := strings.Cut(message.Payload, " ")
			switch what {
			case "queue":
				s.filled(name)
			case "evaluation":
				if err := s.refresh(ctx, eval.ID(name)); err != nil && ctx.Err() == nil {
					s.log.Debug().Err(err).Str("evaluation", name).Msg("cannot read what has changed; trying again")
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
