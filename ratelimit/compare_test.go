package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// allOrNone checks that a call that was admitted holds a lease of every limit,
// and that one that was not holds none.
func (h *history) allOrNone(s *sentBatch, o outcome) error {
	pipe := h.client.Pipeline()
	type check struct {
		call, of string
		admitted bool
		score    *redis.FloatCmd
	}
	var checks []check
	ctx := context.Background()
	asked := map[string]int{}
	for _, g := range s.b.groups {
		for _, c := range g.calls {
			asked[c.ID]++
		}
	}
	for i, g := range s.b.groups {
		for n, c := range g.calls {
			if asked[c.ID] > 1 || s.by.flightOf(c.ID) != nil {
				continue
			}
			admitted := n < len(o.groups[i].grants) && !o.groups[i].grants[n].taken
			checks = append(checks, check{c.ID, "ledger", admitted, pipe.ZScore(ctx, h.keys.ledger(s.by.name), c.ID)})
			for _, r := range g.queue.rules {
				if r.leased() {
					checks = append(checks, check{c.ID, r.id, admitted, pipe.ZScore(ctx, r.state, c.ID+r.ending(c.reserves()))})
				}
			}
		}
	}
	if len(checks) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, c := range checks {
		if holds := c.score.Err() == nil && int64(c.score.Val()) > h.model.now; holds != c.admitted {
			return fmt.Errorf("%s admitted: %t, but it holds a lease of %s: %t", c.call, c.admitted, c.of, holds)
		}
	}
	return nil
}

// compare holds what Redis remembers, and what it published, against the model.
func (h *history) compare() error {
	heard, err := h.heard(h.keys.wake(""))
	if err != nil {
		return err
	}
	if !slices.Equal(heard, h.model.messages) {
		return fmt.Errorf("messages %q, want %q", heard, h.model.messages)
	}
	h.model.messages = nil
	got, err := h.remembers()
	if err != nil {
		return err
	}
	if d := difference(got, h.modelRemembers()); d != "" {
		return fmt.Errorf("Redis remembers otherwise than the model:\n%s", d)
	}
	return nil
}

// difference lists the lines of got that are not in want, and the other way
// round.
func difference(got, want []string) string {
	var lines []string
	for _, l := range got {
		if !slices.Contains(want, l) {
			lines = append(lines, "  got  "+l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			lines = append(lines, "  want "+l)
		}
	}
	return strings.Join(lines, "\n")
}

// remembers is what Redis remembers, a line a fact.
func (h *history) remembers() ([]string, error) {
	ctx, pipe, now := context.Background(), h.client.Pipeline(), h.model.now
	registry := pipe.HGetAll(ctx, h.keys.registry())
	cooldowns := pipe.HGetAll(ctx, h.keys.cooldowns())
	margins := pipe.HGetAll(ctx, h.keys.margins())
	changes := pipe.LRange(ctx, h.keys.changes(), 0, -1)
	alive := pipe.ZRangeWithScores(ctx, h.keys.alive(), 0, -1)
	ledgers := map[string]*redis.ZSliceCmd{}
	for _, w := range append(slices.Clone(h.workers), h.background) {
		ledgers[w.name] = pipe.ZRangeWithScores(ctx, h.keys.ledger(w.name), 0, -1)
	}
	leases, lines := map[string]*redis.ZSliceCmd{}, map[string]*redis.ZSliceCmd{}
	rates, hashes := map[string]*redis.StringCmd{}, map[string]*redis.MapStringStringCmd{}
	for id, r := range h.limits {
		lines[id] = pipe.ZRangeWithScores(ctx, r.waiters, 0, -1)
		switch r.way {
		case byLeases:
			leases[id] = pipe.ZRangeWithScores(ctx, r.state, 0, -1)
			hashes[id] = pipe.HGetAll(ctx, h.keys.cut(id))
		case byWeight:
			leases[id] = pipe.ZRangeWithScores(ctx, r.state, 0, -1)
		case byBudget:
			leases[id] = pipe.ZRangeWithScores(ctx, r.state, 0, -1)
			hashes[id] = pipe.HGetAll(ctx, r.money)
		case byRate:
			rates[id] = pipe.Get(ctx, r.state)
		default:
			hashes[id] = pipe.HGetAll(ctx, r.state)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var facts []string
	fact := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	for field, value := range registry.Val() {
		fact("registry %s %s", field, value)
	}
	for i, entry := range changes.Val() {
		fact("change %d %s", i, entry)
	}
	for name, value := range cooldowns.Val() {
		fact("cooldown %s %s", name, value)
	}
	for provider, value := range margins.Val() {
		fact("margin %s %s", provider, value)
	}
	for _, z := range alive.Val() {
		if int64(z.Score) > now {
			fact("alive %s %d", z.Member, int64(z.Score))
		}
	}
	for worker, held := range ledgers {
		for _, z := range held.Val() {
			fact("ledger of %s %s %d", worker, z.Member, int64(z.Score))
		}
	}
	for id, r := range h.limits {
		for i, z := range lines[id].Val() {
			fact("line of %s %d %s %d", id, i, z.Member, int64(z.Score))
		}
		switch r.way {
		case byLeases:
			for _, z := range leases[id].Val() {
				fact("lease of %s %s %d", id, z.Member, int64(z.Score))
			}
			if fields := hashes[id].Val(); len(fields) > 0 {
				fact("cut of %s to %s at %s, %s answered", id, fields["max"], fields["cut"], fields["answered"])
			}
		case byWeight:
			for _, z := range leases[id].Val() {
				fact("lease of %s %s %d", id, z.Member, int64(z.Score))
			}
		case byRate:
			var arrival int64
			if seconds, err := strconv.ParseFloat(rates[id].Val(), 64); err == nil {
				arrival = int64(math.Round((seconds + rateEpoch) * 1e6))
			}
			fact("rate %s %d", id, max(now, h.model.remembered(r, arrival)))
		case byWindow:
			fields := hashes[id].Val()
			oldest, _ := strconv.ParseInt(fields["oldest"], 10, 64)
			total, _ := strconv.ParseInt(fields["total"], 10, 64)
			for name, text := range fields {
				slot, err := strconv.ParseInt(name, 10, 64)
				if err != nil {
					continue
				}
				units, _ := strconv.ParseInt(text, 10, 64)
				total -= units
				if slot < oldest {
					fact("window %s holds slot %d older than %d", id, slot, oldest)
				}
				if units != 0 && slot >= floorDiv(now-r.span, r.slot) {
					fact("window %s slot %d %d", id, slot, units)
				}
			}
			if total != 0 {
				fact("window %s counts %d more in all than in its slots", id, total)
			}
		case byBudget:
			for _, z := range leases[id].Val() {
				fact("lease of %s %s %d", id, z.Member, int64(z.Score))
			}
			fields := hashes[id].Val()
			if fields["used"] != "" {
				fact("budget %s %s told %t", id, fields["used"], fields["told"] != "")
			}
			if least := fields["base"]; least != "" && least != "0" {
				fact("budget %s least %s", id, least)
			}
		case byQuota:
			fields := hashes[id].Val()
			if reset, _ := strconv.ParseInt(fields["reset"], 10, 64); reset > now {
				fact("quota %s %s until %d", id, fields["used"], reset)
				fact("quota %s before %s: %s, base %s, whole %t, closed %t", id, fields["epoch"], cmp.Or(fields["before"], "0"), cmp.Or(fields["base"], "0"), fields["whole"] != "", fields["closed"] != "")
			}
		}
	}
	return facts, nil
}

// modelRemembers is the same of the model.
func (h *history) modelRemembers() []string {
	m := h.model
	var facts []string
	fact := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if m.epoch != "" {
		fact("registry epoch %s", m.epoch)
		fact("registry run %s", m.run)
		fact("registry since %d", m.since)
		fact("registry blind %d", m.blind)
	}
	if m.version > 0 {
		fact("registry version %d", m.version)
	}
	if m.clock > 0 {
		fact("registry clock %d", m.clock)
	}
	for holder, text := range m.pinned {
		fact("registry %s %s", holder, text)
	}
	for i, c := range m.log {
		fact("change %d %s %s", i, c.version, c.holder)
	}
	for name, c := range m.cooldowns {
		fact("cooldown %s %d %s %d", name, c.ends, c.word, c.step)
	}
	for provider, s := range m.margins {
		fact("margin %s %d %d %d %d %d %d", provider, s.send, s.path, s.seenSend, s.seenPath, s.since, s.born)
	}
	for worker, end := range m.heartbeats {
		if end > m.now {
			fact("alive %s %d", worker, end)
		}
	}
	for _, w := range append(slices.Clone(h.workers), h.background) {
		for id, end := range m.heldBy(w.name).ends {
			fact("ledger of %s %s %d", w.name, id, end)
		}
	}
	for id, r := range h.limits {
		a := m.account(id)
		for i, w := range a.line {
			fact("line of %s %d %s %d", id, i, w.worker, w.since)
		}
		switch r.way {
		case byLeases:
			for call, end := range a.leases.ends {
				fact("lease of %s %s %d", id, call, end)
			}
			if a.cutTo > 0 {
				fact("cut of %s to %d at %d, %d answered", id, a.cutTo, a.cutAt, a.answered)
			}
		case byWeight:
			for member, end := range a.leases.ends {
				fact("lease of %s %s %d", id, member, end)
			}
		case byRate:
			fact("rate %s %d", id, max(m.now, m.remembered(r, a.arrival)))
		case byWindow:
			for slot, units := range a.slots {
				if units != 0 && slot >= floorDiv(m.now-r.span, r.slot) {
					fact("window %s slot %d %d", id, slot, units)
				}
			}
		case byBudget:
			for call, end := range a.leases.ends {
				fact("lease of %s %s %d", id, call, end)
			}
			if a.spending {
				fact("budget %s %d told %t", id, a.spent, a.toldSpent)
			}
			if a.least > 0 {
				fact("budget %s least %d", id, a.least)
			}
		case byQuota:
			if a.reset > m.now {
				fact("quota %s %d until %d", id, a.used, a.reset)
				fact("quota %s before %s: %d, base %d, whole %t, closed %t", id, a.epoch, a.before, a.base, a.whole, a.closed)
			}
		}
	}
	return facts
}
