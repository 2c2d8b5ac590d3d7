package controller

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// scrapeTime bounds how long a scrape queries Redis.
const scrapeTime = 5 * time.Second

// The metrics of a whole fleet. One controller reports them, and no worker, so that sums count
// nothing twice. A queue of one evaluation alone is counted with the shared queue: no label
// contains an evaluation's id.
var (
	redisUp = gauge(
		"evalfleet_redis_up",
		"1 if Redis answered the scrape; 0 if not, in which case the metrics that come from Redis are missing.",
	)
	workersAlive = gauge("evalfleet_workers", "Workers with a current heartbeat.")

	queueTasks = gauge(
		"evalfleet_queue_tasks",
		"Tasks in asynq by queue and state: pending, active, due (delayed by at most a minute) and delayed.", "queue",
		"state",
	)
	queueOrphaned = gauge(
		"evalfleet_queue_orphaned_tasks",
		"Active tasks whose worker is dead. They are returned within seconds while any worker or controller lives.", "queue",
	)
	queueOldest = gauge("evalfleet_queue_oldest_pending_seconds", "How long the next task to be pulled has been pending.", "queue")
	queueRuns   = gauge(
		"evalfleet_queue_runs", "Runs of the active evaluations by queue and state: planned, recorded, parked and runnable.",
		"queue", "state",
	)
	queueDesired = gauge("evalfleet_desired_concurrency", "Concurrent calls that the queue could use now, as GET /scale reports.", "queue")

	limitCapacity = gauge(
		"evalfleet_limit_capacity", "What a limit allows now: calls in flight, or calls or tokens per period or day.",
		"limit", "kind",
	)
	limitConfigured = gauge(
		"evalfleet_limit_configured",
		"What a limit allows at most: evalfleet_limit_capacity is less while an adaptive limit is cut.", "limit", "kind",
	)
	limitUsed    = gauge("evalfleet_limit_used", "Use of a limit; missing for rates without a window.", "limit", "kind")
	limitAllowed = gauge(
		"evalfleet_limit_allowed",
		"How much evalfleet_limit_used may be: the capacity, or the part of it that belongs to a window.", "limit", "kind",
	)
	limitWaiting  = gauge("evalfleet_limit_waiting_workers", "Workers with calls that wait for a limit.", "limit", "kind")
	limitHeldBack = gauge("evalfleet_limit_blocked_seconds", "Time left in the cooldown of a provider, model or group.", "scope")
	limiterEpoch  = gauge(
		"evalfleet_limiter_epoch_timestamp_seconds",
		"Unix time since which Redis remembers what limits admitted. It changes when Redis may have lost data: flushed, restarted, failed over.",
	)

	budgetTotal = gauge("evalfleet_budget_usd", "Sum of the budgets of active evaluations, in US dollars.")
	budgetUsed  = gauge("evalfleet_budget_used_usd", "Amount of these budgets that is spent or reserved for calls in flight.")
	budgetShare = gauge("evalfleet_budget_used_ratio", "Largest share of its budget that an active evaluation has spent or reserved.")
)

// metric describes the metric of samples.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// sample is one value of a scrape.
type sample struct {
	metric metric
	value  float64
	labels []string
}

// tell receives a sample.
type tell func(m metric, value float64, labels ...string)

// Describe sends nothing, because the queues and limits are not known beforehand.
func (c *Controller) Describe(chan<- *prometheus.Desc) {}

// Collect queries Redis, for a few seconds at most.
func (c *Controller) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.scrapeTime)
	defer cancel()
	tell := func(m metric, value float64, labels ...string) {
		for i := range labels {
			labels[i] = label(labels[i])
		}
		metrics <- prometheus.MustNewConstMetric(m.Desc, m.kind, value, labels...)
	}
	c.drained.tell(tell)
	told, err := c.gather(ctx)
	if err != nil {
		c.log.Debug().Err(err).Msg("cannot read the state of the fleet")
		tell(redisUp, 0)
		return
	}
	tell(redisUp, 1)
	for _, s := range told {
		tell(s.metric, s.value, s.labels...)
	}
}

func (c *Controller) gather(ctx context.Context) (told []sample, err error) {
	tell := func(m metric, value float64, labels ...string) {
		told = append(told, sample{m, value, labels})
	}
	alive, err := c.limiter.Alive(ctx)
	if err != nil {
		return nil, err
	}

	workers := 0
	for _, holds := range alive {
		if holds {
			workers++
		}
	}

	tell(workersAlive, float64(workers))
	seen, err := c.query(ctx)
	if err != nil {
		return nil, err
	}

	orphans, err := c.orphans(ctx, seen.depths)
	if err != nil {
		return nil, err
	}
	tellQueues(c.scale(seen), seen.depths, orphans, tell)
	tellLimits(seen, tell)
	since, known, err := c.limiter.Since(ctx)
	if err != nil {
		return nil, err
	}

	if known {
		tell(limiterEpoch, seconds(since))
	}
	if err := c.gatherResults(ctx, seen.unreadable, tell); err != nil {
		return nil, err
	}
	c.gatherRedis(ctx, tell)
	c.gatherAsynq(tell)
	return told, nil
}

// label returns a name from Redis as the value of a label. Anyone who can write to Redis can add
// queues, so names with characters that do not print are quoted as in Go. Prometheus's client
// panics at invalid UTF-8. Different names yield different labels.
func label(name string) string {
	if strings.Contains(name, `\`) || harmless.Line(name) != name {
		quoted := strconv.QuoteToGraphic(name)
		return quoted[1 : len(quoted)-1]
	}
	return name
}

// seconds returns a time as Unix seconds, the form that Prometheus uses.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// age returns how many seconds ago a time was; 0 for the zero time.
func age(of time.Time) float64 {
	if of.IsZero() {
		return 0
	}
	return max(0, time.Since(of).Seconds())
}

// older returns the earlier of two times. A zero time counts as absent.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// orphans counts the tasks of dead workers by queue.
func (c *Controller) orphans(ctx context.Context, of map[string]gate.Depth) (map[string]int, error) {
	orphans := map[string]int{}
	for queue := range of {
		n, err := gate.Orphans(ctx, c.store.Client(), queue, func(ctx context.Context, _ []string) (map[string]bool, error) {
			return c.limiter.Alive(ctx)
		})
		if err != nil {
			return nil, err
		}
		orphans[record.SharedQueue(queue)] += n
	}
	return orphans, nil
}

// tellQueues reports queues, each together with those that single evaluations have of it.
func tellQueues(scale Scale, of map[string]gate.Depth, orphans map[string]int, tell tell) {
	depths, runs, desired := map[string]gate.Depth{}, map[string]Queue{}, map[string]int{}
	for _, q := range scale.Queues {
		depth := of[q.Name]
		name := record.SharedQueue(q.Name)
		sum := depths[name]
		sum.Pending += depth.Pending
		sum.Active += depth.Active
		sum.Due += depth.Due
		sum.Delayed += depth.Delayed
		sum.Oldest = older(sum.Oldest, depth.Oldest)
		depths[name] = sum
		all := runs[name]
		all.Planned += q.Planned
		all.Recorded += q.Recorded
		all.Parked += q.Parked
		all.Runnable += q.Runnable
		runs[name] = all
		desired[name] += q.Desired
	}

	for name, depth := range depths {
		for state, n := range map[string]int{"pending": depth.Pending, "active": depth.Active, "due": depth.Due, "delayed": depth.Delayed} {
			tell(queueTasks, float64(n), name, state)
		}
		tell(queueOrphaned, float64(orphans[name]), name)
		tell(queueOldest, age(depth.Oldest), name)
		of := runs[name]
		for state, n := range map[string]int{"planned": of.Planned, "recorded": of.Recorded, "parked": of.Parked, "runnable": of.Runnable} {
			tell(queueRuns, float64(n), name, state)
		}
		tell(queueDesired, float64(desired[name]), name)
	}
}

func tellLimits(s *seen, tell tell) {
	var budgets budgets
	for _, u := range s.usage {
		if u.Limit.Kind == ratelimit.Cost {
			budgets.add(u)
		}
		if u.Limit.Evaluation != "" {
			continue // its id would be in the label
		}
		id, kind := u.Limit.ID(), string(u.Limit.Kind)
		tell(limitCapacity, float64(u.Limit.Max), id, kind)
		tell(limitConfigured, float64(max(u.Limit.Max, u.Cap)), id, kind)
		if u.Allowed > 0 {
			tell(limitUsed, float64(u.InUse), id, kind)
			tell(limitAllowed, float64(u.Allowed), id, kind)
		}
		tell(limitWaiting, float64(u.Waiting), id, kind)
	}

	budgets.tell(tell)
	for _, cooling := range s.cooldowns {
		if scope, ok := ratelimit.CooldownScope(cooling.ID); ok {
			tell(limitHeldBack, cooling.Wait.Seconds(), scope.String())
		}
	}
}

// budgets adds up the budgets of all evaluations, because their number is unbounded.
type budgets struct {
	n           int
	total, used int64 // nano-USD
	share       float64
}

func (b *budgets) add(u ratelimit.Usage) {
	b.n++
	b.total += u.Limit.Max
	b.used += u.Spent
	b.share = max(b.share, float64(u.Spent)/float64(u.Limit.Max))
}

func (b *budgets) tell(tell tell) {
	tell(budgetTotal, float64(b.total)/ratelimit.Dollar)
	tell(budgetUsed, float64(b.used)/ratelimit.Dollar)
	if b.n > 0 {
		tell(budgetShare, b.share)
	}
}
