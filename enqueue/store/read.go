package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

// Evaluation reads an evaluation's record. The error is ErrNoEvaluation if there is none.
func (s *Store) Evaluation(ctx context.Context, id eval.ID) (record.Evaluation, error) {
	values, err := s.client.HGetAll(ctx, s.keys.Record(id)).Result()
	if err != nil {
		return record.Evaluation{}, fmt.Errorf("read record of %s: %w", id, err)
	}
	return parseRecord(id, values)
}

func parseRecord(id eval.ID, values map[string]string) (record.Evaluation, error) {
	if len(values) == 0 {
		return record.Evaluation{}, fmt.Errorf("%s: %w", shown(id), ErrNoEvaluation)
	}
	r, err := parseFields(id, values)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return record.Evaluation{}, unreadable(id, err)
	}
	return r, nil
}

func parseFields(id eval.ID, values map[string]string) (record.Evaluation, error) {
	if err := versionKnown(values[fieldVersion]); err != nil {
		return record.Evaluation{}, err
	}
	created, err := strconv.ParseInt(values[fieldCreated], 10, 64)
	if err != nil {
		return record.Evaluation{}, fmt.Errorf("created: %w", err)
	}

	r := record.Evaluation{
		ID: id, Name: values[fieldName], Status: record.Status(values[fieldStatus]), Stopped: values[fieldStopped],
		Created: time.UnixMilli(created), ResultsID: values[fieldResultsID], ResultsURL: values[fieldResultsURL],
	}

	if text := values[fieldResult]; text != "" && record.HasEnded(r.Status, r.Stopped) {
		if err := json.Unmarshal([]byte(text), &r.Result); err != nil {
			return record.Evaluation{}, fmt.Errorf("result: %w", err)
		}
	}

	if r.Paused, err = parsePauses(values[fieldPaused]); err != nil {
		return record.Evaluation{}, err
	}
	r.Revision = record.RevisionOf(values[fieldCreated], values[fieldRevision], values[fieldChosen])
	if err := json.Unmarshal([]byte(values[fieldSettings]), &r.Settings); err != nil {
		return record.Evaluation{}, fmt.Errorf("settings: %w", err)
	}
	if err := json.Unmarshal([]byte(values[fieldPhases]), &r.Phases); err != nil {
		return record.Evaluation{}, fmt.Errorf("phases: %w", err)
	}
	return r, nil
}

// parsePauses reads the record's field of paused providers; empty: none is paused.
func parsePauses(text string) (pauses map[string]record.Pause, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &pauses); err != nil {
		return nil, fmt.Errorf("paused providers: %w", err)
	}
	return pauses, nil
}

// missing returns the error for a part of an evaluation that Redis does not have: ErrNoEvaluation if the record is gone
// as well. Redis may have lost the evaluation, or it may have been deleted, since its record was read.
func (s *Store) missing(ctx context.Context, id eval.ID, what string) error {
	n, err := s.client.Exists(ctx, s.keys.Record(id)).Result()
	if err != nil {
		return fmt.Errorf("look for evaluation %s: %w", id, err)
	}
	if n == 0 {
		return fmt.Errorf("%s: %w", shown(id), ErrNoEvaluation)
	}
	return unreadable(id, errors.New(what+" is gone from Redis"))
}

// Questions reads an evaluation's questions. Its ID is derived from this content.
func (s *Store) Questions(ctx context.Context, id eval.ID) (*eval.Evaluation, error) {
	raw, err := s.client.Get(ctx, s.keys.Plan(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, s.missing(ctx, id, "its plan")
	}
	if err != nil {
		return nil, fmt.Errorf("read plan of %s: %w", id, err)
	}
	if raw, err = packing.Unpack(raw); err != nil {
		return nil, unreadable(id, fmt.Errorf("plan: %w", err))
	}
	e := new(eval.Evaluation)
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, unreadable(id, fmt.Errorf("plan: %w", err))
	}
	if e.PlanVersion == eval.PlanVersion && e.StoredID() != id {
		return nil, unreadable(id, errors.New("its plan belongs to another evaluation"))
	}
	if e.PlanVersion != eval.PlanVersion {
		return nil, unreadable(id, fmt.Errorf("its plan has version %d, this program knows %d", e.PlanVersion, eval.PlanVersion))
	}
	return e, nil
}

// Documents reads texts by their hashes. The error is ErrNoEvaluation if the evaluation is gone, and ErrUnreadable if it
// lacks one of them.
func (s *Store) Documents(ctx context.Context, id eval.ID, hashes ...string) (map[string]string, error) {
	values, err := s.client.HMGet(ctx, s.keys.Documents(id), hashes...).Result()
	if err != nil {
		return nil, fmt.Errorf("read documents of %s: %w", id, err)
	}
	texts := make(map[string]string, len(hashes))
	for i, value := range values {
		packed, ok := value.(string)
		if !ok {
			return nil, s.missing(ctx, id, "text "+hashes[i])
		}
		text, err := packing.Unpack([]byte(packed))
		if err != nil {
			return nil, fmt.Errorf("text %s of %s: %w", hashes[i], id, err)
		}
		if eval.TextHash(string(text)) != hashes[i] {
			return nil, fmt.Errorf("text %s of %s: its hash differs", hashes[i], id)
		}
		texts[hashes[i]] = string(text)
	}
	return texts, nil
}
