package report

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

func typical() *memory {
	m := tournament([]string{"llama-7b", "mistral-7b-instruct", "pythia-6.9b", "bloom-7b", "日本語モデル"},
		[]string{"q1", "q2", "q3", "q4"}, []string{"careful", "average", "careless"}, []float64{0, .3, 1.2}, 3).
		withScores("factuality", "style").
		withFailures(7, providers.Malformed, "the answer has no winner_doc_id after 2 repairs").
		withFailures(2, providers.Timeout, "no answer within 2m0s")
	m.calls[2].Unpriced = 40
	return m
}

func textOf(t testing.TB, r *Report, options TextOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.WriteText(&out, options); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func pageOf(t testing.TB, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// ranking is "name rank" of every ranked candidate, group by group.
func ranking(r *Report) [][]string {
	var groups [][]string
	for _, g := range r.Groups {
		var group []string
		for _, c := range g.Ranked {
			group = append(group, fmt.Sprintf("%s %d", c.Name, c.Rank))
		}
		groups = append(groups, group)
	}
	return groups
}

func TestText(t *testing.T) {
	t.Parallel()
	got := textOf(t, built(t, typical(), Options{}), TextOptions{})
	file := filepath.Join("testdata", "typical.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("terminal report (-want +got; go test -update writes it):\n%s", diff)
	}
	if strings.Contains(got, "\x1b") {
		t.Error("colour without being asked")
	}
	if coloured := textOf(t, built(t, typical(), Options{}), TextOptions{Colour: true}); !strings.Contains(coloured, "\x1b[1m") {
		t.Error("no colour when asked")
	}
}

// TestFailuresCountForNothing: the ranking is the same with and without them.
func TestFailuresCountForNothing(t *testing.T) {
	t.Parallel()
	m := tournament(names(4), []string{"q"}, []string{"a"}, []float64{0}, 2)
	clean := built(t, m, Options{})
	failed := built(t, m.withFailures(50, providers.Refused, "no"), Options{})
	if diff := cmp.Diff(tablesOf(t, clean), tablesOf(t, failed)); diff != "" {
		t.Errorf("ranking with 50 failed runs (-without +with):\n%s", diff)
	}
	if got := failed.Failures; len(got) != 1 || got[0].Runs != 50 || len(got[0].Examples) != failureExamples {
		t.Errorf("failures: got %+v, want 50 refused with %d examples", got, failureExamples)
	}
	if failed.Judges[0].Failed != 50 {
		t.Errorf("judge's failed runs: got %d, want 50", failed.Judges[0].Failed)
	}
}

func TestWhatCounts(t *testing.T) {
	t.Parallel()
	e := plan([]string{"a", "b"}, []string{"q"}, "j")
	e.Documents = append(e.Documents, eval.Document{ID: "q/a2", Candidate: "a"})
	e.Normalize()
	m := sourceOf(e)
	m.verdict(0, "q/a", "q/b", "q/a", "r1")
	m.verdict(0, "q/b", "q/a", "q/b", "r2")                                   // contradicts itself: always first
	m.verdict(0, "q/a2", "q/b", eval.Tie, "identical").AnsweredBy = ""        // no judge was asked
	m.verdict(0, "q/b", "q/a2", "q/a2", "r3").AnsweredBy = "other:model"      // fallback
	m.verdict(0, "q/a", "q/a2", "q/a2", "r4")                                 // one candidate twice
	m.verdict(0, "q/a2", "q/a", "q/a2", "identical, as far as I can see, no") // a judge's reason may say so
	r := built(t, m, Options{})

	j := r.Judges[0]
	if j.Identical != 1 || j.Fallback != 1 || j.Own != 2 || r.Verdicts != 3 {
		t.Errorf("identical %d, fallback %d, own %d, verdicts %d; want 1, 1, 2, 3", j.Identical, j.Fallback, j.Own, r.Verdicts)
	}
	if want := (rank.Counts{FirstWins: 3, SecondWins: 1}); j.Positions != want {
		t.Errorf("positions: got %+v, want %+v", j.Positions, want)
	}
	if want := (rank.Swaps{Consistent: 1, AlwaysFirst: 1}); j.Swaps != want {
		t.Errorf("swaps: got %+v, want %+v", j.Swaps, want)
	}
	for _, c := range r.Groups[0].Ranked {
		if want := (rank.Record{Wins: 1, Losses: 1, Ties: 1}); c.Record != want {
			t.Errorf("%s: got %+v, want %+v", c.Name, c.Record, want)
		}
	}
	if got := built(t, m, Options{Fallback: true}); got.Verdicts != 4 || got.Judges[0].Fallback != 1 {
		t.Errorf("with fallback: got %d verdicts, %d by fallback, want 4 and 1", got.Verdicts, got.Judges[0].Fallback)
	}
}

// TestDefined: every sparse or one-sided input has a report in words and without a
// number that is none.
func TestDefined(t *testing.T) {
	t.Parallel()
	empty := func() *memory { return sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j")) }
	for _, tt := range []struct {
		name string
		make func() *memory
		want [][]string
		says string
	}{
		{"no verdict", empty, nil, "no verdict yet"},
		{"no documents", func() *memory { return sourceOf(plan(nil, nil, "j")) }, nil, "no verdict yet"},
		{"one candidate", func() *memory {
			return sourceOf(plan([]string{"a"}, []string{"q"}, "j")).withScores("style")
		}, [][]string{{"a 1"}}, "highest mean score"},
		{"one wins all", func() *memory {
			m := empty()
			for range 3 {
				m.verdict(0, "q/a", "q/b", "q/a", "r")
				m.verdict(0, "q/a", "q/c", "q/a", "r")
				m.verdict(0, "q/b", "q/c", "q/b", "r")
			}
			return m
		}, [][]string{{"a 1", "b 2", "c 3"}}, "weak prior"},
		{"all ties", func() *memory {
			m := empty()
			m.verdict(0, "q/a", "q/b", eval.Tie, "r")
			m.verdict(0, "q/b", "q/c", eval.Tie, "r")
			return m
		}, [][]string{{"a 1", "b 1", "c 1"}}, "share the first rank"},
		{"always first", func() *memory {
			m := empty()
			for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}, {"b", "c"}, {"c", "b"}} {
				m.verdict(0, "q/"+pair[0], "q/"+pair[1], "q/"+pair[0], "r")
			}
			return m
		}, [][]string{{"a 1", "b 1", "c 1"}}, "no finite estimate"},
		{"one never met", func() *memory {
			m := empty()
			m.verdict(0, "q/a", "q/b", "q/a", "r")
			m.verdict(0, "q/b", "q/a", "q/b", "r")
			return m
		}, [][]string{{"a 1", "b 1"}}, "1 candidate without any verdict"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := built(t, tt.make(), Options{})
			if diff := cmp.Diff(tt.want, ranking(r)); diff != "" {
				t.Errorf("ranking (-want +got):\n%s", diff)
			}
			text, page := textOf(t, r, TextOptions{}), pageOf(t, r)
			if !strings.Contains(strings.Join(strings.Fields(text), " "), tt.says) {
				t.Errorf("the terminal does not say %q:\n%s", tt.says, text)
			}
			for _, out := range []string{text, page} {
				for _, bad := range []string{"NaN", "Inf", "%!", "<nil>", "ZgotmplZ"} {
					if strings.Contains(out, bad) {
						t.Errorf("the report contains %q:\n%s", bad, out)
					}
				}
			}
		})
	}
}

// TestGroups: items whose documents are candidates of their own were never
// compared with each other.
func TestGroups(t *testing.T) {
	t.Parallel()
	e := plan([]string{"x", "y"}, []string{"q1", "q2"}, "j")
	for d := range e.Documents {
		e.Documents[d].Candidate = e.Documents[d].ID
	}
	m := sourceOf(e)
	for _, item := range []string{"q1", "q2"} {
		m.verdict(0, item+"/x", item+"/y", item+"/x", "r")
		m.verdict(0, item+"/y", item+"/x", item+"/x", "r")
		m.verdict(0, item+"/x", item+"/y", item+"/y", "r")
	}
	r := built(t, m, Options{})
	want := [][]string{{"q1/x 1", "q1/y 2"}, {"q2/x 1", "q2/y 2"}}
	if diff := cmp.Diff(want, ranking(r)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	for g, item := range []string{"q1", "q2"} {
		if r.Groups[g].Item != item {
			t.Errorf("group %d: got item %q, want %q", g, r.Groups[g].Item, item)
		}
	}
	if page := pageOf(t, r); !strings.Contains(page, "Ranking of item “q2”") {
		t.Error("the page does not name the second item's ranking")
	}
}

func TestRankings(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q1", "q2"}, "j"))
	m.verdict(0, "q1/a", "q1/b", "q1/b", "r")
	m.verdict(0, "q1/b", "q1/a", "q1/b", "r")
	m.verdict(0, "q1/a", "q1/b", "q1/a", "r")
	m.verdict(0, "q1/b", "q1/a", eval.Tie, "r")
	m.verdict(0, "q2/a", "q2/b", eval.Tie, "r")
	r := built(t, m, Options{})

	var elo []string
	var sum float64
	for _, row := range r.elo {
		elo = append(elo, row.id)
		sum += row.elo
	}
	if want := []string{"q1/b", "q1/a", "q2/a", "q2/b"}; !slices.Equal(elo, want) {
		t.Errorf("elo: got %v, want %v", elo, want)
	}
	if math.Abs(sum/4-1000) > 1e-6 {
		t.Errorf("mean elo: got %g, want 1000", sum/4)
	}
	// b scored 2.5 of 4 on q1: odds of 5 to 3.
	if want := 400 * math.Log10(5./3); math.Abs(r.elo[0].elo-r.elo[1].elo-want) > 1e-6 {
		t.Errorf("elo difference: got %g, want %g", r.elo[0].elo-r.elo[1].elo, want)
	}

	got := rankingOf(t, r)
	if len(got) != 3 || got[0]["candidate"] != "b" || got[0].integer("rank") != 1 || got[0].number("win_rate") != 3./5 {
		t.Errorf("ranking: got %+v, want b first with a win rate of 0.6", got)
	}
	if last := got[2]; last["candidate"] != "c" || last["rank"] != nil || !math.IsNaN(last.number("ability")) || !math.IsNaN(last.number("win_rate")) {
		t.Errorf("never compared: got %+v, want c without rank and numbers", last)
	}
}

func TestRefusedRows(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*results.PairwiseRow){
		"judge":     func(r *results.PairwiseRow) { r.Judge = "nobody" },
		"candidate": func(r *results.PairwiseRow) { r.Candidate2 = "nobody" },
		"document":  func(r *results.PairwiseRow) { r.Document1 = "nowhere" },
		"winner":    func(r *results.PairwiseRow) { r.Winner = "c" },
	} {
		m := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
		spoil(m.verdict(0, "q/a", "q/b", "q/a", "r"))
		if _, err := Build(context.Background(), m, "ev-abcdefgh2345", Options{}); err == nil || !strings.Contains(err.Error(), "0.0") {
			t.Errorf("unknown %s: got %v, want an error that names the run", name, err)
		}
	}
	m := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	m.broken = errors.New("disk on fire")
	if _, err := Build(context.Background(), m, "ev-abcdefgh2345", Options{}); !errors.Is(err, m.broken) {
		t.Errorf("a broken source: got %v, want %v", err, m.broken)
	}
}

// TestStore builds a report from a real results store.
func TestStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := plan([]string{"a", "b"}, []string{"q"}, "j")
	db, stored := storeOf(t, e, 3)
	run := record.Run{
		Kind: eval.KindPairwise, State: "succeeded", Judge: "j", Model: "simulator:j", AnsweredBy: "simulator:j", Item: "q",
		Documents: []string{"q/a", "q/b"}, Candidates: []string{"a", "b"}, Trial: 1, Winner: "q/a", Reason: "better", Ended: stored.Created,
	}
	failed := run
	failed.Index, failed.State, failed.Class, failed.Error, failed.Winner, failed.AnsweredBy = 1, "failed", providers.Timeout, "too slow", "", ""
	calls := []record.Call{{ID: "0.0.0-w-1", Stage: "verdict", Model: "simulator:j", Usage: providers.Usage{Reported: true, Input: 900, Output: 40}}}
	if err := db.Append(ctx, stored.ID, []record.Entry{{Run: &run, Calls: calls}, {Run: &failed}}); err != nil {
		t.Fatal(err)
	}
	r, err := Build(ctx, db, stored.ID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdicts != 1 || len(r.Failures) != 1 || r.Failures[0].Examples[0].Error != "too slow" {
		t.Errorf("got %d verdicts, failures %+v; want 1 and the timeout", r.Verdicts, r.Failures)
	}
	text := textOf(t, r, TextOptions{})
	for _, want := range []string{"1 of 3 runs has no result yet", "900 in, 40 out", "unknown (1 call without a price)", "timeout 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not say %q:\n%s", want, text)
		}
	}
	if _, err := Build(ctx, db, "ev-aaaaaaaaaaaa", Options{}); !errors.Is(err, results.ErrNoEvaluation) {
		t.Errorf("unknown evaluation: got %v, want %v", err, results.ErrNoEvaluation)
	}
}

// TestTooMany: beyond what can be fitted there are still win rates.
func TestTooMany(t *testing.T) {
	t.Parallel()
	all := names(rank.MaxCandidates + 1)
	m := sourceOf(plan(all, []string{""}, "j"))
	m.verdict(0, all[0], all[1], all[1], "r")
	m.verdict(0, all[1], all[2], all[1], "r")
	m.verdict(0, all[0], all[2], eval.Tie, "r")
	r := built(t, m, Options{})
	if diff := cmp.Diff([][]string{{all[1] + " 1", all[0] + " 2", all[2] + " 2"}}, ranking(r)); diff != "" {
		t.Errorf("ranking (-want +got):\n%s", diff)
	}
	if got := rankingOf(t, r)[0]; got.number("win_rate") != 1 || !math.IsNaN(got.number("ability")) {
		t.Errorf("best: got %+v, want a win rate of 1 and no ability", got)
	}
	if page := pageOf(t, r); !strings.Contains(page, "ranked by win rate") || strings.Contains(page, "ability ± SE") {
		t.Error("the page does not say that it ranks by win rate, or shows abilities")
	}
}

// A budget's line says what is spent for certain, and what else may have to be paid;
// prices from the built-in table have its day.
func TestBudgetAndPrices(t *testing.T) {
	t.Parallel()
	m := typical()
	plain := built(t, m, Options{})
	for what, text := range map[string]string{"text": textOf(t, plain, TextOptions{}), "page": pageOf(t, plain)} {
		if strings.Contains(text, "udget") || strings.Contains(text, "list prices") {
			t.Errorf("the %s speaks of a budget or a table that there is not:\n%s", what, text)
		}
	}
	known := plain.total().CostUSD
	m.spent = int64(math.Round(known*ratelimit.Dollar)) + 20_000_000
	m.evaluation.Settings.PricesAsOf = "2026-11-22"
	m.evaluation.Settings.Limits = append(m.evaluation.Settings.Limits, ratelimit.Budget(string(m.evaluation.ID), 2*ratelimit.Dollar))
	r := built(t, m, Options{})
	want := fmt.Sprintf("$2.00: %s spent, $0.02 reserved for calls of unknown cost", ratelimit.Dollars(m.spent-20_000_000))
	for what, text := range map[string]string{"text": textOf(t, r, TextOptions{}), "page": pageOf(t, r)} {
		if !strings.Contains(text, want) || !strings.Contains(text, "list prices of 2026-11-22") {
			t.Errorf("the %s lacks %q or the day of the prices:\n%s", what, want, text)
		}
	}
}
