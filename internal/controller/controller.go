// Package controller keeps a fleet going while no worker is running, and reports how many
// concurrent calls the fleet could use.
//
// It does what workers and collecting processes do, too: it tops queues up, moves delayed tasks
// whose time has come into their queues, returns the tasks of dead workers, and drains results. So
// a fleet can be scaled to no worker at all, and due work still shows. It also removes what killed
// processes left in Redis of evaluations that have ended. Several controllers may run next to any
// number of workers: everything is done only once.
//
// It makes no calls.
package controller

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/internal/queue/rescue"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/web/moment"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	// readEvery is how often the queues of active evaluations are read to find due tasks.
	readEvery = 2 * time.Second
	// readTimeEach makes readEvery longer with each active evaluation, so that many do
	// not keep Redis busy.
	readTimeEach = 5 * time.Millisecond
)

// DefaultLatency is how long a call is assumed to take until one of its model has ended.
const DefaultLatency = 10 * time.Second

// Config configures a Controller. Store is required; its client must have the hook gate.Prefixed if
// its namespace is not the default.
type Config struct {
	Store *store.Store
	// Latency is how long a call is assumed to take until one of its model has ended. Default:
	// DefaultLatency.
	Latency time.Duration
	// Collect drains the fleet's evaluations and stores their end. nil: other processes do so.
	Collect *collect.Collector
	Log     zerolog.Logger
}

// Controller keeps one fleet going. Scale may be called concurrently with Run.
type Controller struct {
	store   *store.Store
	limiter *ratelimit.Admin // only reads: admits nothing and has no heartbeat
	log     zerolog.Logger
	pace    *pace
	drained drained
	collect *collect.Collector // nil: drain nothing
	queues  *asynq.Inspector

	scrapeTime time.Duration // tests have more patience
	sweepEvery time.Duration // tests have less
	quarantine *quarantine.Quarantine
	scales     moment.Cache[struct{}, Scale] // of ServeScale

	mu    sync.Mutex // guards plans
	plans map[eval.ID]*eval.Evaluation
}

// New returns a Controller, which does nothing until Run.
func New(cfg Config) *Controller {
	c := &Controller{
		store:   cfg.Store,
		limiter: ratelimit.NewAdmin(cfg.Store.Client(), ratelimit.Config{Namespace: cfg.Store.Keys().Namespace, Log: cfg.Log}),
		log:     cfg.Log, pace: newPace(cmp.Or(cfg.Latency, DefaultLatency)),
		queues: asynq.NewInspectorFromRedisClient(store.Universal(cfg.Store)), quarantine: quarantine.New(cfg.Log),
		scrapeTime: scrapeTime, sweepEvery: sweepEvery,
	}
	c.scales = moment.Cache[struct{}, Scale]{
		Keep: scaleKept, AtOnce: 1, Make: func(ctx context.Context, _ struct{}) (Scale, error) { return c.Scale(ctx) },
	}
	if cfg.Collect != nil {
		drains := *cfg.Collect
		drains.Committed, drains.Stays = c.committed, true
		c.collect = &drains
	}
	return c
}

// Run keeps the fleet going until ctx ends. It waits during outages of Redis and of results stores.
func (c *Controller) Run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	topUp := enqueue.NewTopUp(c.store, c.limiter, c.log)
	parts.Go(func() error { return topUp.Run(ctx) })
	parts.Go(func() error { c.serveQueues(ctx); return nil })
	parts.Go(func() error { c.sweep(ctx); return nil })
	if c.collect != nil {
		parts.Go(func() error { return c.collect.FollowAll(ctx) })
	}
	return parts.Wait()
}

// committed counts drained results, and learns from them how long calls take and how many tokens
// they use.
func (c *Controller) committed(entries []record.Entry) {
	c.drained.add(len(entries))
	for _, e := range entries {
		c.pace.add(e.Calls)
	}
}

// serveQueues handles due tasks and the leftovers of dead workers, unless a worker does so.
func (c *Controller) serveQueues(ctx context.Context) {
	spell := outage.Spell{
		Log: c.log, Fails: "cannot do housekeeping for the queues; retrying",
		Works: "housekeeping for the queues works again",
	}
	keeper := rescue.NewKeeper(c.store, c.limiter, c.log)
	keeper.Note = func(ctx context.Context, err error) { spell.Note(ctx, err) }
	var queues []string
	var next time.Time
	keeper.Queues = func(ctx context.Context) ([]string, error) {
		if now := time.Now(); now.After(next) {
			active, err := c.active(ctx)
			if err != nil {
				return nil, err
			}
			queues, next = queuesOf(active.records), now.Add(max(readEvery, time.Duration(len(active.records))*readTimeEach))
		}
		return queues, nil
	}
	keeper.Run(ctx)
}

func (c *Controller) filled(ctx context.Context, queue string) {
	if err := c.store.AnnounceFilled(ctx, queue); err != nil {
		c.log.Debug().Err(err).Str("queue", queue).Msg("cannot announce new tasks to workers; they will poll")
	}
}

// evaluations holds those that still have runs to push or to end.
type evaluations struct {
	records    []record.Evaluation
	plans      map[eval.ID]*eval.Evaluation
	unreadable []eval.ID // in neither of them
}

func (c *Controller) active(ctx context.Context) (evaluations, error) {
	ids, err := c.store.Active(ctx)
	if err != nil {
		return evaluations{}, err
	}
	slices.Sort(ids)
	c.quarantine.Keep(ids)
	found := evaluations{plans: map[eval.ID]*eval.Evaluation{}}
	for _, id := range ids {
		r, err := c.store.Evaluation(ctx, id)
		var e *eval.Evaluation
		if err == nil {
			e, err = c.planOf(ctx, r)
		}
		switch {
		case err == nil:
			found.records, found.plans[id] = append(found.records, r), e
			c.quarantine.Release(id)
		case errors.Is(err, store.ErrNoEvaluation): // deleted meanwhile
		case c.quarantine.Takes(id, err):
			found.unreadable = append(found.unreadable, id)
		default:
			return evaluations{}, err
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans = found.plans
	return found, nil
}

// planOf returns what an evaluation asks, after checking that it fits the record. It reads it once,
// because it never changes.
func (c *Controller) planOf(ctx context.Context, r record.Evaluation) (*eval.Evaluation, error) {
	c.mu.Lock()
	e := c.plans[r.ID]
	c.mu.Unlock()
	if e == nil {
		var err error
		if _, e, _, err = enqueue.Read(ctx, c.store, r.ID); err != nil {
			return nil, err
		}
	}
	return e, enqueue.Fits(e, r)
}

// queuesOf returns the queues of evaluations without duplicates.
func queuesOf(evaluations []record.Evaluation) []string {
	queues := map[string]bool{}
	for _, r := range evaluations {
		for _, phase := range r.Phases {
			for queue := range phase.Queues {
				queues[queue] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(queues))
}
