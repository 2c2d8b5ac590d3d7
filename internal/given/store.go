package given

import (
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// atOnce is how many runs one transaction stores.
const atOnce = 20_000

// Store stores the evaluation and its verdicts, with the reasons that judges gave. It reads the files again for these,
// and fails if they have changed. It may be repeated.
func (v *Verdicts) Store(ctx context.Context, db results.Store) error {
	e := v.Evaluation
	id := e.ID()
	var phases []record.Phase
	for _, one := range []struct {
		kind eval.Kind
		runs int
	}{{eval.KindSingle, len(v.scores)}, {eval.KindPairwise, len(v.verdicts)}} {
		if one.runs > 0 {
			phases = append(phases, record.Phase{Kind: one.kind, Runs: one.runs})
		}
	}
	stored := results.Evaluation{ID: id, Plan: e, Settings: record.Settings{Priority: 1}, Phases: phases, Created: time.Now()}
	if err := db.PutEvaluation(ctx, stored, maps.All(v.texts)); err != nil {
		return err
	}

	w := writer{Verdicts: v, ctx: ctx, db: db, id: id}
	for k, path := range v.paths {
		if err := w.file(k, path); err != nil {
			return err
		}
	}
	if w.verdict != len(v.verdicts) || w.score != len(v.scores) {
		return changed(v.paths[len(v.paths)-1])
	}
	if err := w.flush(); err != nil {
		return err
	}
	return db.Finish(ctx, id, time.Now())
}

func changed(path string) error {
	return config.Problems{{File: path, Message: "the file has changed since it was read", Fix: "run the command again"}}
}

// writer reads the files for the second time.
type writer struct {
	*Verdicts
	ctx            context.Context //nolint:containedctx // of one call
	db             results.Store
	id             eval.ID
	verdict, score int // how many were read
	entries        []record.Entry
}

func (w *writer) file(k int, path string) error {
	format := judgments.Format(w.Evaluation.Given.Files[k].Format)
	var stop error
	err := config.Rows(path, func(_ int, row judgments.Row) error {
		if stop == nil {
			stop = w.row(path, format, row)
		}
		return nil
	})
	return errors.Join(stop, err)
}

func (w *writer) row(path string, format judgments.Format, row judgments.Row) error {
	r, err := format.ReadRow(row, judgments.Options{Baseline: w.options.Baseline})
	if err != nil {
		return changed(path)
	}
	if r.Score != nil {
		if w.score == len(w.scores) {
			return changed(path)
		}
		w.entries = append(w.entries, record.Entry{Run: w.scored(w.scores[w.score], *r.Score)})
		w.score++
	}
	for _, said := range r.Verdicts {
		if said.Skipped != "" && !said.Failed || same(r, w.options) {
			continue
		}
		if w.verdict == len(w.verdicts) {
			return changed(path)
		}
		w.entries = append(w.entries, record.Entry{Run: w.run(w.verdicts[w.verdict], said)})
		w.verdict++
	}

	if len(w.entries) < atOnce {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	if len(w.entries) == 0 {
		return nil
	}
	err := w.db.Append(w.ctx, w.id, w.entries)
	w.entries = w.entries[:0]
	return err
}

// begun returns a run with what verdicts and scores have in common.
func (w *writer) begun(judge int32, at time.Time, documents ...int32) *record.Run {
	run := &record.Run{
		State: eval.StateSucceeded.String(), Judge: w.Evaluation.Judges[w.shownAs[judge]].Name,
		Model: w.judges[judge], AnsweredBy: w.judges[judge],
		Started: at, Ended: at,
	}
	for _, k := range documents {
		d := w.Evaluation.Documents[k]
		run.Item = w.Evaluation.Items[d.Item].ID
		run.Documents, run.Candidates = append(run.Documents, d.ID), append(run.Candidates, d.Candidate)
	}
	return run
}

// run returns the run of a verdict.
func (w *writer) run(v verdict, said judgments.Verdict) *record.Run {
	first, second := v.shown()
	run := w.begun(v.judge, said.At, first, second)
	run.Kind, run.Phase, run.Index, run.Trial, run.Reason = eval.KindPairwise, one(len(w.scores) > 0), int(v.index), int(v.trial), said.Reason
	switch v.outcome {
	case judgments.None:
		fail(run, said.Skipped)
	case judgments.First:
		run.Winner = w.Evaluation.Documents[v.first].ID
	case judgments.Second:
		run.Winner = w.Evaluation.Documents[v.second].ID
	default:
		run.Winner = eval.Tie
	}
	if v.unasked {
		run.AnsweredBy = ""
	}

	if w.Evaluation.Pairwise.Soft && run.Winner != "" && !math.IsNaN(v.share) {
		run.Chances = &eval.Chances{First: v.share, Second: 1 - v.share}
		if v.reverse {
			run.Chances.First, run.Chances.Second = run.Chances.Second, run.Chances.First
		}
	}
	return run
}

// fail makes a run one whose judge gave no answer.
func fail(run *record.Run, why string) {
	run.State, run.Class, run.Error, run.AnsweredBy = eval.StateFailed.String(), providers.Malformed, why, ""
}

// scored returns the run of a score.
func (w *writer) scored(s score, said judgments.Score) *record.Run {
	run := w.begun(s.judge, said.At, s.document)
	run.Kind, run.Index, run.Trial = eval.KindSingle, int(s.index), int(s.trial)
	if math.IsNaN(s.value) {
		fail(run, said.Skipped)
		return run
	}
	run.Scores = []record.Score{{Criterion: criterion, Score: s.value, Reason: said.Reason}}
	return run
}
