package report

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// memory is a Source of rows in memory.
type memory struct {
	evaluation results.Evaluation
	counts     []results.PhaseCounts
	failed     []results.RunRow
	pairwise   []results.PairwiseRow
	singles    []results.SingleRow
	panel      []results.PanelRow
	votes      []results.VoteRow
	responses  []results.RunRow
	calls      []results.CallTotal
	spent      int64
	statistics results.Statistics
	progress   []results.Progress
	outlays    []results.Outlay
	timeline   results.Timeline
	names      map[string][]string // of models, by providers
	waits      []results.Wait
	texts      map[string]string // by hash; others are made
	broken     error             // yielded after the pairwise rows
}

var _ Source = results.Reader(nil)

func (m *memory) Evaluation(context.Context, eval.ID) (results.Evaluation, error) {
	return m.evaluation, nil
}

func (m *memory) Counts(context.Context, eval.ID) ([]results.PhaseCounts, error) {
	return m.counts, nil
}

func (m *memory) CallTotals(context.Context, eval.ID) ([]results.CallTotal, error) {
	return m.calls, nil
}

func (m *memory) Statistics(context.Context, eval.ID) (results.Statistics, error) {
	return m.statistics, nil
}

func (m *memory) Progress(context.Context, eval.ID) ([]results.Progress, error) {
	return m.progress, nil
}

func (m *memory) OutlaysByJudge(context.Context, eval.ID) ([]results.Outlay, error) {
	return m.outlays, nil
}

func (m *memory) OutlaysByName(context.Context, eval.ID) ([]results.Outlay, error) {
	return m.outlays, nil
}

func (m *memory) Timeline(context.Context, eval.ID, int) (results.Timeline, error) {
	return m.timeline, nil
}

func (m *memory) Waits(context.Context, eval.ID) ([]results.Wait, error) {
	return m.waits, nil
}

func (m *memory) Evaluations(context.Context) ([]results.Listed, error) { return nil, nil }

func (m *memory) Named(context.Context, eval.ID) (map[string][]string, error) { return m.names, nil }

func (m *memory) Spent(context.Context, eval.ID, ...string) (int64, int, error) {
	return m.spent, 0, nil
}

func (m *memory) Runs(_ context.Context, _ eval.ID, states ...eval.State) iter.Seq2[results.RunRow, error] {
	if !slices.Equal(states, []eval.State{eval.StateFailed}) {
		panic("a report reads failed runs only")
	}
	return rowsOf(m.failed, nil)
}

func (m *memory) PairwiseRows(context.Context, eval.ID) iter.Seq2[results.PairwiseRow, error] {
	return rowsOf(m.pairwise, m.broken)
}

func (m *memory) SingleRows(context.Context, eval.ID) iter.Seq2[results.SingleRow, error] {
	return rowsOf(m.singles, nil)
}

func (m *memory) PanelRows(context.Context, eval.ID) iter.Seq2[results.PanelRow, error] {
	return rowsOf(m.panel, nil)
}

func (m *memory) Votes(context.Context, eval.ID) iter.Seq2[results.VoteRow, error] {
	return rowsOf(m.votes, nil)
}

func (m *memory) Responses(context.Context, eval.ID) iter.Seq2[results.RunRow, error] {
	return rowsOf(m.responses, nil)
}

// Text is made of the hash.
func (m *memory) Text(_ context.Context, hash string) (string, error) {
	if text, ok := m.texts[hash]; ok {
		return text, nil
	}
	return "The text of " + hash + ".", nil
}

func rowsOf[T any](rows []T, last error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if last != nil {
			var none T
			yield(none, last)
		}
	}
}

// plan is an evaluation of candidates on items, by judges, on pairs in both orders.
func plan(candidates, items []string, judges ...string) *eval.Evaluation {
	e := &eval.Evaluation{
		Name:     "essays",
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
		JSON:     eval.JSONAuto,
		Blind:    true,
	}
	for i, item := range items {
		e.Items = append(e.Items, eval.Item{ID: item, Question: "What about " + item + "?"})
		for _, candidate := range candidates {
			id := item + "/" + candidate
			if item == "" {
				id = candidate
			}
			e.Documents = append(e.Documents, eval.Document{ID: id, Item: i, Candidate: candidate, Hash: eval.TextHash(id), Bytes: 2000})
		}
	}
	for _, name := range judges {
		e.Judges = append(e.Judges, eval.Judge{Name: name, Provider: "simulator", Model: name})
	}
	e.Normalize()
	return e
}

func sourceOf(e *eval.Evaluation) *memory {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &memory{evaluation: results.Evaluation{
		ID: "ev-abcdefgh2345", Plan: e, Created: created, Finished: created.Add(41 * time.Minute),
		Settings: record.Settings{
			Priority: 1, Retry: record.DefaultRetry,
			Limits: []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "simulator"}, Kind: ratelimit.Concurrency, Max: 16}},
		},
	}}
}

// verdict adds a row in which winner is a document's id or eval.Tie.
func (m *memory) verdict(judge int, first, second, winner, reason string) *results.PairwiseRow {
	e := m.evaluation.Plan
	row := results.PairwiseRow{
		Index: len(m.pairwise), Document1: first, Document2: second,
		Judge: e.Judges[judge].Name, Model: e.Judges[judge].Target(), AnsweredBy: e.Judges[judge].Target(),
		Trial: 1, Winner: winner, Reason: reason,
		Timestamp: m.evaluation.Created.Add(time.Duration(len(m.pairwise)) * time.Second),
	}
	for _, d := range e.Documents {
		switch d.ID {
		case first:
			row.Candidate1, row.Item = d.Candidate, e.Items[d.Item].ID
		case second:
			row.Candidate2 = d.Candidate
		}
	}
	m.pairwise = append(m.pairwise, row)
	return &m.pairwise[len(m.pairwise)-1]
}

// tournament asks every judge about every pair of every item in both orders.
// Candidates earlier in names are better; judges like the first text by bias.
func tournament(names, items, judges []string, bias []float64, spread float64) *memory {
	e := plan(names, items, judges...)
	m := sourceOf(e)
	rng := rand.New(rand.NewPCG(1, 2))
	quality := map[string]float64{}
	for k, name := range names {
		quality[name] = spread * (0.5 - float64(k)/float64(len(names)))
	}
	reasons := []string{
		"It names its sources and keeps to the question, while the other drifts into generalities after the first paragraph.",
		"The argument is complete: each claim is followed by an example, and the conclusion does not go beyond them.",
		"Fewer errors. The other confuses cause and effect in its second paragraph and repeats itself at the end.",
		"Clearer sentences; the other is longer without saying more.",
	}
	for a, first := range e.Documents {
		for _, second := range e.Documents[a+1:] {
			if first.Item != second.Item {
				continue
			}
			for j := range judges {
				for _, pair := range [][2]eval.Document{{first, second}, {second, first}} {
					d := quality[pair[0].Candidate] - quality[pair[1].Candidate] + bias[j]
					winner := pair[1].ID
					if rng.Float64() < 1/(1+math.Exp(-d)) {
						winner = pair[0].ID
					}
					reason := reasons[rng.IntN(len(reasons))]
					if rng.Float64() < .06 {
						winner, reason = eval.Tie, "Both make the same points in the same order."
					}
					row := m.verdict(j, pair[0].ID, pair[1].ID, winner, reason)
					if rng.Float64() < .02 {
						row.Winner, row.Reason, row.AnsweredBy = eval.Tie, "identical", ""
					}
				}
			}
		}
	}
	m.counts = []results.PhaseCounts{{Kind: eval.KindPairwise, Runs: len(m.pairwise), Succeeded: len(m.pairwise), Classes: map[string]int{}}}
	for _, j := range e.Judges {
		calls := len(m.pairwise) / len(e.Judges)
		m.calls = append(m.calls, results.CallTotal{Model: j.Target(), Stage: "verdict",
			Usage: results.Usage{Calls: calls, Input: int64(calls) * 1873, Output: int64(calls) * 71, CostUSD: float64(calls) * .00052}})
	}
	return m
}

// withScores adds a phase of single scores before the pairs.
func (m *memory) withScores(criteria ...string) *memory {
	e := m.evaluation.Plan
	e.Single = &eval.Single{Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
	for _, name := range criteria {
		e.Single.Criteria = append(e.Single.Criteria, eval.Criterion{Name: name, Description: "How good is the " + name + "?"})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for d, document := range e.Documents {
		for j, judge := range e.Judges {
			for _, name := range criteria {
				m.singles = append(m.singles, results.SingleRow{
					Phase: 0, Index: d*len(e.Judges) + j, Document: document.ID, Candidate: document.Candidate,
					Judge: judge.Name, Model: judge.Target(), AnsweredBy: judge.Target(), Trial: 1,
					Criterion: name, Score: float64(2 + rng.IntN(3) + (d+1)%2), Reason: "because", Timestamp: m.evaluation.Created,
				})
			}
		}
	}
	runs := len(e.Documents) * len(e.Judges)
	m.counts = append([]results.PhaseCounts{{Kind: eval.KindSingle, Runs: runs, Succeeded: runs, Classes: map[string]int{}}}, m.counts...)
	for k := range m.counts[1:] {
		m.counts[1+k].Phase = 1 + k
	}
	for k := range m.pairwise {
		m.pairwise[k].Phase++
	}
	return m
}

// withFailures makes n runs fail.
func (m *memory) withFailures(n int, class providers.Class, text string) *memory {
	last := &m.counts[len(m.counts)-1]
	for range n {
		e := m.evaluation.Plan
		m.failed = append(m.failed, results.RunRow{Run: record.Run{
			Phase: len(m.counts) - 1, Index: last.Runs, Kind: eval.KindPairwise, State: "failed",
			Judge: e.Judges[0].Name, Model: e.Judges[0].Target(), Documents: []string{e.Documents[0].ID, e.Documents[1].ID},
			Class: class, Error: text, Attempts: 3,
		}})
		last.Runs++
		last.Failed++
		last.Classes[string(class)]++
	}
	return m
}

func built(t testing.TB, m *memory, options Options) *Report {
	t.Helper()
	options.Draws = cmp.Or(options.Draws, 100)
	r, err := Build(context.Background(), m, m.evaluation.ID, options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// names are n distinct candidate names.
func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("candidate-%04d", i)
	}
	return out
}
