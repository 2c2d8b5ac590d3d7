package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
)

// transact runs write in one transaction.
func (s *sqlite) transact(ctx context.Context, operation string, write func(*sql.Tx) error) error {
	operation += " in"
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return explain(operation, s.path, err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := write(tx); err != nil {
		return explain(operation, s.path, err)
	}
	if err := tx.Commit(); err != nil {
		return explain(operation, s.path, err)
	}
	return nil
}

// PutEvaluation stores an evaluation, its phases and its documents.
func (s *sqlite) PutEvaluation(ctx context.Context, e Evaluation, texts iter.Seq2[string, string]) error {
	plan, err := json.Marshal(e.Plan)
	if err != nil {
		return fmt.Errorf("encode plan of %s: %w", e.ID, err)
	}
	settings, err := json.Marshal(e.Settings)
	if err != nil {
		return fmt.Errorf("encode settings of %s: %w", e.ID, err)
	}
	return s.transact(ctx, fmt.Sprintf("store evaluation %s", e.ID), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO evaluations (id, name, plan, settings, created_at, finished_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET settings = excluded.settings`,
			string(e.ID), e.Plan.Name, string(plan), string(settings), stamp{e.Created}, stamp{e.Finished})
		if err != nil {
			return err
		}
		for i, phase := range e.Phases {
			_, err := tx.ExecContext(ctx, `
				INSERT INTO phases (evaluation, phase, kind, runs) VALUES (?, ?, ?, ?)
				ON CONFLICT (evaluation, phase) DO UPDATE SET kind = excluded.kind, runs = excluded.runs`,
				string(e.ID), i, string(phase.Kind), phase.Runs)
			if err != nil {
				return err
			}
		}
		if err := noteCancelled(ctx, tx, e.ID, e.Cancelled); err != nil {
			return err
		}
		return s.putTexts(ctx, tx, e.Plan.Everything(), texts)
	})
}

func (s *sqlite) putTexts(ctx context.Context, tx *sql.Tx, documents []eval.Document, texts iter.Seq2[string, string]) error {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO documents (hash, text) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING") //nolint:sqlclosecheck // closed with tx
	if err != nil {
		return err
	}
	for hash, text := range texts {
		if got := eval.TextHash(text); got != hash {
			return fmt.Errorf("text given for document hash %s has hash %s", hash, got)
		}
		if _, err := insert.ExecContext(ctx, hash, s.zstd.EncodeAll([]byte(text), nil)); err != nil {
			return err
		}
	}
	stored, err := tx.PrepareContext(ctx, "SELECT 1 FROM documents WHERE hash = ?") //nolint:sqlclosecheck // closed with tx
	if err != nil {
		return err
	}
	for _, document := range documents {
		var found int
		err := stored.QueryRowContext(ctx, document.Hash).Scan(&found)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("the text of document %q (hash %s) is missing", document.ID, document.Hash)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteCancelled appends to the events that an evaluation was cancelled at a time,
// or, at the zero time, that it goes on; nothing when that is so already.
func noteCancelled(ctx context.Context, tx *sql.Tx, id eval.ID, at time.Time) error {
	name := eventCancelled
	if at.IsZero() {
		name, at = eventResumed, time.Now()
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO events (evaluation, name, metadata, created_at)
		SELECT e.id, ?, '{}', ? FROM evaluations e WHERE e.id = ? AND (`+cancelledAt+` IS NULL) = ?`,
		name, stamp{at}, string(id), name == eventCancelled)
	return err
}

// Cancel notes that the evaluation was cancelled.
func (s *sqlite) Cancel(ctx context.Context, id eval.ID, at time.Time) error {
	return s.transact(ctx, fmt.Sprintf("note that %s is cancelled", id), func(tx *sql.Tx) error {
		var found int
		switch err := tx.QueryRowContext(ctx, "SELECT 1 FROM evaluations WHERE id = ?", string(id)).Scan(&found); {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNoEvaluation
		case err != nil:
			return err
		}
		return noteCancelled(ctx, tx, id, at)
	})
}

// Finish notes when the evaluation's last run ended.
func (s *sqlite) Finish(ctx context.Context, id eval.ID, at time.Time) error {
	return s.transact(ctx, fmt.Sprintf("finish evaluation %s", id), func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE evaluations SET finished_at = ? WHERE id = ?", stamp{at}, string(id))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrNoEvaluation)
		}
		return nil
	})
}

// Append stores entries of an evaluation.
func (s *sqlite) Append(ctx context.Context, id eval.ID, entries []record.Entry) error {
	return s.transact(ctx, fmt.Sprintf("store results of %s", id), func(tx *sql.Tx) error {
		// When ctx ends, so does the transaction, and with it every statement. To
		// watch for that once more in each would cost as much as the statements.
		ctx := context.WithoutCancel(ctx)
		var found int
		err := tx.QueryRowContext(ctx, "SELECT 1 FROM evaluations WHERE id = ?", string(id)).Scan(&found)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoEvaluation
		}
		if err != nil {
			return err
		}
		a, err := newAppender(ctx, tx, id)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := a.entry(ctx, entry); err != nil {
				return err
			}
		}
		return nil
	})
}
