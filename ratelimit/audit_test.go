package ratelimit

import (
	"fmt"
	"slices"
	"time"
)

// audit counts what a provider would see of a history. It knows the limits and
// when calls start and end, and nothing of how they are kept.
type audit struct {
	flights []*flight
	unsure  map[string]int64 // quotas that were told something, by limit, with the time
	spent   map[string]int64 // what budgets were told
}

// flight is a call that was admitted.
type flight struct {
	id        string
	worker    *mate
	rules     []*rule
	start, at int64 // at: when it was granted
	until     int64 // when its lease ends unless renewed
	counts    int64 // µs that it may run although its worker is gone
	sure      bool  // Redis was told of it, and has not been flushed since
	reserved  Used
	forgotten bool     // by a budget
	epoch     string   // in which Redis knew it last
	over      []string // quotas whose day it started on was over before the clock was set
	used      Used     // as the provider counts it, if known

	release          *release // what its worker sent
	released, unused bool     // and Redis has
	kept             int64    // until when the provider may still count it
}

func (u Used) plus(other Used) Used {
	return Used{u.Input + other.Input, u.Output + other.Output, u.Cost + other.Cost}
}

func newAudit() *audit { return &audit{unsure: map[string]int64{}, spent: map[string]int64{}} }

// latestEnd is when the call has ended by itself.
func (f *flight) latestEnd(now int64) int64 {
	if f.counts == 0 {
		return now + hour
	}
	return f.start + f.counts
}

// inFlight says whether the provider may be working on the call.
func (f *flight) inFlight(now int64) bool {
	switch {
	case f.released:
		return now < f.kept
	case f.counts > 0 && f.sure:
		return now < f.start+f.counts
	}
	return now < min(f.until, f.worker.until)
}

// end is what a release says of a call.
func (f *flight) end(r *release, now int64) {
	f.released, f.unused = true, r.unused
	f.sure = f.sure || r.epoch != "" // budgets count it now
	if r.keep > 0 {
		f.kept = min(now+r.keep.Microseconds(), max(f.until, f.start+f.counts))
		return
	}
	f.used = f.used.plus(r.more)
}

// forget: Redis is flushed. It cannot know the calls of those who do not tell it
// of them.
func (a *audit) forget() {
	for _, f := range a.flights {
		f.sure = false
		clear(a.spent)
		if f.worker.name == backgroundCalls {
			f.until = 0
		}
	}
}

// forgets: a budget restarts.
func (a *audit) forgets(budget string) {
	delete(a.spent, budget)
	for _, f := range a.flights {
		f.forgotten = f.forgotten || includes(f.rules, budget)
	}
}

func (a *audit) told(quota string, now int64) { a.unsure[quota] = now }

// admitted notes a call that starts, and says which limit it is too much for.
func (a *audit) admitted(f *flight, now int64) error {
	f.at = now
	a.flights = append(a.flights, f)
	for _, r := range f.rules {
		var err error
		switch {
		case r.way == byLeases:
			err = a.concurrency(r, now)
		case r.way == byWeight:
			err = a.enqueued(r, now)
		case r.way == byWindow:
			err = a.window(r, f)
		case r.way == byRate && r.Kind == Requests:
			err = a.bucket(r, now)
		case r.way == byQuota:
			err = a.quota(r, now)
		case r.way == byBudget:
			err = a.budget(r, f)
		}
		if err != nil {
			return fmt.Errorf("a provider would see too much when %s starts: %w", f.id, err)
		}
	}
	return nil
}

// under are the calls that keep a limit, as it is now, and were sent.
func (a *audit) under(r *rule) (flights []*flight) {
	for _, f := range a.flights {
		same := func(o *rule) bool { return o.id == r.id && o.Limit == r.Limit }
		if !f.unused && slices.ContainsFunc(f.rules, same) {
			flights = append(flights, f)
		}
	}
	return flights
}

func (a *audit) concurrency(r *rule, now int64) error {
	n := int64(0)
	for _, f := range a.flights {
		if includes(f.rules, r.id) && f.inFlight(now) {
			n++
		}
	}
	if n > r.Max {
		return fmt.Errorf("%s: %d calls in flight, want at most %d", r.id, n, r.Max)
	}
	return nil
}

// enqueued: the tokens of the batches in flight are within the limit.
func (a *audit) enqueued(r *rule, now int64) error {
	sum := int64(0)
	for _, f := range a.flights {
		if includes(f.rules, r.id) && f.inFlight(now) {
			sum += f.reserved.Input
		}
	}
	if sum > r.Max {
		return fmt.Errorf("%s: %d tokens enqueued, want at most %d", r.id, sum, r.Max)
	}
	return nil
}

// window: the call fits beside what started within the window and the jitter, or
// it is larger than the window and alone.
func (a *audit) window(r *rule, f *flight) error {
	var before int64
	for _, o := range a.under(r) {
		if o != f && o.start > f.start-r.span {
			before += o.units(r)
		}
	}
	if before > 0 && before+f.units(r) > r.most {
		return fmt.Errorf("%s: %d units beside %d, want at most %d", r.id, f.units(r), before, r.most)
	}
	return nil
}

func (f *flight) units(r *rule) int64 { return r.units(f.used) }

// bucket: a server that refills a unit an interval and holds a burst never runs
// dry.
func (a *audit) bucket(r *rule, now int64) error {
	flights := a.under(r)
	slices.SortFunc(flights, func(x, y *flight) int { return int(x.start - y.start) })
	level, last := float64(r.burst), int64(0)
	for _, f := range flights {
		level = min(float64(r.burst), level+float64(f.start-last)/r.interval)
		last = f.start
		if level--; level < -1e-6 {
			return fmt.Errorf("%s: %s finds the bucket %.3f short", r.id, f.id, -level)
		}
	}
	return nil
}

func (a *audit) quota(r *rule, now int64) error {
	last, _, _ := resets(time.UnixMicro(now), r.zone)
	if a.unsure[r.id] >= last.UnixMicro() {
		return nil
	}
	n := int64(0)
	for _, f := range a.under(r) {
		if f.at >= last.UnixMicro() && !slices.Contains(f.over, r.id) {
			n++
		}
	}
	if n > r.Max {
		return fmt.Errorf("%s: %d calls since its reset, want at most %d", r.id, n, r.Max)
	}
	return nil
}

// budget: what was spent before, what calls cost that have ended, and what the
// others may cost is within it. A call of unknown fate has cost what it may.
func (a *audit) budget(r *rule, f *flight) error {
	sum := a.spent[r.id]
	for _, o := range a.flights {
		if includes(o.rules, r.id) && o.sure && !o.forgotten && !o.unused {
			sum += min(o.used.Cost, o.reserved.Cost)
		}
	}
	if f.reserved.Cost > 0 && sum > r.Max {
		return fmt.Errorf("%s: %d spent and reserved, want at most %d", r.id, sum, r.Max)
	}
	return nil
}
