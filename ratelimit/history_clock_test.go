package ratelimit

import (
	"fmt"
	"slices"
	"time"
)

// clockIsSet sets Redis's clock. A worker notices, and moves what is stored with it;
// now and then one that began since shows that it is wrong to do so.
func (h *history) clockIsSet() error {
	by := pick(h.dice, time.Second, 7*time.Second, 10*time.Minute, 3*time.Hour).Microseconds()
	if h.once(2) {
		by = -by
	}
	w := pick(h.dice, h.workers...)
	h.note("the clock is set by %d", by)
	set, known := h.model.clock, w.epoch
	h.audit.daysAreOver(h.limits, h.model.now)
	h.model.clockIsSet(by)
	if err := h.set(time.UnixMicro(h.model.now), 0); err != nil {
		return err
	}
	h.sent, h.delivered = nil, nil // they do nothing any more
	if by < 0 {
		h.audit.clockIsSetBack(h.limits, h.model.now)
	}
	if h.once(4) {
		newcomer := &mate{name: "newcomer"}
		newcomer.Limiter = New(h.client, Config{Worker: newcomer.name, Lease: historyLease})
		if err := h.renews(newcomer); err != nil {
			return err
		}
	}
	outcome, err := h.moveClock(w, set, by, known)
	if err != nil {
		return err
	}
	if outcome == 1 {
		h.follow(by)
		if outcome, err = h.moveClock(pick(h.dice, h.workers...), set, by, known); err == nil && outcome != 0 {
			err = fmt.Errorf("the clock was moved twice")
		}
		if err != nil {
			return err
		}
	}
	return h.pass(0)
}

func (h *history) moveClock(w *mate, set, by int64, known string) (int, error) {
	h.epochs++
	epoch := fmt.Sprintf("%s%d", clockEpoch, h.epochs)
	ledgers := []string{backgroundCalls, "newcomer"}
	for _, m := range slices.Concat(h.workers, h.dead) {
		ledgers = append(ledgers, m.name)
	}
	var rules []*rule
	for _, r := range h.limits {
		rules = append(rules, r)
	}
	keys, told := h.keys.clock(ledgers, rules, time.UnixMicro(h.model.now))
	args := append([]any{set, by, by, h.model.lease, epoch, known, w.name, h.keys.wake("")}, told...)
	h.note("%s moves what is stored", w.name)
	want := h.model.moveClock(w.name, set, by, epoch, known, h.limits)
	got, err := h.stage.run(clockScript, keys, args...).Int()
	if err == nil && got != want {
		err = fmt.Errorf("clock answers %d, want %d", got, want)
	}
	return got, err
}

// follow moves the calls in flight, whose times are Redis's, along with the clock.
func (h *history) follow(by int64) {
	for _, w := range slices.Concat(h.workers, h.dead) {
		w.until += by
		for id, told := range w.cfg.Notes.uses {
			told.ends = told.ends.add(time.Duration(by) * time.Microsecond)
			w.cfg.Notes.uses[id] = told
		}
	}
	for _, f := range h.audit.flights {
		f.start, f.at, f.until, f.kept = f.start+by, f.at+by, f.until+by, f.kept+by
		if f.release != nil {
			f.release.start += by
		}
	}
	h.flushed += by
}

// daysAreOver: what started before the last reset of a quota is of a day that is over, by the clock as it was, however
// the clock is set.
func (a *audit) daysAreOver(limits map[string]*rule, now int64) {
	for id, r := range limits {
		if r.way != byQuota {
			continue
		}
		last, _, _ := resets(time.UnixMicro(now), r.zone)
		for _, f := range a.flights {
			if f.at < last.UnixMicro() && !slices.Contains(f.over, id) {
				f.over = append(f.over, id)
			}
		}
	}
}

// clockIsSetBack: the day before may be in force again, and what started on it was forgotten.
func (a *audit) clockIsSetBack(limits map[string]*rule, now int64) {
	for id := range limits {
		a.unsure[id] = max(now, a.unsure[id])
	}
}

// pauses: a worker's machine is paused for about a lease. It sends nothing when it continues, and
// renews what Redis still holds.
func (h *history) pauses(w *mate) error {
	h.note("%s is paused", w.name)
	w.paused = true
	err := h.pass(time.Duration(h.model.lease) * time.Microsecond * time.Duration(4+h.n(8)) / 8)
	w.paused = false
	if err != nil {
		return err
	}
	if err := h.compare(); err != nil {
		return err
	}
	return h.renewsIn(w, unknownEpoch)
}
