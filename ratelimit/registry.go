package ratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fields of the registry that are no holders: the version counts its changes,
// the rest tells what Redis remembers (memory.go).
const (
	versionField = "version"
	epochField   = "epoch"
	runField     = "run"
	sinceField   = "since"
	blindField   = "blind"
	clockField   = "clock" // how often Redis's clock was set
)

func reserved(holder string) bool {
	switch holder {
	case versionField, epochField, runField, sinceField, blindField, clockField:
		return true
	}
	return false
}

// Register pins limits under a holder (an evaluation's id, or the fleet's
// configuration) in place of those it pinned before. Every call of every worker
// that matches a pinned limit keeps it from its next admission on; calls
// already admitted are not counted by a limit that is new to them. Pinning the
// same limits again changes nothing. A holder of no limits is registered as well:
// see Request.Holders.
func (a *Admin) Register(ctx context.Context, holder string, limits []Limit) error {
	if holder == "" || reserved(holder) {
		return fmt.Errorf("register limits: %q cannot hold limits", holder)
	}
	var problems []error
	for _, limit := range limits {
		problems = append(problems, limit.Validate())
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("register limits of %s: %w", holder, err)
	}
	return a.register(ctx, holder, limits)
}

func (a *Admin) register(ctx context.Context, holder string, limits []Limit) error {
	// One order, so that the same limits are the same text.
	sorted := append([]Limit{}, limits...)
	slices.SortFunc(sorted, func(a, b Limit) int { return cmp.Compare(a.ID(), b.ID()) })
	text, err := json.Marshal(sorted)
	if err != nil {
		return fmt.Errorf("register limits of %s: %w", holder, err)
	}
	if err := a.pin(ctx, holder, string(text)); err != nil {
		return fmt.Errorf("register limits of %s: %w", holder, err)
	}
	return nil
}

// Unregister takes a holder's limits out of force. It is no error when the
// holder has none.
func (a *Admin) Unregister(ctx context.Context, holder string) error {
	if reserved(holder) {
		return fmt.Errorf("unregister limits: %q cannot hold limits", holder)
	}
	if err := a.pin(ctx, holder, ""); err != nil {
		return fmt.Errorf("unregister limits of %s: %w", holder, err)
	}
	return nil
}

// Unregistered returns those of some holders that are not registered.
func (a *Admin) Unregistered(ctx context.Context, holders ...string) ([]string, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	registered, err := a.client.HMGet(ctx, a.keys.registry(), holders...).Result()
	if err != nil {
		return nil, fmt.Errorf("read holders of limits: %w", err)
	}
	var missing []string
	for i, holder := range holders {
		if registered[i] == nil {
			missing = append(missing, holder)
		}
	}
	return missing, nil
}

// Holders names each holder of pinned limits once, including holders whose set of limits is
// empty. An evaluation with a closure is among them.
func (a *Admin) Holders(ctx context.Context) ([]string, error) {
	fields, err := a.client.HKeys(ctx, a.keys.registry()).Result()
	if err != nil {
		return nil, fmt.Errorf("read holders of limits: %w", err)
	}
	var holders []string
	for _, holder := range fields {
		if reserved(holder) {
			continue
		}
		if evaluation, closed := strings.CutPrefix(holder, closedPrefix); closed {
			holder, _, _ = strings.Cut(evaluation, "/")
		}
		holders = append(holders, holder)
	}
	slices.Sort(holders)
	return slices.Compact(holders), nil
}

func (a *Admin) pin(ctx context.Context, holder, text string) error {
	return registerScript.Run(ctx, a.client,
		[]string{a.keys.registry(), a.keys.alive()}, holder, text, a.keys.wake("")).Err()
}

// InForce lists the limits in force, by ID: of limits with one ID pinned by several holders the
// tightest, and for a limit that was cut its current value.
func (a *Admin) InForce(ctx context.Context) ([]Limit, error) {
	registry, cuts, err := a.adapted(ctx)
	if err != nil {
		return nil, err
	}
	limits := make([]Limit, len(registry.rules))
	for i, rule := range registry.rules {
		limits[i] = rule.Limit
		if cut, is := cuts[rule.id]; is {
			limits[i].Max = cut.max
		}
	}
	return limits, nil
}

// load reads the registry.
func (a access) load(ctx context.Context) (*registry, error) {
	pipe := a.client.Pipeline()
	// In this order: a margin that changes in between comes with another version.
	fields, spread := pipe.HGetAll(ctx, a.keys.registry()), pipe.HGetAll(ctx, a.keys.margins())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	registry, err := parseRegistry(a.keys, fields.Val(), spread.Val())
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	return registry, nil
}

// registry is what all holders pinned, at one version.
type registry struct {
	version string  // with the epoch
	epoch   string  // "": Redis remembers nothing
	since   int64   // when it begins, Unix µs
	rules   []*rule // one for each limit ID, by ID
	byID    map[string]*rule
	holders map[string]bool // that are registered, also without limits
	margins margins
}

func parseRegistry(k keys, fields, spread map[string]string) (*registry, error) {
	margins, err := parseMargins(spread)
	if err != nil {
		return nil, err
	}
	measured := map[string]bool{} // by limit ID
	pinned := map[string][]Limit{}
	holders := map[string][]string{} // by limit ID
	registered := map[string]bool{}
	for holder, text := range fields {
		if reserved(holder) {
			continue
		}
		var limits []Limit
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields() // what a newer program bounds by must not be passed over
		if err := decoder.Decode(&limits); err != nil {
			return nil, fmt.Errorf("limits of %s: %w", holder, err)
		}
		registered[holder] = true
		for _, limit := range limits {
			// A limit that this program does not know must not be passed over.
			if err := limit.Validate(); err != nil && !strings.HasPrefix(holder, closedPrefix) {
				return nil, fmt.Errorf("limits of %s: %w", holder, err)
			}
			settled, keeps := margins.settled(limit)
			measured[limit.ID()] = measured[limit.ID()] || keeps
			pinned[limit.ID()] = append(pinned[limit.ID()], settled)
			holders[limit.ID()] = append(holders[limit.ID()], holder)
		}
	}
	r := &registry{
		version: fields[epochField] + ":" + cmp.Or(fields[versionField], "0"),
		epoch:   fields[epochField], byID: map[string]*rule{}, holders: registered, margins: margins,
	}
	if r.since, err = strconv.ParseInt(cmp.Or(fields[sinceField], "0"), 10, 64); err != nil {
		return nil, fmt.Errorf("since: %w", err)
	}
	for id, limits := range pinned {
		rule := newRule(k, id, tightest(limits))
		rule.holders = slices.Sorted(slices.Values(holders[id]))
		if rule.measured = measured[id]; rule.measured {
			rule.margin = margins.of(rule.Provider)
		}
		r.rules, r.byID[id] = append(r.rules, rule), rule
	}
	slices.SortFunc(r.rules, func(a, b *rule) int { return cmp.Compare(a.id, b.id) })
	return r, nil
}

// match returns the rules that a call must keep, and a word for that set: calls
// of one word wait in one queue.
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
