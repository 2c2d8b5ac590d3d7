package ratelimit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// renews renews a worker's heartbeat and the leases that it holds.
func (h *history) renews(w *mate) error { return h.renewsIn(w, w.epoch) }

// renewsIn does what renews does, with leases of an epoch.
func (h *history) renewsIn(w *mate, granted string) error {
	now := h.model.now
	keys := []string{h.keys.registry(), h.keys.alive(), h.keys.ledger(w.name)}
	var flights []*flight
	late := h.once(6) // its script arrives after its releases, or too late
	for _, f := range w.flights {
		if late || !f.released && f.until > now && f.latestEnd(now) > now {
			flights = append(flights, f)
		}
	}
	var told renewalArgs
	var renewals []renewal
	for _, f := range flights {
		r := renewal{id: f.id, cost: f.reserved.Cost}
		if f.counts > 0 {
			r.counts = max(0, f.latestEnd(now)-now)
		}
		for _, rule := range f.rules {
			if rule.leased() {
				r.limits = append(r.limits, leasedBy{rule.id, rule.ending(f.reserved)})
			}
			if rule.way == byBudget {
				r.budgets = append(r.budgets, rule.id)
			}
			if rule.way == byQuota {
				r.quotas = append(r.quotas, rule.id)
			}
		}
		told.add(r.id, time.Duration(r.counts)*time.Microsecond, f.rules, f.reserved)
		renewals = append(renewals, r)
	}
	uses, byID := w.cfg.Notes.tell(time.UnixMicro(now)), map[string]useNow{}
	for _, use := range uses {
		byID[h.countedIn(use.key).id] = use
	}
	told.addUses(uses)
	keys = append(append(keys, told.sets...), told.counts...)
	earliest, latest := h.expects()
	args := append([]any{w.name, h.model.lease, granted, len(flights), len(told.sets), earliest, latest}, told.args()...)
	h.note("%s renews %d leases of %q, and was told %+v", w.name, len(renewals), granted, uses)
	reply, err := h.stage.run(renewScript, keys, args...).Slice()
	if err != nil {
		return err
	}
	if now < earliest || now > latest {
		h.note("  at an unexpected time")
		if !slices.Equal(reply, []any{"", now, int64(0)}) {
			return fmt.Errorf("renew answers %v at an unexpected time", reply)
		}
		return h.renewsIn(w, granted)
	}
	epoch, lost := h.model.renew(w.name, granted, renewals, byID)
	want := []any{epoch, now, h.model.clock}
	for _, i := range lost {
		want = append(want, i)
	}
	if !slices.Equal(reply, want) {
		return fmt.Errorf("renew answers %v, want %v", reply, want)
	}
	w.epoch, w.until = epoch, now+h.model.lease*4/5
	for i, f := range flights {
		if slices.Contains(lost, int64(i+1)) {
			f.until = now
		} else {
			f.until, f.sure = now+h.model.lease*4/5, true
			f.epoch = cmp.Or(epoch, f.epoch)
		}
	}
	return nil
}

// countedIn returns the quota or the budget whose use is counted in a key.
func (h *history) countedIn(key string) *rule {
	for _, r := range h.limits {
		if r.way == byQuota && r.state == key || r.way == byBudget && r.money == key {
			return r
		}
	}
	return nil
}
