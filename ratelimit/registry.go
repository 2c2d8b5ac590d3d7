package ratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fields of the registry that are not holders: the version counts its changes, the others describe what Redis remembers
// (memory.go).
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

// workerPrefix begins the name under which a worker registers the limits of its own configuration.
const workerPrefix = "worker/"

// WorkerHolder returns the holder of the limits that a worker pins: see Limiter.Pin.
func WorkerHolder(worker string) string { return workerPrefix + worker }

// PinnedBy returns the worker that pinned limits under a holder. ok is false for any other
// holder.
func PinnedBy(holder string) (worker string, ok bool) { return strings.CutPrefix(holder, workerPrefix) }

// Register pins limits under a holder (an evaluation's ID, or the fleet's configuration) instead of those it pinned
// before. From its next admission on, every call of every worker that matches a pinned limit keeps it. A limit does not
// count calls that were admitted before it was pinned. Pinning the same limits again changes nothing. A holder of no
// limits is registered as well: see Request.Holders.
func (a *Admin) Register(ctx context.Context, holder string, limits []Limit) error {
	if holder == "" || reserved(holder) {
		return fmt.Errorf("register limits: %q cannot hold limits", holder)
	}
	if err := validate(limits); err != nil {
		return fmt.Errorf("register limits of %s: %w", holder, err)
	}
	_, err := a.register(ctx, holder, limits, "")
	return err
}

// Pin registers limits of this worker's own configuration. They are in force until Run ends, or
// Admin.Forget removes the worker. It returns false, and pins nothing, while Redis holds no valid
// heartbeat of the worker: so a command that arrives after the worker has ended pins nothing.
func (l *Limiter) Pin(ctx context.Context, limits []Limit) (pinned bool, err error) {
	if err := validate(limits); err != nil {
		return false, fmt.Errorf("pin limits: %w", err)
	}
	return l.register(ctx, WorkerHolder(l.cfg.Worker), limits, l.cfg.Worker)
}

func validate(limits []Limit) error {
	var problems []error
	for _, limit := range limits {
		problems = append(problems, limit.Validate())
	}
	return errors.Join(problems...)
}

// register registers limits, those of a worker ("" for none) only while its heartbeat is valid.
func (a access) register(ctx context.Context, holder string, limits []Limit, of string) (registered bool, err error) {
	// Sort, so that the same limits always encode to the same text.
	sorted := append([]Limit{}, limits...)
	slices.SortFunc(sorted, func(a, b Limit) int { return cmp.Compare(a.ID(), b.ID()) })
	text, err := json.Marshal(sorted)
	if err != nil {
		return false, fmt.Errorf("register limits of %s: %w", holder, err)
	}
	registered, err = a.pin(ctx, holder, string(text), of)
	if err != nil {
		return false, fmt.Errorf("register limits of %s: %w", holder, err)
	}
	return registered, nil
}

// Unregister removes a holder and its limits. It is no error if the holder has none.
func (a *Admin) Unregister(ctx context.Context, holder string) error {
	if reserved(holder) {
		return fmt.Errorf("unregister limits: %q cannot hold limits", holder)
	}
	if _, err := a.pin(ctx, holder, "", ""); err != nil {
		return fmt.Errorf("unregister limits of %s: %w", holder, err)
	}
	return nil
}

// Unregistered returns those of some holders that are not registered.
func (a *Admin) Unregistered(ctx context.Context, holders ...string) ([]string, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	registry, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(holders), func(holder string) bool { return registry.holders[holder] != nil }), nil
}

// Holders returns each holder of pinned limits once, including holders whose set of limits is empty, and evaluations
// with a closure.
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

func (a access) pin(ctx context.Context, holder, text, of string) (done bool, err error) {
	keys := []string{a.keys.registry(), a.keys.alive(), a.keys.changes(), a.keys.former()}
	version, err := registerScript.Run(ctx, a.client, keys, holder, text, a.keys.wake(""), of).Int64()
	return version >= 0, err
}

// InForce lists the limits in force, by ID. If several holders pinned limits with one ID, it has the tightest; for a
// limit that was cut it has the current value.
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
