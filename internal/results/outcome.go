package results

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// outcomes adds their outcomes to runs of an evaluation: verdicts, scores, opinions and answers.
func (r *reader) outcomes(ctx context.Context, id eval.ID, runs []RunRow) error {
	of := map[string]*record.Run{}
	ids := map[eval.Kind][]any{}
	for i := range runs {
		run := &runs[i].Run
		short := run.RunID(id).Short()
		of[short] = run
		ids[run.Kind] = append(ids[run.Kind], short)
	}
	for kind, args := range ids {
		o := outcomesOf(kind)
		added := rows(ctx, &r.access, func(row scanner, _ *struct{}) error { return o.add(row, of) },
			"SELECT id, "+o.columns+" FROM "+o.table+" WHERE evaluation = ? AND id IN ("+placeholders(len(args))+")",
			append([]any{string(id)}, args...)...)
		if _, err := collect(added); err != nil {
			return err
		}
	}
	for i := range runs {
		slices.SortFunc(runs[i].Scores, func(a, b record.Score) int { return cmp.Compare(a.Criterion, b.Criterion) })
	}
	return nil
}

// outcomeRows says where the outcomes of a kind are stored, and how they are read.
type outcomeRows struct {
	table, columns string
	add            func(row scanner, of map[string]*record.Run) error // adds a row to the run with its id
}

func outcomesOf(kind eval.Kind) outcomeRows {
	switch kind {
	case eval.KindPairwise:
		const verdict = "winner_doc_id, reason, coalesce(degree, 0), coalesce(criteria, ''), p_doc_1, p_tie, p_doc_2"
		return outcomeRows{"pairwise_results", verdict, addVerdict}
	case eval.KindPanel:
		return outcomeRows{"panel_results", "score, argument", addOpinion}
	case eval.KindRuns, eval.KindPrompts:
		return outcomeRows{"responses", "answer, coalesce(answers, ''), finish", addAnswer}
	}
	return outcomeRows{"single_doc_results", "criterion, score, reason", addScore}
}

func addVerdict(row scanner, of map[string]*record.Run) error {
	var id, winner, reason, criteria string
	var degree int
	var chances chanceColumns
	if err := row.Scan(&id, &winner, &reason, &degree, &criteria, &chances.first, &chances.tie, &chances.second); err != nil {
		return err
	}
	run := of[id]
	run.Winner, run.Reason, run.Degree, run.Chances = winner, reason, degree, chances.read()
	return decodeList(criteria, &run.Criteria)
}

// chanceColumns are the columns of eval.Chances, which are all NULL or none.
type chanceColumns struct{ first, tie, second sql.NullFloat64 }

func (c chanceColumns) read() *eval.Chances {
	if !c.first.Valid {
		return nil
	}
	return &eval.Chances{First: c.first.Float64, Tie: c.tie.Float64, Second: c.second.Float64}
}

// decodeList reads a column with a JSON list, which is empty if there is none.
func decodeList[T any](column string, list *[]T) error {
	if column == "" {
		return nil
	}
	return json.Unmarshal([]byte(column), list)
}

func addScore(row scanner, of map[string]*record.Run) error {
	var id string
	var score record.Score
	err := row.Scan(&id, &score.Criterion, &score.Score, &score.Reason)
	if run := of[id]; err == nil {
		run.Scores = append(run.Scores, score)
	}
	return err
}

// addOpinion adds a score with its argument, or the replacement text.
func addOpinion(row scanner, of map[string]*record.Run) error {
	var id, argument string
	var score *float64
	if err := row.Scan(&id, &score, &argument); err != nil {
		return err
	}
	if run := of[id]; score == nil {
		run.Reason = argument
	} else {
		run.Scores = []record.Score{{Criterion: run.Dimension, Score: *score, Reason: argument}}
	}
	return nil
}

func addAnswer(row scanner, of map[string]*record.Run) error {
	var id, answer, answers, finish string
	if err := row.Scan(&id, &answer, &answers, &finish); err != nil {
		return err
	}
	run := of[id]
	run.Answer, run.Finish = answer, finish
	return decodeList(answers, &run.Answers)
}
