package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// begin begins an epoch.
func (h *history) begin(memory int64) error {
	h.epochs++
	epoch := fmt.Sprintf("e%d", h.epochs)
	if h.once(3) {
		epoch = firstEpoch + epoch
	}
	h.note("epoch %s of %s begins, if any, with a memory of %d", epoch, h.run, memory)
	sums := h.keys.sums(h.model.pinned)
	h.model.begin(epoch, h.run, memory, h.model.lease, sums)
	h.delivered = nil // budgets forget what it charged, and count it when it comes again
	keys, budgets := h.keys.begin(sums)
	return h.stage.run(beginScript, keys, epoch, h.run, memory, h.model.lease, "", budgets).Err()
}

// memoryGoes: Redis is flushed, or another server takes its place with all that
// it knew, or an epoch is begun.
func (h *history) memoryGoes() error {
	switch h.n(3) {
	case 0:
		pinned := h.model.pinned
		if err := h.flush(); err != nil {
			return err
		}
		if h.once(4) {
			return nil
		}
		// Those who need the limits pin them again.
		for _, holder := range slices.Sorted(maps.Keys(pinned)) {
			of, _ := PinnedBy(holder)
			if err := h.pins(holder, pinned[holder], of); err != nil {
				return err
			}
		}
	case 1:
		h.run = fmt.Sprintf("server-%d", h.epochs)
		return h.begin(0)
	default:
		memory := int64(0)
		if h.once(2) { // whole seconds, as INFO tells
			memory = (h.model.now - h.flushed) / second * second
		}
		return h.begin(memory)
	}
	return nil
}

func (h *history) flush() error {
	h.note("flush")
	if err := h.client.FlushAll(context.Background()).Err(); err != nil {
		return err
	}
	h.model.flush()
	h.audit.forget()
	h.delivered = nil // what it charged is forgotten, and counted when it comes again
	h.flushed = h.model.now
	return h.set(time.UnixMicro(h.model.now), 0)
}

// register pins some limits, or takes some back.
func (h *history) register() error {
	holder := pick(h.dice, historyHolders...)
	text := ""
	switch {
	case h.once(8):
		holder = closedPrefix + pick(h.dice, "ev-a", "ev-b")
		if h.once(2) {
			text = limitsJSON([]Limit{{Scope: Scope{Evaluation: strings.TrimPrefix(holder, closedPrefix)}, Kind: Concurrency}})
		}
	case !h.once(4):
		text = limitsJSON(h.someLimits(holder))
	}
	if err := h.pins(holder, text, ""); err != nil {
		return err
	}
	for _, budget := range h.budgets() {
		if !h.model.account(budget.id).toldSpent && h.n(4) > 0 {
			if err := h.tellSpent(budget, pick[int64](h.dice, 0, 0, 100)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pins registers limits, those of a worker ("" for none) only while it lives.
func (h *history) pins(holder, text, of string) error {
	h.note("%s registers %s", holder, text)
	if err := h.sendPins(holder, text, of); err != nil {
		return err
	}
	return h.knows()
}

// pinsOwn registers the limits of a worker's own configuration. One that is dead sent them before;
// they arrive late.
func (h *history) pinsOwn(w *mate) error {
	return h.pins(WorkerHolder(w.name), limitsJSON(h.someLimits("fleet")), w.name)
}

func (h *history) sendPins(holder, text, of string) error {
	keys := []string{h.keys.registry(), h.keys.alive(), h.keys.changes(), h.keys.former()}
	version, err := h.stage.run(registerScript, keys, holder, text, h.keys.wake(""), of).Int64()
	if err != nil {
		return err
	}
	if pinned := h.model.register(holder, text, of); pinned != (version >= 0) {
		return fmt.Errorf("register of %s answers %d; want that it registers: %t", holder, version, pinned)
	}
	return nil
}

// pinsUnlogged is how an earlier release registers: it logs no change. Its message is lost.
func (h *history) pinsUnlogged() error {
	holder := pick(h.dice, historyHolders...)
	limits := h.someLimits(holder)
	h.note("%s registers %s unlogged", holder, limitsJSON(limits))
	h.model.pin(holder, limitsJSON(limits))
	h.model.version++
	ctx, pipe := context.Background(), h.client.TxPipeline()
	pipe.HSet(ctx, h.keys.registry(), holder, limitsJSON(limits))
	pipe.HIncrBy(ctx, h.keys.registry(), versionField, 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	return h.knows()
}

// pinsOften is an evaluation that comes and goes about as often as the log of changes reaches
// back.
func (h *history) pinsOften() error {
	const holder = "ev-c"
	h.note("%s comes and goes often", holder)
	for range loggedChanges/2 - 1 + h.n(3) {
		for _, text := range []string{"[]", ""} {
			if err := h.sendPins(holder, text, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func limitsJSON(limits []Limit) string {
	text, err := json.Marshal(limits)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// knows notes the limits in force.
func (h *history) knows() error {
	now, err := h.readWhole()
	if err != nil {
		return err
	}
	for id, r := range now.byID {
		h.limits[id] = r
	}
	return nil
}

// cool starts cooldowns, as calls that were refused at the same time do, or ends outages with an answer.
func (h *history) cool() error {
	names := cooldownsOf(pick(h.dice, historyScopes...))
	if h.once(4) {
		return h.answered(names)
	}
	for range 1 + h.n(2) {
		if err := h.coolOne(names[len(names)-1]); err != nil {
			return err
		}
	}
	return nil
}

// answered notes an answer to a call.
func (h *history) answered(names []string) error {
	keys, args := []string{h.keys.cooldowns(), h.keys.troubles(), h.keys.answers()}, []any{"w", "p"}
	for _, name := range names {
		args = append(args, name)
	}
	h.note("a call of %s is answered", names)
	want := h.model.answered(names)
	got, err := h.stage.run(answeredScript, keys, args...).Int64()
	if err == nil && got != want {
		err = fmt.Errorf("answered answers %d, want %d", got, want)
	}
	return err
}

func (h *history) coolOne(name string) error {
	wait := pick(h.dice, 0, 0, 700*time.Millisecond, time.Second, time.Minute).Microseconds()
	word := "cool"
	keys, args := []string{h.keys.cooldowns()}, []any{name, wait, word}
	var rates []*rule
	if wait > 0 {
		switch h.n(4) {
		case 0:
			word = parkedWord
		case 1, 2:
			word = pacedWord
			for _, id := range slices.Sorted(maps.Keys(h.limits)) {
				if r := h.limits[id]; r.way == byRate && h.once(2) {
					rates = append(rates, r)
					keys, args = append(keys, r.state), append(args, r.interval, r.burst)
				}
			}
		}
	}
	var random int64
	if wait == 0 && h.once(2) {
		word, random = outWord, int64(h.n(1000))
		args = append(args, random)
	}
	args[2] = word
	h.note("%s cools for %d: %s", name, wait, word)
	want := h.model.cool(name, wait, word, random, rates)
	got, err := h.stage.run(cooldownScript, keys, args...).Int64()
	if err == nil && got != want {
		err = fmt.Errorf("cooldown answers %d, want %d", got, want)
	}
	return err
}

// spreads: a worker tells how late its calls were.
func (h *history) spreads(w *mate) error {
	if w.rules == nil || h.once(2) {
		if err := h.loads(w); err != nil {
			return err
		}
	}
	provider := pick(h.dice, "p", "p", "q")
	wanted := spare(pick(h.dice, 0, 0, 30*time.Millisecond, 200*time.Millisecond, time.Second), pick(h.dice, 0, 0, 70*time.Millisecond, 300*time.Millisecond))
	keys, arg := h.keys.margin(w.rules, provider, wanted)
	h.note("%s tells the margin of %s: %v", w.name, provider, wanted)
	reply, err := integers(h.stage.run(marginScript, keys, arg).Slice())
	if err != nil {
		return err
	}
	if w.rules.version != h.model.versionString() {
		if !slices.Equal(reply, []int64{-1}) {
			return fmt.Errorf("margin answers %v at another version", reply)
		}
		w.rules = nil
		return nil
	}
	changed, now := h.model.margin(provider, wanted, w.rules.keeping(provider))
	if want := []int64{changed, now.send, now.path}; !slices.Equal(reply, want) {
		return fmt.Errorf("margin answers %v, want %v", reply, want)
	}
	return h.knows()
}

func (h *history) forgets() error {
	var quotas []*rule
	for _, id := range slices.Sorted(maps.Keys(h.limits)) {
		if h.limits[id].way == byQuota {
			quotas = append(quotas, h.limits[id])
		}
	}
	if len(quotas) > 0 && h.once(2) {
		quota, who, units := pick(h.dice, quotas...), pick(h.dice, "ev-a", "ev-b"), int64(h.n(8))
		return h.tells(who, quota, units)
	}
	if budgets := h.budgets(); len(budgets) > 0 && h.once(2) {
		return h.spent(pick(h.dice, budgets...))
	}
	w := pick(h.dice, append(slices.Clone(h.workers), h.dead...)...)
	_, err := h.forget(w, h.once(4))
	return err
}

// forget runs the script that removes a worker, for another worker or for itself.
func (h *history) forget(w *mate, itself bool) (forgotten bool, err error) {
	ids := slices.Sorted(maps.Keys(h.limits))
	keys, args := h.keys.forget(w.name, itself, ids)
	h.note("%s is forgotten (itself: %t)", w.name, itself)
	want := h.model.forget(w.name, itself, ids)
	got, err := h.stage.run(forgetScript, keys, args...).Int64()
	if err == nil && (got == 1) != want {
		err = fmt.Errorf("forget answers %d, want %t", got, want)
	}
	return want, err
}

func (h *history) budgets() (budgets []*rule) {
	for _, id := range slices.Sorted(maps.Keys(h.limits)) {
		if h.limits[id].way == byBudget {
			budgets = append(budgets, h.limits[id])
		}
	}
	return budgets
}

// spent tells a budget what was spent of it before, or has it forgotten.
func (h *history) spent(budget *rule) error {
	if h.once(8) {
		return h.unspends(budget)
	}
	return h.tellSpent(budget, pick[int64](h.dice, 0, 0, 100, 1500))
}

// unspends removes a budget, as a process does that has read it now or, if its command is late,
// before.
func (h *history) unspends(budget *rule) error {
	saved, err := h.client.HMGet(context.Background(), budget.money, "used", "told", "base").Result()
	if err != nil {
		return err
	}
	for i, value := range saved {
		if value == nil {
			saved[i] = "0"
		}
	}
	if h.unspend == nil || !h.once(3) {
		h.unspend = &unspend{budget, saved, h.model.seeSpent(budget.id)}
	}
	u := h.unspend
	h.note("%s is forgotten, as %v", u.budget.id, u.saved)
	want := h.model.forgetSpent(u.budget.id, u.seen)
	got, err := h.stage.run(unspendScript, []string{u.budget.money, u.budget.state}, u.saved...).Bool()
	if err == nil && got != want {
		err = fmt.Errorf("unspend answers %t, want %t", got, want)
	}
	if want {
		h.audit.forgets(u.budget.id)
	}
	return err
}

// unspend is a command that removes a budget.
type unspend struct {
	budget *rule
	saved  []any // its money as it was read
	seen   spentSeen
}

func (h *history) tellSpent(budget *rule, nano int64) error {
	epoch := h.readIn()
	h.note("%s had spent %d, as read in %q", budget.id, nano, epoch)
	a := h.model.account(budget.id)
	before, closed := a.least, !a.toldSpent
	want := h.model.tellSpent(budget.id, epoch, nano)
	if closed && before == 0 && want >= 0 {
		h.audit.spent[budget.id] += nano
	}
	got, err := h.stage.run(spentScript, []string{budget.money, h.keys.registry(), h.keys.alive(), h.keys.changes()}, nano, h.keys.wake(""), epoch).Int64()
	if err == nil && got != want {
		err = fmt.Errorf("spent answers %d, want %d", got, want)
	}
	return err
}

// readIn returns the epoch in which a reported number was read: an earlier one if the command is
// late, "" if it names none.
func (h *history) readIn() string {
	return pick(h.dice, "", h.model.epoch, h.model.epoch, "e0")
}

// tells tells a quota what was used of it.
func (h *history) tells(who string, quota *rule, units int64) error {
	_, next, _ := resets(time.UnixMicro(h.model.now), quota.zone)
	knows, epoch := !h.once(4), h.readIn()
	h.note("%s tells %s: %d, knows %t, as read in %q", who, quota.id, units, knows, epoch)
	h.audit.told(quota.id, h.model.now)
	want := h.model.seed(quota, who, epoch, units, knows)
	got, err := h.stage.run(seedScript, []string{quota.state, h.keys.registry(), h.keys.alive(), h.keys.changes()},
		who, units, next.UnixMicro(), h.keys.wake(""), flag(!knows), epoch).Int64()
	if err == nil && got != want {
		err = fmt.Errorf("seed answers %d, want %d", got, want)
	}
	return err
}
