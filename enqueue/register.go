package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/quarantine"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Registry tells who has pinned limits. *ratelimit.Admin implements it.
type Registry interface {
	Unregistered(ctx context.Context, holders ...string) ([]string, error)
	Register(ctx context.Context, holder string, limits []ratelimit.Limit) error
	Unregister(ctx context.Context, holder string) error
	Closed(ctx context.Context, evaluations ...string) ([]string, error)
	closures
}

// closures is the part of a Registry that stops calls of evaluations.
type closures interface {
	Closures(ctx context.Context, evaluation string) ([]ratelimit.Closure, error)
	Open(ctx context.Context, closures ...ratelimit.Closure) error
}

// RegisterAgain registers the limits of active evaluations that the limiter has lost, for example
// in a failover of the Cluster master that holds its slot. Until then, none of their calls begin.
// It also undoes closures that arrived late, after the evaluation was resumed or submitted again.
func RegisterAgain(ctx context.Context, s *store.Store, limits Registry, log zerolog.Logger, active []eval.ID) error {
	holders := make([]string, len(active))
	for i, id := range active {
		holders[i] = string(id)
	}
	missing, err := limits.Unregistered(ctx, holders...)
	if err != nil {
		return err
	}
	for _, holder := range missing {
		err := registerAgain(ctx, s, limits, log, eval.ID(holder))
		if err != nil && !quarantine.Concerns(err) { // an unreadable evaluation has no calls
			return err
		}
	}

	closed, err := limits.Closed(ctx, holders...)
	if err != nil {
		return err
	}
	for _, holder := range closed {
		err := openUnless(ctx, s, limits, eval.ID(holder), record.StatusPaused, record.StatusCancelled)
		if err != nil && !quarantine.Concerns(err) {
			return err
		}
	}
	return nil
}

func registerAgain(ctx context.Context, s *store.Store, limits Registry, log zerolog.Logger, id eval.ID) error {
	r, active, err := ifActive(ctx, s, id)
	if err != nil || !active {
		return err
	}
	if err := register(ctx, s, limits, r); err != nil {
		return err
	}
	// If it has ended meanwhile, its limits were removed before.
	if _, active, err = ifActive(ctx, s, id); err != nil || active {
		if err == nil {
			log.Warn().Str("evaluation", string(id)).Msg("redis lost the limits of an evaluation; registered them again")
		}
		return err
	}
	return limits.Unregister(ctx, string(id))
}

// registers is the part of a Registry that pins limits.
type registers interface {
	Register(ctx context.Context, holder string, limits []ratelimit.Limit) error
}

// register pins the limits of an evaluation. If the evaluation was submitted with other limits
// since r was read, register pins those instead.
func register(ctx context.Context, s *store.Store, limits registers, r record.Evaluation) error {
	for {
		if err := limits.Register(ctx, string(r.ID), r.Settings.Limits); err != nil {
			return fmt.Errorf("pin limits of %s: %w", r.ID, err)
		}
		now, err := s.Evaluation(ctx, r.ID)
		if errors.Is(err, store.ErrNoEvaluation) || err == nil && slices.Equal(now.Settings.Limits, r.Settings.Limits) {
			return nil
		}
		if err != nil {
			return err
		}
		r = now
	}
}

func ifActive(ctx context.Context, s *store.Store, id eval.ID) (r record.Evaluation, active bool, err error) {
	r, err = s.Evaluation(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) {
		return r, false, nil
	}
	return r, r.Status == record.StatusActive, err
}
