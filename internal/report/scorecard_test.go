package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// judged are twelve items with three answers each, on which each judge prefers what says
// tells, given the item and the pair: 0 the first, 1 the second of the two candidates, 2 whichever
// is shown first. votes gives what a person prefers on each pair; nil: nobody voted.
func judged(candidates, judges []string, trials int, says func(judge, item, pair, trial int) int, votes func(item, pair int) int) *memory {
	items := make([]string, 12)
	for k := range items {
		items[k] = fmt.Sprintf("q%02d", k)
	}
	e := plan(candidates, items, judges...)
	e.Pairwise.Trials = trials
	m := sourceOf(e)
	m.counts = []results.PhaseCounts{{Kind: eval.KindPairwise}}
	for i, item := range items {
		for p, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
			two := [2]string{item + "/" + candidates[pair[0]], item + "/" + candidates[pair[1]]}
			for trial := range trials {
				for j := range judges {
					for order := range 2 {
						first, second := two[order], two[1-order]
						winner := first
						if said := says(j, i, p, trial); said < 2 {
							winner = two[said]
						}
						m.verdict(j, first, second, winner, "r").Trial = trial + 1
					}
				}
			}
			if votes != nil {
				m.votes = append(m.votes, results.VoteRow{Annotator: "ann", Document1: two[0], Document2: two[1], Winner: two[votes(i, p)]})
			}
		}
	}
	m.counts[0].Runs, m.counts[0].Succeeded = len(m.pairwise), len(m.pairwise)
	if votes != nil {
		m.evaluation.Settings.Votes = "votes"
	}
	for _, j := range judges {
		m.progress = append(m.progress, results.Progress{Judge: j, Used: results.Usage{Calls: 72, CostUSD: 0.36}})
	}
	return m
}

// some is 1 for one of n items, in a pattern that is no judge's rule.
func some(item, pair, n int) int {
	return one((item*7+pair*5)%n == 0)
}

// TestScorecards: a judge's card has its agreement with people and other judges, flips, what it
// prefers, how it repeats itself and what it cost.
func TestScorecards(t *testing.T) {
	t.Parallel()
	m := judged([]string{"gpt-4o", "claude-3", "other"}, []string{"gpt-5", "careful"}, 2, func(judge, item, pair, trial int) int {
		switch {
		case judge == 0 && pair < 2:
			return 0 // its own family
		case judge == 0 && item < 3:
			return trial // says something else in the other trial
		}
		return some(item, pair, 3)
	}, func(item, pair int) int { return some(item, pair, 3) })
	r := built(t, m, Options{})
	own, careful := r.Judges[0].Card, r.Judges[1].Card
	if careful.PeopleKappa != 1 || careful.People != 1 || careful.PeoplePairs != 36 || !(own.PeopleKappa < 0.8) || own.OthersKappa != careful.OthersKappa || own.Others != careful.Others {
		t.Errorf("agreement: %+v\n%+v", own, careful)
	}
	if math.Abs(own.Own-1.0/3) > 1e-9 || own.OwnLimits.Low <= 0 || !math.IsNaN(careful.Own) {
		t.Errorf("gpt-5 prefers its own by %v (%+v), careful by %v", own.Own, own.OwnLimits, careful.Own)
	}
	if want := 1 - 3.0/36; math.Abs(own.Repeated-want) > 1e-9 || careful.Repeated != 1 {
		t.Errorf("repeated %v and %v, want %v and 1", own.Repeated, careful.Repeated, want)
	}
	if own.Flipped != 0 || !(careful.First > 0.4 && careful.First < 0.6) || own.Used.CostUSD != 0.36 || math.Abs(own.perVerdict()-0.36/144) > 1e-9 {
		t.Errorf("flipped %v, first %v, cost %v, %v", own.Flipped, careful.First, own.Used.CostUSD, own.perVerdict())
	}
	for form, text := range forms(t, r) {
		for _, want := range map[string][]string{
			"text": {"Scorecards", "+33 %", "$0.36"}, "md": {"Scorecards", "+33 %", `\$0.36`}, "html": {"Scorecards", `class="alarm">+33 %`, "$0.36"}, "json": {`"prefers_own": 0.333333333`, `"cost_usd_per_verdict": 0.0025`},
		}[form] {
			if !strings.Contains(strings.ReplaceAll(text, "&#43;", "+"), want) {
				t.Errorf("%s: no %q", form, want)
			}
		}
	}
}

// TestWhichJudgeToDrop: a judge is to be dropped if another one is better by the same measure.
func TestWhichJudgeToDrop(t *testing.T) {
	t.Parallel()
	truth := func(item, pair int) int { return some(item, pair, 2) }
	good := func(item, pair int) int { // errs on a sixth
		return truth(item, pair) ^ one((item+pair)%6 == 0)
	}
	against := func(item, pair int) int { return 1 - truth(item, pair) }
	for _, tt := range []struct {
		name   string
		judges []func(item, pair int) int
		votes  func(item, pair int) int
		drop   []int
		says   string
	}{
		{"no better than chance with people", []func(int, int) int{good, against}, truth, []int{1}, "agrees with people no better than chance"},
		{"both no better than chance", []func(int, int) int{against, against}, truth, nil, "Dropping a judge does not help"},
		{"one of three without votes", []func(int, int) int{good, truth, against}, nil, []int{2}, "agrees with the other judges no better than chance"},
		{"one of two without votes", []func(int, int) int{good, against}, nil, nil, "No judge to drop"},
		{"follows the order", []func(int, int) int{good, func(int, int) int { return 2 }}, nil, []int{1}, "follows the order"},
		{"people decide", []func(int, int) int{against, against, good}, truth, []int{0, 1}, "agrees with people no better than chance"},
		{"all are good", []func(int, int) int{good, truth}, truth, nil, "No judge to drop"},
		{"one judge", []func(int, int) int{against}, truth, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := judged([]string{"x", "y", "z"}, []string{"a", "b", "c"}[:len(tt.judges)], 1, func(judge, item, pair, _ int) int { return tt.judges[judge](item, pair) }, tt.votes)
			r := built(t, m, Options{})
			var drop []int
			for k, j := range r.Judges {
				if j.Card.Drop != "" {
					drop = append(drop, k)
				}
			}
			words := r.dropWords()
			if fmt.Sprint(drop) != fmt.Sprint(tt.drop) || !strings.Contains(words, tt.says) || tt.says == "" && words != "" {
				t.Errorf("drop %v, want %v; %q", drop, tt.drop, words)
			}
			if noted := strings.Contains(strings.Join(r.Notes(), "\n"), "Leave judge"); noted != (tt.drop != nil) {
				t.Errorf("noted %t: %q", noted, r.Notes())
			}
			if page := pageOf(t, r); tt.drop != nil && !strings.Contains(page, "Drop judge") {
				t.Error("the page does not say so")
			}
		})
	}
}

// Few pairs are no reason to drop a judge.
func TestFewPairsDropNoJudge(t *testing.T) {
	t.Parallel()
	card := func(pairs int, kappa, low float64) Judge {
		return Judge{Card: &Scorecard{PeoplePairs: pairs, PeopleKappa: kappa, people: rank.Limits{Low: low}, OthersKappa: math.NaN(), Flipped: math.NaN()}}
	}
	for pairs, want := range map[int]bool{leastPairs: true, leastPairs - 1: false} {
		r := &Report{Judges: []Judge{card(pairs, -0.1, -0.5), card(pairs, 0.5, 0.1)}}
		if got := r.whyDrop(0) != ""; got != want {
			t.Errorf("%d pairs: dropped %t", pairs, got)
		}
	}
	// Another that may agree by chance is no better.
	if r := (&Report{Judges: []Judge{card(50, -0.1, -0.5), card(50, 0.5, -0.1)}}); r.whyDrop(0) != "" {
		t.Error("dropped beside one that may agree by chance")
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"gpt-5-mini": "openai", "openai/chatgpt-4o-latest": "openai", "o3-deep-research": "openai", "claude-sonnet-4-6": "anthropic", "Gemini 2.5 Pro": "google", "gemma3:27b": "google",
		"meta-llama/Llama-3.1-8B": "meta", "llama-7b": "meta", "qwen2.5-72b": "qwen", "grok-4": "xai", "phi4": "microsoft",
		"": "", "vicuna-13b": "", "philosophy": "", "essay": "", "o1a": "", "gptx": "",
	} {
		if got := familyOf(name); got != want {
			t.Errorf("%q is of %q, want %q", name, got, want)
		}
	}
	if !sameFamily("org/My-Model", "my-model") || sameFamily("gpt-5", "claude-3") || sameFamily("local", "other") || !sameFamily("gpt-5", "gpt-4o") {
		t.Error("a model is of its own family, and of no other")
	}
}
