package worker

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

const (
	// A submitted evaluation is announced; looking finds missed announcements.
	discoverEvery = 1800 * time.Millisecond
	lookEvery     = 5 * time.Second // for limits, statuses and revisions, whose changes are announced
	// lookTimeEach makes lookEvery longer with each active evaluation, so that many
	// workers with many evaluations do not keep Redis busy.
	lookTimeEach = 20 * time.Millisecond
)

// discovery finds the queues of active evaluations and starts serving them. It is used by one goroutine.
type discovery struct {
	on        *session
	looked    time.Time     // when statuses and revisions were last read
	lookAfter time.Duration // how long after looked to look again
	of        []eval.ID     // evaluations whose limits were read
	asked     time.Time     // when they were read
	limits    []ratelimit.Limit
}

func (s *session) newDiscovery() *discovery { return &discovery{on: s} }

// run serves the queues of active evaluations, new ones within a second. It sends an error that waiting does not solve
// to broken.
func (d *discovery) run(ctx context.Context, broken chan<- error) {
	spell := outage.Spell{Log: d.on.worker.Log, Fails: "cannot list queues; retrying", Works: "listing queues again", Elsewhere: true}
	for {
		err := d.once(ctx)
		if outage.WrongType(err) {
			broken <- err
			return
		}
		spell.Note(ctx, err)
		select {
		case <-time.After(discoverEvery):
		case <-d.on.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (d *discovery) once(ctx context.Context) error {
	ids, err := d.on.worker.Store.Active(ctx)
	if err != nil {
		return err
	}
	d.keep(ids)
	if time.Since(d.looked) >= d.lookAfter { // in case an announcement was missed
		if err := d.on.refresh(ctx, slices.Concat(ids, d.on.worker.Halts.Held())...); err != nil {
			return err
		}
		d.looked, d.lookAfter = time.Now(), max(lookEvery, time.Duration(len(ids))*lookTimeEach)
	}

	d.on.quarantine.Keep(ids)
	limits, err := d.inForce(ctx, ids)
	if err != nil {
		return err
	}

	wanted := map[string]int{}              // by queue, how many of its calls may be in flight
	all := map[string]map[call.Asker]bool{} // by queue, the askers that have runs in it
	for _, id := range ids {
		e, err := d.on.worker.Evaluations.Load(ctx, id)
		switch {
		case errors.Is(err, store.ErrNoEvaluation), err != nil && d.on.quarantine.Takes(id, err):
			continue
		case err != nil:
			return err
		}
		d.on.quarantine.Release(id)
		d.on.queues.met(e.Record.Settings, e.Asked)
		for _, phase := range e.Record.Phases {
			for i, queue := range phase.JudgeQueues {
				judge := e.Asked.JudgesOf(phase.Kind)[i]
				if all[queue] == nil {
					all[queue] = map[call.Asker]bool{}
				}
				all[queue][call.Asker{Evaluation: id, Model: judge.Target()}] = true
				if d.on.serves(queue, judge.Provider) {
					wanted[queue] = max(wanted[queue], allowedInFlight(limits, e.Record.Call(phase.Kind, i, judge)))
				}
			}
		}
	}

	for queue, most := range wanted { // announce all before the first of them takes its share
		d.on.worker.Shares.Allow(queue, most)
	}
	d.on.asides.Share(all)
	d.on.troubles.Serve(ofOneProvider(all))
	for _, queue := range d.on.queues.serve(slices.Collect(maps.Keys(wanted)), slices.Sorted(maps.Keys(all))) {
		d.on.gate.Serve(queue)
		d.on.worker.Log.Info().Str("queue", queue).Msg("serving queue")
	}

	d.endIdle(ctx)
	return nil
}

// ofOneProvider returns the queues that have runs of only one provider, by provider.
func ofOneProvider(askers map[string]map[call.Asker]bool) map[string][]string {
	queues := map[string][]string{}
	for queue, of := range askers {
		named := map[string]bool{}
		for who := range of {
			provider, _, _ := strings.Cut(who.Model, ":")
			named[provider] = true
		}
		if len(named) == 1 {
			for provider := range named {
				queues[provider] = append(queues[provider], queue)
			}
		}
	}
	return queues
}

// keep drops what is known of every evaluation that is not among ids.
func (d *discovery) keep(ids []eval.ID) {
	d.on.worker.Evaluations.Keep(ids)
	active := make(map[eval.ID]bool, len(ids))
	for _, id := range ids {
		active[id] = true
	}
	d.on.handler.Keep(active)
}

// refresh drops cached evaluations that have changed. Runs of these that wait for a call return to their queues, as do
// runs of paused or cancelled evaluations.
func (s *session) refresh(ctx context.Context, ids ...eval.ID) error {
	changed, err := s.worker.Evaluations.Look(ctx, ids...)
	if err != nil {
		return err
	}
	for _, id := range changed {
		s.worker.Halts.End(id)
	}
	return s.worker.Halts.Look(ctx, ids...)
}

// endIdle stops serving queues that have had no runs for a while: each queue costs Redis a regular poll. Only discovery
// serves queues, so none can be served meanwhile.
func (d *discovery) endIdle(ctx context.Context) {
	for _, queue := range d.on.queues.dropIdle(d.on.worker.Shares.Idle) {
		giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		if err := d.on.gate.Leave(giveBack, queue); err != nil {
			d.on.notGivenBack(err)
		}
		cancel()
		d.on.worker.Log.Info().Str("queue", queue).Msg("queue is idle, no longer served")
	}
}

// inForce returns the limits in force. They are read again when evaluations come or go, and
// every few seconds.
func (d *discovery) inForce(ctx context.Context, ids []eval.ID) ([]ratelimit.Limit, error) {
	slices.Sort(ids)
	if slices.Equal(ids, d.of) && time.Since(d.asked) < lookEvery {
		return d.limits, nil
	}
	pinned, err := d.on.pin(ctx)
	if err != nil {
		return nil, err
	}
	if err := enqueue.RegisterAgain(ctx, d.on.worker.Store, d.on.worker.Admin, d.on.worker.Log, ids); err != nil {
		return nil, err
	}
	limits, err := d.on.worker.Admin.InForce(ctx)
	if err == nil && pinned {
		d.of, d.asked, d.limits = ids, time.Now(), limits
	}
	return limits, err
}

// pin pins the limits of the worker's configuration, again for a Redis that has lost them. It
// returns false until Redis has the worker's heartbeat.
func (s *session) pin(ctx context.Context) (pinned bool, err error) {
	if len(s.cfg.Limits) == 0 {
		return true, nil
	}
	return s.worker.Limiter.Pin(ctx, s.cfg.Limits)
}

// allowedInFlight returns the tightest bound on calls in flight for a call's scope.
func allowedInFlight(limits []ratelimit.Limit, call ratelimit.Scope) int {
	most := math.MaxInt
	for _, limit := range limits {
		if limit.Kind == ratelimit.Concurrency && limit.Matches(call) {
			most = min(most, int(limit.Max))
		}
	}
	return most
}

// serves reports whether this worker can and may execute a queue's runs.
func (s *session) serves(queue, provider string) bool {
	if _, ok := s.cfg.Endpoints[provider]; !ok {
		return false
	}
	return Serves(s.cfg.Queues, queue)
}

// offer announces which providers this worker can call, for commands that enqueue.
func (s *session) offer(ctx context.Context) {
	names := slices.Sorted(maps.Keys(s.cfg.Endpoints))
	for {
		if err := s.worker.Store.Offer(ctx, names, 3*offerEvery); err != nil && ctx.Err() == nil {
			s.worker.Log.Debug().Err(err).Msg("cannot announce this worker's providers; retrying")
		}
		if outage.Pause(ctx, offerEvery) != nil {
			return
		}
	}
}
