package ratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// registry is what all holders have pinned, at one version. It is immutable: a new version is a new registry, which
// shares the unchanged parts.
type registry struct {
	version string             // with the epoch
	epoch   string             // "": Redis remembers nothing
	since   int64              // when it begins, Unix µs
	holders map[string][]Limit // what each pinned; not nil for a holder of no limits
	rules   []*rule            // one for each limit ID, by ID
	byID    map[string]*rule
	margins margins
}

// load reads the registry: what changed since this process read it last, or all of it if Redis
// cannot tell.
func (a access) load(ctx context.Context) (*registry, error) {
	known := a.known.Load()
	reply, err := readScript.RunRO(ctx, a.client, a.keys.read(), known.version).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	now, err := known.update(a.keys, reply)
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	a.known.Store(now) // if two read at once, either result will do
	return now, nil
}

func (k keys) read() []string { return []string{k.registry(), k.changes(), k.margins()} }

// update returns the registry after the changes in the read script's answer.
func (r *registry) update(k keys, reply []string) (*registry, error) {
	part, fields, spread, err := splitReply(reply)
	if err != nil {
		return nil, err
	}
	margins, err := parseMargins(spread)
	if err != nil {
		return nil, err
	}

	changed := map[string][]Limit{}
	for holder, text := range fields {
		if reserved(holder) {
			continue
		}
		if changed[holder], err = parseLimits(holder, text); err != nil {
			return nil, fmt.Errorf("limits of %s: %w", holder, err)
		}
	}

	if !part {
		r = &registry{}
	}
	now := r.with(k, changed, margins)
	now.epoch, now.version = fields[epochField], fields[epochField]+":"+cmp.Or(fields[versionField], "0")
	if now.since, err = strconv.ParseInt(cmp.Or(fields[sinceField], "0"), 10, 64); err != nil {
		return nil, fmt.Errorf("since: %w", err)
	}
	return now, nil
}

// splitReply reads the read script's answer, which lua/read.lua describes.
func splitReply(reply []string) (part bool, fields, spread map[string]string, err error) {
	misfit := fmt.Errorf("script answered %d strings, which is an unexpected number", len(reply))
	if len(reply) < 2 || len(reply)%2 != 0 || reply[0] != "part" && reply[0] != "whole" {
		return false, nil, nil, misfit
	}
	n, err := strconv.Atoi(reply[1])
	if err != nil || n < 0 || 2+2*n > len(reply) {
		return false, nil, nil, misfit
	}
	return reply[0] == "part", pairs(reply[2 : 2+2*n]), pairs(reply[2+2*n:]), nil
}

// pairs converts a list of names, each followed by its value, to a map.
func pairs(list []string) map[string]string {
	of := make(map[string]string, len(list)/2)
	for pair := range slices.Chunk(list, 2) {
		of[pair[0]] = pair[1]
	}
	return of
}

// parseLimits parses what a holder pinned; nil if it is no longer a holder.
func parseLimits(holder, text string) ([]Limit, error) {
	if text == "" {
		return nil, nil
	}
	limits := []Limit{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields() // the limits of a newer program must not be ignored
	if err := decoder.Decode(&limits); err != nil {
		return nil, err
	}
	for _, limit := range limits {
		// A limit that this program does not know must not be ignored.
		if err := limit.Validate(); err != nil && !strings.HasPrefix(holder, closedPrefix) {
			return nil, err
		}
	}
	return limits, nil
}

// with returns the registry after some holders have pinned other limits, or nil for none, and providers have these
// margins.
func (r *registry) with(k keys, changed map[string][]Limit, margins margins) *registry {
	now := &registry{holders: map[string][]Limit{}, byID: map[string]*rule{}, margins: margins}
	maps.Copy(now.holders, r.holders)
	maps.Copy(now.byID, r.byID)

	affected := map[string][]string{} // holders by limit ID
	for holder, limits := range changed {
		if limits == nil {
			delete(now.holders, holder)
		} else {
			now.holders[holder] = limits
		}
		for _, limit := range slices.Concat(r.holders[holder], limits) {
			affected[limit.ID()] = append(affected[limit.ID()], holder)
		}
	}

	if !maps.Equal(margins, r.margins) {
		for _, rule := range r.rules {
			if rule.measured {
				affected[rule.id] = append(affected[rule.id], rule.holders...)
			}
		}
	}

	for _, rule := range r.rules {
		if affected[rule.id] == nil {
			now.rules = append(now.rules, rule)
		}
	}

	for id, holders := range affected {
		if before := r.byID[id]; before != nil {
			holders = append(holders, before.holders...)
		}
		slices.Sort(holders)
		delete(now.byID, id)
		if rule := now.rule(k, id, slices.Compact(holders)); rule != nil {
			now.rules, now.byID[id] = append(now.rules, rule), rule
		}
	}

	slices.SortFunc(now.rules, func(a, b *rule) int { return cmp.Compare(a.id, b.id) })
	return now
}

// rule returns the limit with an ID that is in force, or nil if there is none. holders must include every holder that
// pinned it.
func (r *registry) rule(k keys, id string, holders []string) *rule {
	var limits []Limit
	var by []string
	measured := false
	for _, holder := range holders {
		for _, limit := range r.holders[holder] {
			if limit.ID() != id {
				continue
			}
			settled, keeps := r.margins.settled(limit)
			limits, by, measured = append(limits, settled), append(by, holder), measured || keeps
		}
	}
	if len(limits) == 0 {
		return nil
	}
	rule := newRule(k, id, tightest(limits))
	rule.holders = slices.Compact(by)
	if rule.measured = measured; measured {
		rule.margin = r.margins.of(rule.Provider)
	}
	return rule
}

// match returns the rules that a call must keep, and a key for that set: calls with the same key wait in one queue.
func (r *registry) match(call Scope) (rules []*rule, set string) {
	var word []byte
	for i, rule := range r.rules {
		if rule.Matches(call) {
			rules = append(rules, rule)
			word = append(strconv.AppendInt(word, int64(i), 36), '.')
		}
	}
	return rules, string(word)
}
