package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

const (
	// soon is how far ahead delayed runs count as runnable. A provider must also hold calls back
	// for so long to count as closed. It is about what a worker needs to start.
	soon = time.Minute
	// headroom is the factor by which more concurrent calls may be needed than the usual latency
	// makes of a rate, because latencies vary.
	headroom = 1.2
	// scaleKept is how old the answer of ServeScale may be. Autoscalers ask every 15 to 30 seconds,
	// and each look takes about 24 commands of Redis.
	scaleKept = time.Second
)

// Scale says how many concurrent calls the fleet could use now.
type Scale struct {
	// Desired is the number of slots needed: divided by the slots of a worker, it is the number of
	// workers. 0: none is needed.
	Desired int     `json:"desired_concurrency"`
	Queues  []Queue `json:"queues"` // by name
	Limits  []Limit `json:"limits"` // those that apply to any of the queues, by id
}

// Queue is one queue's part. Its numbers are of runs of evaluations that are neither paused nor
// cancelled.
type Queue struct {
	Name     string `json:"queue"`
	Planned  int    `json:"planned"`
	Recorded int    `json:"recorded"`
	// Parked counts runs that wait for longer than a minute: delayed, or of a paused provider.
	Parked int `json:"parked"`
	// Runnable is Planned − Recorded − Parked.
	Runnable int `json:"runnable"`
	// InFlight counts the leases under a concurrency limit that applies to this queue alone,
	// including jobs running at a provider; without such a limit, the tasks held by workers,
	// including those that wait to begin.
	InFlight int `json:"in_flight"`
	// Allowed is how many concurrent calls the queue's limits can keep busy, without regard to
	// other queues; nil: unbounded.
	Allowed *int `json:"allowed"`
	// BoundBy is the limit, or "cooldown", that keeps Desired below Runnable; empty: none.
	BoundBy string `json:"bound_by,omitempty"`
	Desired int    `json:"desired_concurrency"`
	// LatencySeconds is how long the queue's calls are assumed to take, by its slowest model.
	// Measured means that calls did take so long.
	LatencySeconds float64 `json:"latency_seconds"`
	Measured       bool    `json:"latency_measured"`
}

// Limit is a limit in terms of concurrent calls.
type Limit struct {
	ID      string `json:"limit"`
	Allowed int    `json:"allowed"`
	InUse   int    `json:"in_use"` // leases, of a concurrency limit; otherwise 0
	// Wanted is the number that its queues could use without the limit, and Desired the number that
	// it allows them.
	Wanted  int `json:"wanted"`
	Desired int `json:"desired_concurrency"`
}

// Of returns the part of the scale for the queues that serves accepts.
func (s Scale) Of(serves func(queue string) bool) Scale {
	part := Scale{Queues: []Queue{}, Limits: s.Limits}
	for _, q := range s.Queues {
		if serves(q.Name) {
			part.Queues = append(part.Queues, q)
			part.Desired += q.Desired
		}
	}
	return part
}

// demand is the demand of one evaluation in one queue.
type demand struct {
	queue  string
	scopes []ratelimit.Scope // of its calls, one for each model
	wanted int               // runs that could be in flight
	given  int               // of those, what the limits leave
	bound  string
}

// under reports whether a limit applies to all calls of the demand.
func (d *demand) under(l ratelimit.Limit) bool {
	return !slices.ContainsFunc(d.scopes, func(s ratelimit.Scope) bool { return !l.Matches(s) })
}

// capacity is a limit's capacity in concurrent calls.
type capacity struct {
	limit   ratelimit.Limit
	id      string
	allowed int
	inUse   int
}

// Scale looks at every queue and limit. For each queue, it takes the number of runs that could run
// (planned − recorded − parked), or the number of calls that the queue's limits can keep busy if
// that is smaller. Then it divides shared limits among queues. A rate keeps rate × latency calls
// busy (Little's law), with a fifth more because latencies vary. A rate of tokens is first divided
// by the tokens of the usual call.
//
// Limits may contain each other: a model's in its provider's in the fleet's. They are applied from
// the narrowest to the widest, which is exact for them. If they only overlap, the result keeps all
// of them and may be less than the optimum.
//
// The result is never less than the number in flight, so that no busy worker is removed. It is 0 if
// nothing can run and nothing is in flight.
func (c *Controller) Scale(ctx context.Context) (Scale, error) {
	seen, err := c.query(ctx)
	if err != nil {
		return Scale{}, err
	}
	return c.scale(seen), nil
}

// seen is the state of Redis at one look.
type seen struct {
	evaluations
	standings map[eval.ID]store.Standing
	depths    map[string]gate.Depth // by queue; due delayed tasks include those due soon
	usage     []ratelimit.Usage
	cooldowns []ratelimit.Cooldown
}

// query queries Redis once for everything that scale and metrics need.
func (c *Controller) query(ctx context.Context) (*seen, error) {
	s := &seen{depths: map[string]gate.Depth{}}
	var err error
	if s.evaluations, err = c.active(ctx); err != nil {
		return nil, err
	}
	if s.standings, err = c.store.Standings(ctx, slices.Collect(maps.Keys(s.plans))); err != nil {
		return nil, err
	}
	now, err := c.store.Client().Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read redis's clock: %w", err)
	}
	for _, queue := range queuesOf(s.records) {
		if s.depths[queue], err = gate.DepthOf(ctx, c.store.Client(), queue, now.Add(soon)); err != nil {
			return nil, err
		}
	}
	if s.usage, err = c.limiter.Usage(ctx); err != nil {
		return nil, err
	}
	s.cooldowns, err = c.limiter.Cooldowns(ctx)
	return s, err
}

// scale computes the Scale from what was seen.
func (c *Controller) scale(s *seen) Scale {
	queues := map[string]*Queue{}
	for name, depth := range s.depths {
		queues[name] = &Queue{Name: name, InFlight: depth.Active}
	}
	var demands []*demand
	for _, r := range s.records {
		demands = append(demands, demandsOf(r, s.plans[r.ID], s.standings[r.ID], queues)...)
	}
	c.fit(queues, demands, s.depths)
	return divide(queues, demands, c.capacities(s, demands))
}

// demandsOf adds an evaluation's runs to its queues, and returns its demand in each.
func demandsOf(r record.Evaluation, e *eval.Evaluation, standing store.Standing, queues map[string]*Queue) []*demand {
	var demands []*demand
	for i, phase := range r.Phases {
		for name, planned := range phase.Queues {
			q := queues[name]
			if standing.Status != record.StatusActive {
				continue // paused: only runs in flight count
			}
			d := &demand{queue: name}
			paused := 0
			asked := e.JudgesOf(phase.Kind)
			judges := 0
			for j, of := range phase.JudgeQueues {
				if of != name {
					continue
				}
				judges++
				if _, is := standing.Paused[asked[j].Provider]; is {
					paused++
				}
				scope := r.Call(phase.Kind, j, asked[j])
				if !slices.Contains(d.scopes, scope) {
					d.scopes = append(d.scopes, scope)
				}
			}
			ended := standing.Ended(i, name)
			q.Planned += planned
			q.Recorded += ended
			d.wanted = planned - ended
			if judges > 0 && paused == judges {
				q.Parked += d.wanted
				d.wanted = 0
			}
			if d.wanted > 0 {
				demands = append(demands, d)
			}
		}
	}

	return demands
}

// fit subtracts runs with a long delay, or in a queue paused in asynq, from the demands. It returns
// for each queue the rest and the duration of its calls.
func (c *Controller) fit(queues map[string]*Queue, demands []*demand, depths map[string]gate.Depth) {
	for name, q := range queues {
		parked := depths[name].Delayed
		if depths[name].Paused {
			parked = math.MaxInt
		}
		for _, d := range demands {
			if d.queue != name {
				continue
			}
			part := min(parked, d.wanted)
			d.wanted -= part
			parked -= part
			q.Parked += part
			for _, model := range d.scopes {
				if usual := c.pace.ofModel(model.Provider + ":" + model.Model); usual.seconds > q.LatencySeconds {
					q.LatencySeconds, q.Measured = usual.seconds, usual.calls > 0
				}
			}
		}
		q.Runnable = max(0, q.Planned-q.Recorded-q.Parked)
	}
}

// capacities returns the limits in force that apply to any demand, the narrowest first.
func (c *Controller) capacities(s *seen, demands []*demand) []capacity {
	var all []capacity
	holds := func(l ratelimit.Limit) (models []ratelimit.Scope) {
		for _, d := range demands {
			if d.under(l) {
				models = append(models, d.scopes...)
			}
		}
		return models
	}

	for _, u := range s.usage {
		models := holds(u.Limit)
		of := capacity{limit: u.Limit, id: u.Limit.ID(), allowed: c.keepsBusy(u, models)}
		if u.Limit.Kind == ratelimit.Concurrency {
			of.inUse = u.InUse
		}
		if len(models) > 0 || of.inUse > 0 {
			all = append(all, of)
		}
	}

	for _, cooling := range s.cooldowns {
		scope, ok := ratelimit.CooldownScope(cooling.ID)
		if closed := (ratelimit.Limit{Scope: scope}); ok && cooling.Wait > soon && len(holds(closed)) > 0 {
			all = append(all, capacity{limit: closed, id: cooling.ID})
		}
	}

	narrowestFirst(all, demands)
	return all
}

// narrowestFirst sorts by the number of demands that a limit applies to.
func narrowestFirst(all []capacity, demands []*demand) {
	covers := map[string]int{}
	for _, of := range all {
		for _, d := range demands {
			if d.under(of.limit) {
				covers[of.id]++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b capacity) int {
		return cmp.Or(cmp.Compare(covers[a.id], covers[b.id]), cmp.Compare(a.allowed, b.allowed), cmp.Compare(a.id, b.id))
	})
}

// keepsBusy returns how many concurrent calls a limit can keep busy, if calls of the models take as
// long as usual.
func (c *Controller) keepsBusy(u ratelimit.Usage, models []ratelimit.Scope) int {
	l := u.Limit
	switch {
	case l.Kind == ratelimit.Concurrency:
		return int(l.Max)
	case l.Kind == ratelimit.Cost:
		return math.MaxInt // once it is spent, the evaluation is paused
	case l.Kind == ratelimit.EnqueuedTokens:
		return math.MaxInt // a batch occupies no call in flight
	case l.Resets != "":
		return int(max(0, l.Max-int64(u.InUse)))
	}

	perSecond := float64(l.Max) / l.Period.Seconds()
	most := 0.0
	for _, model := range models {
		usual := c.pace.ofModel(model.Provider + ":" + model.Model)
		units := 1.0
		switch l.Kind {
		case ratelimit.Tokens:
			units = usual.input + usual.output
		case ratelimit.InputTokens:
			units = usual.input
		case ratelimit.OutputTokens:
			units = usual.output
		}
		if units <= 0 { // its tokens are not known yet
			return math.MaxInt
		}
		most = max(most, perSecond/units*usual.seconds*headroom)
	}

	if most >= math.MaxInt32 {
		return math.MaxInt
	}
	return max(1, int(math.Ceil(most)))
}

// divide gives each demand what the limits leave it, and returns the sums.
func divide(queues map[string]*Queue, demands []*demand, capacities []capacity) Scale {
	scale := Scale{Queues: []Queue{}, Limits: []Limit{}}
	for _, d := range demands {
		d.given = d.wanted
	}
	inUse, leases := 0, map[string]int{}
	for _, of := range capacities {
		var under []*demand
		wanted := 0
		alone := map[string]bool{}
		for _, d := range demands {
			if d.under(of.limit) {
				under = append(under, d)
				wanted += d.given
				alone[d.queue] = true
			}
		}
		left := share(under, wanted, of)
		for name := range alone {
			q := queues[name]
			if of.allowed < math.MaxInt && (q.Allowed == nil || of.allowed < *q.Allowed) {
				allowed := of.allowed
				q.Allowed = &allowed
			}
			if len(alone) == 1 && of.limit.Kind == ratelimit.Concurrency {
				leases[name] = max(leases[name], of.inUse)
				q.InFlight = leases[name]
			}
		}
		inUse = max(inUse, of.inUse)
		if of.allowed < math.MaxInt {
			scale.Limits = append(scale.Limits, Limit{ID: of.id, Allowed: of.allowed, InUse: of.inUse, Wanted: wanted, Desired: left})
		}
	}

	for _, d := range demands {
		q := queues[d.queue]
		q.Desired += d.given
		if d.bound != "" {
			q.BoundBy = d.bound
		}
	}

	inFlight := 0
	for _, q := range queues {
		q.Desired = max(q.Desired, q.InFlight)
		inFlight += q.InFlight
		scale.Desired += q.Desired
		scale.Queues = append(scale.Queues, *q)
	}

	scale.Desired = max(scale.Desired, inFlight, inUse)
	slices.SortFunc(scale.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(scale.Limits, func(a, b Limit) int { return cmp.Compare(a.ID, b.ID) })
	return scale
}

// share reduces the demands under a limit to the amount that it allows them together, each in
// proportion, and returns the remainder.
func share(under []*demand, wanted int, of capacity) (left int) {
	if wanted <= of.allowed {
		return wanted
	}
	rest := of.allowed
	for _, d := range under {
		if d.given == 0 {
			continue
		}
		part := min(int(math.Round(float64(d.given)/float64(wanted)*float64(rest))), d.given, rest)
		wanted -= d.given
		rest -= part
		if part < d.given {
			d.given, d.bound = part, of.id
		}
		left += part
	}
	return left
}

// ServeScale answers GET /scale with Scale as JSON. With queue=NAME, which may be repeated, it is
// restricted to those queues, including those that single evaluations have of them. While Redis is
// unreachable, the status is 503, on which autoscalers keep the current number. It queries Redis at
// most once per second, however many clients ask.
func (c *Controller) ServeScale(w http.ResponseWriter, r *http.Request) {
	scale, err := c.scales.Get(r.Context(), struct{}{})
	if err != nil {
		c.log.Debug().Err(err).Msg("cannot compute the scale")
		http.Error(w, "Redis does not answer", http.StatusServiceUnavailable)
		return
	}
	if only := r.URL.Query()["queue"]; len(only) > 0 {
		scale = scale.Of(func(queue string) bool { return worker.Serves(only, queue) })
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(scale); err != nil {
		c.log.Debug().Err(err).Msg("cannot send the scale")
	}
}
