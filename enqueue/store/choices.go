package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

var (
	//go:embed lua/choose.lua
	chooseSource string
	chooseScript = redis.NewScript(chooseSource)
)

// WithChoices returns what Evaluation returns, with the choices of phases chosen from results.
// These are needed to rebuild the plans of the phases.
func (s *Store) WithChoices(ctx context.Context, id eval.ID) (record.Evaluation, error) {
	r, err := s.Evaluation(ctx, id)
	if err != nil {
		return r, err
	}
	for i, phase := range r.Phases {
		if !phase.Chosen {
			continue
		}
		if r.Phases[i].Choice, err = s.choice(ctx, id, i); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (s *Store) choice(ctx context.Context, id eval.ID, phase int) (*plan.Choice, error) {
	packed, err := s.client.Get(ctx, s.keys.Choice(id, phase)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, s.missing(ctx, id, fmt.Sprintf("what phase %d compares", phase))
	}
	if err != nil {
		return nil, fmt.Errorf("read what phase %d of %s compares: %w", phase, id, err)
	}
	raw, err := packing.Unpack(packed)
	if err != nil {
		return nil, unreadable(id, fmt.Errorf("what phase %d compares: %w", phase, err))
	}
	choice := new(plan.Choice)
	if err := json.Unmarshal(raw, choice); err != nil {
		return nil, unreadable(id, fmt.Errorf("what phase %d compares: %w", phase, err))
	}
	return choice, nil
}

func encodeChoice(id eval.ID, phase int, choice *plan.Choice) ([]byte, error) {
	raw, err := json.Marshal(choice)
	if err != nil {
		return nil, fmt.Errorf("encode what phase %d of %s compares: %w", phase, id, err)
	}
	return packing.Pack(raw), nil
}

// Choose stores what an open phase of r compares, and its resulting number of runs. It does so
// once, even if several processes call it, and only if every run of the earlier phases has ended.
// It returns false, and changes nothing, if that is not so or if r no longer matches the record.
// The error is ErrNoEvaluation if there is no record.
func (s *Store) Choose(ctx context.Context, r record.Evaluation, phase int, chosen record.Phase) (bool, error) {
	before, err := s.client.HGet(ctx, s.keys.Record(r.ID), fieldPhases).Result()
	if errors.Is(err, redis.Nil) {
		err = ErrNoEvaluation
	}
	if err != nil {
		return false, fmt.Errorf("choose phase %d of %s: %w", phase, r.ID, err)
	}

	var phases []record.Phase
	if err := json.Unmarshal([]byte(before), &phases); err != nil {
		return false, fmt.Errorf("choose phase %d of %s: phases: %w", phase, r.ID, err)
	}
	if len(phases) <= phase || !reflect.DeepEqual(phases[phase], r.Phases[phase]) {
		return false, nil
	}
	choice, err := encodeChoice(r.ID, phase, chosen.Choice)
	if err != nil {
		return false, err
	}

	runs, ended := 0, []any{}
	for i, p := range phases[:phase] {
		runs += p.Runs
		for queue := range p.Queues {
			for _, field := range endedFields(i, queue) {
				ended = append(ended, field)
			}
		}
	}

	phases[phase] = chosen
	after, err := json.Marshal(phases)
	if err != nil {
		return false, fmt.Errorf("encode phases of %s: %w", r.ID, err)
	}

	keys := []string{s.keys.Record(r.ID), s.keys.Choice(r.ID, phase), s.keys.Counts(r.ID)}
	answer, err := chooseScript.Run(ctx, s.client, keys, append([]any{before, after, choice, runs, r.Created.UnixMilli()}, ended...)...).Int()
	if err == nil && answer < 0 {
		err = ErrNoEvaluation
	}
	if err != nil {
		return false, fmt.Errorf("choose phase %d of %s: %w", phase, r.ID, err)
	}
	return answer == 1, nil
}
