package controller

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// scrapeTime bounds what a scrape asks of Redis.
const scrapeTime = 5 * time.Second

// The metrics of a whole fleet. One controller tells them, and no worker, so that no
// sum counts anything twice. Parts of queues that evaluations have for themselves are
// counted with their queue: no label holds an evaluation's id.
var (
	redisUp        = desc("redis_up", "1 when Redis answered the scrape, else 0, and nothing else is told.")
	workersAlive   = desc("workers", "Workers whose heartbeat holds.")
	queueTasks     = desc("queue_tasks", "Tasks in asynq by queue and state: pending, active, due (delayed for at most a minute) and delayed.", "queue", "state")
	queueOldest    = desc("queue_oldest_pending_seconds", "How long the task that is pulled next has been pending.", "queue")
	queueRuns      = desc("queue_runs", "Runs of the active evaluations by queue and state: planned, recorded, parked and runnable.", "queue", "state")
	queueDesired   = desc("desired_concurrency", "Calls at once that the queue could use now, as GET /scale says.", "queue")
	limitCapacity  = desc("limit_capacity", "What a limit allows: calls in flight, or calls or tokens a period or day.", "limit", "kind")
	limitUsed      = desc("limit_used", "What of a limit is used; of a rate without a window nothing is told.", "limit", "kind")
	limitWaiting   = desc("limit_waiting_workers", "Workers with calls that wait for a limit.", "limit", "kind")
	limitHeldBack  = desc("limit_blocked_seconds", "How long a provider, model or group still holds calls back after it said that it is asked too much.", "scope")
	undrained      = desc("results_undrained", "Results in Redis that no sink has yet.")
	evaluationsNow = desc("evaluations_active", "Evaluations that have runs to push or to end.")
	evictedKeys    = desc("redis_evicted_keys", "Keys that Redis has evicted since it started. Anything but 0 loses work: its maxmemory-policy must be noeviction.")
	memoryUsed     = desc("redis_memory_bytes", "Memory that Redis uses.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("evalfleet_"+name, help, labels, nil)
}

// Describe sends nothing: which queues and limits there are is not known beforehand.
func (c *Controller) Describe(chan<- *prometheus.Desc) {}

// Collect asks Redis, for a few seconds at most.
func (c *Controller) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	told, err := c.gather(ctx)
	if err != nil {
		c.log.Debug().Err(err).Msg("nothing is known of the fleet")
		told = nil
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if told == nil {
		gauge(redisUp, 0)
		return
	}
	gauge(redisUp, 1)
	for _, s := range told {
		gauge(s.desc, s.value, s.labels...)
	}
}

// sample is one value of a scrape.
type sample struct {
	desc   *prometheus.Desc
	value  float64
	labels []string
}

func (c *Controller) gather(ctx context.Context) (told []sample, err error) {
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		told = append(told, sample{d, value, labels})
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
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	tellQueues(c.scale(seen), seen.depths, tell)
	tellLimits(seen, tell)
	if err := c.gatherResults(ctx, tell); err != nil {
		return nil, err
	}
	c.gatherRedis(ctx, tell)
	return told, nil
}

type tell func(d *prometheus.Desc, value float64, labels ...string)

// tellQueues tells of queues with the parts that evaluations have for themselves.
func tellQueues(scale Scale, of map[string]gate.Depth, tell tell) {
	depths, runs, desired := map[string]gate.Depth{}, map[string]Queue{}, map[string]int{}
	for _, q := range scale.Queues {
		depth := of[q.Name]
		name, _, _ := strings.Cut(q.Name, "~ev-")
		sum := depths[name]
		sum.Pending += depth.Pending
		sum.Active += depth.Active
		sum.Due += depth.Due
		sum.Delayed += depth.Delayed
		if sum.Oldest.IsZero() || !depth.Oldest.IsZero() && depth.Oldest.Before(sum.Oldest) {
			sum.Oldest = depth.Oldest
		}
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
		age := 0.0
		if !depth.Oldest.IsZero() {
			age = max(0, time.Since(depth.Oldest).Seconds())
		}
		tell(queueOldest, age, name)
		of := runs[name]
		for state, n := range map[string]int{"planned": of.Planned, "recorded": of.Recorded, "parked": of.Parked, "runnable": of.Runnable} {
			tell(queueRuns, float64(n), name, state)
		}
		tell(queueDesired, float64(desired[name]), name)
	}
}

func tellLimits(s *seen, tell tell) {
	for _, u := range s.usage {
		if u.Limit.Evaluation != "" {
			continue // its id would be in the label
		}
		id, kind := u.Limit.ID(), string(u.Limit.Kind)
		tell(limitCapacity, float64(u.Limit.Max), id, kind)
		if u.Allowed > 0 {
			tell(limitUsed, float64(u.InUse), id, kind)
		}
		tell(limitWaiting, float64(u.Waiting), id, kind)
	}
	for _, cooling := range s.cooldowns {
		if scope, ok := ratelimit.CooldownScope(cooling.ID); ok {
			tell(limitHeldBack, cooling.Wait.Seconds(), scope.String())
		}
	}
}

func (c *Controller) gatherResults(ctx context.Context, tell tell) error {
	ids, err := c.store.Evaluations(ctx)
	if err != nil {
		return err
	}
	standings, err := c.store.Standings(ctx, ids)
	if err != nil {
		return err
	}
	waiting, active := int64(0), 0
	for _, standing := range standings {
		waiting += standing.Waiting
		if standing.Status == record.StatusActive {
			active++
		}
	}
	tell(undrained, float64(waiting))
	tell(evaluationsNow, float64(active))
	return nil
}

// gatherRedis tells what the server says of itself; some managed servers do not.
func (c *Controller) gatherRedis(ctx context.Context, tell tell) {
	for section, wanted := range map[string]struct {
		field string
		desc  *prometheus.Desc
	}{"stats": {"evicted_keys", evictedKeys}, "memory": {"used_memory", memoryUsed}} {
		info, err := c.store.Client().InfoMap(ctx, section).Result()
		if err != nil {
			continue
		}
		for _, fields := range info {
			if value, err := strconv.ParseFloat(fields[wanted.field], 64); err == nil {
				tell(wanted.desc, value)
			}
		}
	}
}
