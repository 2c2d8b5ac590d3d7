package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// scoring is an evaluation in which judges score texts from 1 to 10, and compare none. score returns the score of a
// candidate's text by a judge; 0: there is none.
func scoring(candidates, items, judges int, score func(random *rand.Rand, candidate, item, judge int) float64) *memory {
	var questions, who []string
	for k := range items {
		questions = append(questions, fmt.Sprintf("q%03d", k))
	}
	for k := range judges {
		who = append(who, fmt.Sprintf("judge-%d", k))
	}
	e := plan(names(candidates), questions, who...)
	e.Pairwise = nil
	e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 10}, Trials: 1}
	m := sourceOf(e)
	random := rand.New(rand.NewPCG(5, 6))
	runs := 0
	for d, document := range e.Documents {
		for k, judge := range e.Judges {
			said := score(random, d%candidates, d/candidates, k)
			if runs++; said == 0 {
				continue
			}
			m.singles = append(m.singles, results.SingleRow{
				Index: runs, Document: document.ID, Candidate: document.Candidate, Item: e.Items[document.Item].ID, Judge: judge.Name,
				Model: judge.Target(), AnsweredBy: judge.Target(), Trial: 1, Criterion: "style", Score: said, Timestamp: m.evaluation.Created,
			})
		}
	}
	m.counts = []results.PhaseCounts{{Kind: eval.KindSingle, Runs: len(m.singles), Succeeded: len(m.singles), Classes: map[string]int{}}}
	return m
}

// nearScore is a score around a value, on whole points.
func nearScore(random *rand.Rand, value float64) float64 {
	return math.Round(min(max(value+random.NormFloat64(), 1), 10))
}

// TestScoresSayWhyNothingIsToldApart: where so few items could tell no two of so many candidates apart, the headline and the
// section on how much is enough say so, and how many items that takes.
func TestScoresSayWhyNothingIsToldApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		candidates, items int
		want              string // empty: some are told apart, or could be
	}{
		{2, 5, "to tell two apart takes 6 items on which they differ, and these do on 5."},
		{2, 8, ""},
		{10, 8, "to test 45 differences at once takes 11 items on which two candidates differ, and no two differ on more than 8."},
		{10, 12, ""},
		{30, 8, "to test 29 differences at once takes 11 items on which two candidates differ, and no two differ on more than 8."},
		{30, 12, ""},
	} {
		r := built(t, scoring(tt.candidates, tt.items, 2, func(r *rand.Rand, c, _, _ int) float64 {
			return nearScore(r, 9-6*float64(c)/float64(tt.candidates-1))
		}), Options{Draws: 100})
		s, ok := r.enoughSection(3)
		said := strings.Join(s.lines, " ")
		for where, got := range map[string]string{"headline": r.Headline(), "Is it enough?": strings.Replace(said, "To t", "to t", 1)} {
			if !ok || tt.want != "" && !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, " on which ") {
				t.Errorf("%d candidates, %d items: %s says %q, want %q", tt.candidates, tt.items, where, got, tt.want)
			}
		}
	}
}

// TestScoresAreCompared: where scores rank candidates, headline, bounds of ranks, P(best), gates and what is left to do say
// what a test of the differences says.
func TestScoresAreCompared(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		m        *memory
		headline string
		gate     string // a condition, and what it gets
		met      bool
		got      string
		high     int // the worst rank of the first
	}{
		"far apart": {
			scoring(2, 20, 2, func(r *rand.Rand, c, _, _ int) float64 { return nearScore(r, 9-6*float64(c)) }),
			"has the highest mean score, 9.05, and is ahead of every other candidate at 95 % confidence.", "candidate-0000 >= candidate-0001 @ 0.95", true, "is better with confidence", 1,
		},
		"equals": {
			scoring(3, 20, 2, func(r *rand.Rand, _, _, _ int) float64 { return nearScore(r, 5) }),
			"has the highest mean score, 5.15; the verdicts are not reliable enough to say how certain that is.", "candidate-0000 >= candidate-0001 @ 0.95", false, "is better with confidence 0.", 3,
		},
		"five items": {
			scoring(2, 5, 2, func(r *rand.Rand, c, _, _ int) float64 { return nearScore(r, 9-6*float64(c)) }),
			"; at 95 % confidence, “candidate-0001” could be the best as well: to tell two apart takes 6 items", "candidate-0000 >= candidate-0001 @ 0.95", false, "is better with confidence 0.940", 2,
		},
		"one item": {
			scoring(2, 1, 9, func(r *rand.Rand, c, _, _ int) float64 { return nearScore(r, 9-6*float64(c)) }),
			"has the highest mean score, 8.44.", "candidate-0000 >= candidate-0001 @ 0.95", false, "unknown: the scores do not tell", 0,
		},
		"thirty, one far ahead": {
			scoring(30, 60, 2, func(r *rand.Rand, c, _, _ int) float64 {
				return nearScore(r, map[bool]float64{true: 9, false: 4}[c == 3])
			}),
			"“candidate-0003” has the highest mean score, 8.97, and is ahead of every other candidate at 95 % confidence.", "candidate-0003 >= candidate-0001 @ 0.95", true, "is better", 1,
		},
	} {
		r := built(t, tt.m, Options{Draws: 100})
		if got := r.Headline(); !strings.Contains(got, tt.headline) {
			t.Errorf("%s: headline %q, want %q", name, got, tt.headline)
		}
		if got := r.Groups[0].Ranked[0].RankHigh; got != tt.high || r.ahead() != (got == 1) {
			t.Errorf("%s: rank of the first up to %d, want %d; ahead %t", name, got, tt.high, r.ahead())
		}
		gate, err := ParseRequirement(tt.gate)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := gate.Check(r); err != nil || got.Met != tt.met || !strings.Contains(got.Got, tt.got) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for form, text := range map[string]string{"card": card(t, r, CardOptions{}), "text": textOf(t, r, TextOptions{}), "page": pageOf(t, r)} {
			if shown := r.tested() && (form != "card" || r.doubt() == ""); strings.Contains(text, "P(best)") != shown || strings.Contains(text, "Wins against") || strings.Contains(text, "NaN") {
				t.Errorf("%s: %s:\n%s", name, form, text)
			}
		}
		if notes := strings.Join(r.Notes(), " "); strings.Contains(notes, "no candidate is called ahead") != (name == "one item") {
			t.Errorf("%s: notes %q", name, notes)
		}

		var out strings.Builder
		if err := r.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		var form reportJSON
		if err := json.Unmarshal([]byte(out.String()), &form); err != nil {
			t.Fatal(err)
		}
		first := form.Rankings[0].Candidates[0]
		if (first.RankHigh != nil) != r.tested() || (len(form.Rankings[0].Beats) > 0) != r.tested() || first.Elo != 0 {
			t.Errorf("%s: as JSON %+v", name, first)
		}
	}
}

// TestScoresOnOtherItems: a higher mean on other items is not called better, and a note says so.
func TestScoresOnOtherItems(t *testing.T) {
	t.Parallel()
	r := built(t, scoring(2, 40, 2, func(r *rand.Rand, c, item, _ int) float64 {
		switch {
		case item < 20: // hard
			return nearScore(r, 3+2*float64(c))
		case c == 0:
			return nearScore(r, 9)
		}
		return 0
	}), Options{Draws: 100})
	if first := r.Groups[0].Ranked[0]; first.Name != "candidate-0000" || first.RankHigh != 2 || r.ahead() {
		t.Errorf("%+v", first)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "“candidate-0000” has a higher mean score than “candidate-0001”, but a lower one on the items") {
		t.Errorf("notes %s", notes)
	}
}

// TestItemsLeftToScore: the sentence about what is left to do counts items, not pairs.
func TestItemsLeftToScore(t *testing.T) {
	t.Parallel()
	for _, candidates := range []int{3, 30} {
		r := built(t, scoring(candidates, 12, 2, func(r *rand.Rand, c, _, _ int) float64 { return nearScore(r, 6-float64(c)/4) }), Options{Draws: 100})
		if words := r.enough(); !strings.Contains(words, " more items") || strings.Contains(words, "more pairs") {
			t.Errorf("%d candidates: %q", candidates, words)
		}
		s, ok := r.enoughSection(10)
		if !ok || len(s.table) != 4 || s.table[3].Head != "more items" {
			t.Errorf("%d candidates: %+v", candidates, s.table)
		}
	}
}

// TestLikelierByScores: the headline says if another candidate than the one with the highest mean is more probably the best.
func TestLikelierByScores(t *testing.T) {
	t.Parallel()
	r := built(t, scoring(3, 20, 2, func(r *rand.Rand, _, _, _ int) float64 { return nearScore(r, 5) }), Options{Draws: 100})
	if got := r.highest(""); strings.Contains(got, "more probably") {
		t.Errorf("got %q", got)
	}
	ranked := r.Groups[0].Ranked
	ranked[0].Best, ranked[1].Best = .2, .7
	want := "“candidate-0001” has the highest mean score, 5.15, but “candidate-0000” is more probably the best (70 %, not 20 %); at 95 % confidence, "
	if got := r.highest(""); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
