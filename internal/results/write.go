package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

// lock checks that the evaluation exists, and keeps others from writing to it until the transaction
// ends.
func (t *transaction) lock(ctx context.Context, id eval.ID) error {
	var found int
	err := t.one(ctx, "SELECT 1 FROM evaluations WHERE id = ?"+t.locked(), string(id)).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoEvaluation
	}
	return err
}

var (
	putEvaluation = insert("evaluations", "id, name, plan, settings, created_at, finished_at") +
		" ON CONFLICT (id) DO UPDATE SET plan = excluded.plan, settings = excluded.settings"
	putPhase = insert("phases", "evaluation, phase, kind, runs, choice") + ` ON CONFLICT (evaluation, phase)
		DO UPDATE SET kind = excluded.kind, runs = excluded.runs, choice = coalesce(phases.choice, excluded.choice)`
	choosePhase = insert("phases", "evaluation, phase, kind, runs, choice") + ` ON CONFLICT (evaluation, phase)
		DO UPDATE SET runs = excluded.runs, choice = excluded.choice WHERE phases.choice IS NULL`
	putDocument = insert("documents", "hash, text") + " ON CONFLICT (hash) DO NOTHING"
)

// PutEvaluation stores an evaluation, its phases, its documents, and its votes.
func (s *store) PutEvaluation(ctx context.Context, e Evaluation, texts iter.Seq2[string, string]) error {
	asks, err := json.Marshal(e.Plan)
	if err != nil {
		return fmt.Errorf("encode plan of %s: %w", e.ID, err)
	}
	settings, err := json.Marshal(e.Settings)
	if err != nil {
		return fmt.Errorf("encode settings of %s: %w", e.ID, err)
	}

	given := maps.Collect(texts)
	return s.transact(ctx, fmt.Sprintf("store evaluation %s", e.ID), func(t *transaction) error {
		votes, err := t.votesOf(ctx, e.ID)
		if err != nil {
			return err
		}
		statements := []statement{{putEvaluation, []any{
			string(e.ID), e.Plan.Name, string(asks), string(settings), stamp{e.Created}, stamp{e.Finished},
		}}}
		for i, phase := range e.Phases {
			choice, err := optionalJSON(phase.Choice)
			if err != nil {
				return fmt.Errorf("encode what phase %d of %s compares: %w", i, e.ID, err)
			}
			statements = append(statements, statement{putPhase, []any{string(e.ID), i, string(phase.Kind), phase.Runs, choice}})
		}
		if _, err := t.send(ctx, t, statements); err != nil {
			return err
		}
		if e.Stopped == nil {
			if err := t.noteCancelled(ctx, e.ID, e.Cancelled); err != nil {
				return err
			}
		}
		if e.Settings.Votes != votes {
			if err := t.putVotes(ctx, e, given[e.Settings.Votes]); err != nil {
				return err
			}
		}
		return s.putTexts(ctx, t, e.Plan.Everything(), given)
	})
}

// Choose stores what a phase compares, unless it is stored already.
func (s *store) Choose(ctx context.Context, id eval.ID, phase int, chosen record.Phase) (*plan.Choice, error) {
	choice, err := optionalJSON(chosen.Choice)
	if err != nil {
		return nil, fmt.Errorf("encode what phase %d of %s compares: %w", phase, id, err)
	}

	stored := new(plan.Choice)
	err = s.transact(ctx, fmt.Sprintf("store what phase %d of %s compares", phase, id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}
		if _, err := t.exec(ctx, choosePhase, string(id), phase, string(chosen.Kind), chosen.Runs, choice); err != nil {
			return err
		}
		var text string
		err := t.one(ctx, "SELECT choice FROM phases WHERE evaluation = ? AND phase = ?", string(id), phase).Scan(&text)
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), stored)
	})
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// textsAtOnce is how many documents one query or round trip handles.
const textsAtOnce = 200

// putTexts stores the texts that are not stored yet. It does so in the order of their hashes, so
// that two evaluations with the same documents cannot deadlock.
func (s *store) putTexts(ctx context.Context, t *transaction, documents []eval.Document, texts map[string]string) error {
	missing := map[string]bool{}
	for hash, text := range texts {
		if got := eval.TextHash(text); got != hash {
			return fmt.Errorf("the text for document hash %s has hash %s", hash, got)
		}
		missing[hash] = true
	}

	for _, document := range documents {
		for _, hash := range document.Hashes() {
			missing[hash] = true
		}
	}
	for hashes := range slices.Chunk(slices.Sorted(maps.Keys(missing)), textsAtOnce) {
		args := make([]any, len(hashes))
		for i, hash := range hashes {
			args[i] = hash
		}
		stored := rows(ctx, &t.access, func(row scanner, hash *string) error { return row.Scan(hash) },
			"SELECT hash FROM documents WHERE hash IN ("+placeholders(len(hashes))+")", args...)
		for hash, err := range stored {
			if err != nil {
				return err
			}
			delete(missing, hash)
		}
	}

	for _, document := range documents {
		for _, hash := range document.Hashes() {
			if _, given := texts[hash]; missing[hash] && !given {
				return fmt.Errorf("the text of document %q (hash %s) is missing", document.ID, hash)
			}
		}
	}

	for hashes := range slices.Chunk(slices.Sorted(maps.Keys(missing)), textsAtOnce) {
		statements := make([]statement, len(hashes))
		for i, hash := range hashes {
			statements[i] = statement{putDocument, []any{hash, packing.Pack([]byte(texts[hash]))}}
		}
		if _, err := t.send(ctx, t, statements); err != nil {
			return err
		}
	}

	return nil
}

// noteCancelled appends the event that an evaluation was cancelled at a time, or resumed if the
// time is zero. It appends nothing if the state does not change.
func (t *transaction) noteCancelled(ctx context.Context, id eval.ID, at time.Time) error {
	name, unless := eventCancelled, cancelledAt+" IS NOT NULL"
	if at.IsZero() {
		name, at, unless = eventResumed, time.Now(), cancelledAt+" IS NULL AND "+stoppedWhy+" IS NULL"
	}
	_, err := t.exec(ctx, `
		INSERT INTO events (evaluation, name, metadata, created_at)
		SELECT e.id, ?, '{}', ? FROM evaluations e WHERE e.id = ? AND NOT (`+unless+`)`,
		name, stamp{at}, string(id))
	return err
}

// Cancel stores that the evaluation was cancelled.
func (s *store) Cancel(ctx context.Context, id eval.ID, at time.Time) error {
	return s.transact(ctx, fmt.Sprintf("note that %s is cancelled", id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}
		return t.noteCancelled(ctx, id, at)
	})
}

// Finish stores when the evaluation's last run ended.
func (s *store) Finish(ctx context.Context, id eval.ID, at time.Time) error {
	return s.transact(ctx, fmt.Sprintf("finish evaluation %s", id), func(t *transaction) error {
		changed, err := t.exec(ctx, "UPDATE evaluations SET finished_at = ? WHERE id = ?", stamp{at}, string(id))
		if err == nil && changed == 0 {
			return ErrNoEvaluation
		}
		return err
	})
}
