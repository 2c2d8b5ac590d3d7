package fleet

import (
	"cmp"
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// Run collects what Redis and the results store know of a run. own, unless empty, is an argument that may be the own
// id of a listed run or a prompt. Such a run is meant if the evaluation has it; otherwise own must be a run's id in
// tables, and id has its position.
func (s *Source) Run(ctx context.Context, id eval.RunID, own string) (*show.Run, error) {
	e, err := s.find(ctx, id.Evaluation)
	if err != nil {
		return nil, err
	}
	if e.Results != nil {
		defer e.Results.Close()
	}
	if own != "" {
		of, err := listed(e, own)
		if _, ok := eval.ParseShort(own); err != nil && !ok {
			return nil, err
		}
		if err == nil {
			id = of
		}
	}
	run, err := e.Run(ctx, id.Phase, id.Index)
	if errors.Is(err, show.ErrUnknown) {
		return nil, failure.Usagef("%w", err)
	}
	return run, failure.With(failure.Unavailable, err)
}

// listed returns the id of the listed run, or prompt, with an id of its own.
func listed(e *show.RunReader, own string) (id eval.RunID, err error) {
	var known []string
	for phase, kind := range plan.Phases(e.Asked) {
		for index, id := range show.OwnIDs(e.Asked, kind) {
			if id == own {
				return eval.RunID{Evaluation: e.ID, Phase: phase, Index: index}, nil
			}
			known = append(known, id)
		}
	}
	if near := wording.Nearest(own, known); near != "" {
		return id, failure.Usagef("%s has no run %s; did you mean %s?", e.ID, own, near)
	}
	return id, failure.Usagef("%q is not a run of %s: want <phase>.<index>, such as 0.17, or r0-17 as in tables, or the "+
		"id of a listed run or a prompt", own, e.ID)
}

// find opens all sources of an evaluation. If id is empty, it is the evaluation of the source.
func (s *Source) find(ctx context.Context, id eval.ID) (_ *show.RunReader, err error) {
	var from show.Stores
	defer func() {
		if err != nil && from.Results != nil {
			_ = from.Results.Close()
		}
	}()

	if s.Dir != "" {
		var newest eval.ID
		if from.Results, newest, err = s.StoreIn.Read(ctx); err != nil {
			return nil, err
		}
		id = cmp.Or(id, newest)
	}

	id = cmp.Or(id, s.Only)
	if redis := s.Fleet(ctx); redis != nil {
		r, err := redis.Store.WithChoices(ctx, id)
		switch {
		case err == nil:
			from.Store, from.Limits, from.Record = redis.Store, redis.Limits(), r
			if from.Results == nil {
				from.Results = s.reader(ctx, r)
			}
		case !errors.Is(err, store.ErrNoEvaluation):
			return nil, failure.With(failure.Unavailable, err)
		case from.Results == nil:
			return nil, redis.Unknown(ctx, id)
		}
	}

	e, err := show.Open(ctx, id, from)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, failure.Usagef("%w", err)
	}
	return e, failure.With(failure.Unavailable, err)
}
