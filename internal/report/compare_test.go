package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestCompare: a candidate that leaves changes no other shared rank, a swap of the best and the
// worst is beyond the intervals, and different settings are reported.
func TestCompare(t *testing.T) {
	t.Parallel()
	before := tournament([]string{"a", "b", "c", "d"}, names(8), []string{"j", "k"}, []float64{0, 0}, 6)
	after := tournament([]string{"new", "c", "b", "a"}, names(8), []string{"j", "k"}, []float64{0, 0}, 6)
	after.evaluation.ID = "ev-2bcdefgh2345"
	for _, m := range []*memory{before, after} { // whose limit is no difference
		m.evaluation.Settings.Limits = append(m.evaluation.Settings.Limits,
			ratelimit.Limit{Scope: ratelimit.Scope{Evaluation: string(m.evaluation.ID)}, Kind: ratelimit.Concurrency, Max: 5})
	}
	after.evaluation.Plan.Judges[1].Overrides = map[string]any{"temperature": 0.5}
	c := Compare(built(t, before, Options{}), built(t, after, Options{}))
	if c.Shared != 3 {
		t.Errorf("%d shared, want 3", c.Shared)
	}
	got := map[string]string{}
	var order []string
	for _, one := range c.Candidates {
		shared := [2]int{}
		for k, p := range one.Places {
			if p != nil {
				shared[k] = p.SharedRank
			}
		}
		order = append(order, one.Name)
		got[one.Name] = fmt.Sprint(one.Moves, shared)
	}
	want := map[string]string{
		"a": "[same beyond] [1 3]", "b": "[same same] [2 2]", "c": "[same beyond] [3 1]", "d": "[same gone] [0 0]", "new": "[ new] [0 0]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("moves and shared ranks (-want +got):\n%s", diff)
	}
	if want := []string{"a", "b", "c", "d", "new"}; !slices.Equal(order, want) {
		t.Errorf("candidates %v, want %v", order, want)
	}
	for k := range c.Reports {
		sum := 0.0
		for _, one := range c.Candidates {
			if p := one.Places[k]; p != nil && p.SharedRank > 0 {
				sum += p.Ability
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Errorf("abilities of the shared candidates in evaluation %d add up to %v", k, sum)
		}
	}
	wantSettings := []Difference{{Name: "judge k", Values: []string{"simulator:k", `simulator:k {"temperature":0.5}`}}}
	if diff := cmp.Diff(wantSettings, c.Settings); diff != "" {
		t.Errorf("settings that differ (-want +got):\n%s", diff)
	}
	if want := []string{"2 moved beyond the intervals, 1 kept the rank, 1 new, 1 gone."}; !strings.HasSuffix(c.Headline()[0], want[0]) {
		t.Errorf("headline %q, want it to end in %q", c.Headline()[0], want[0])
	}
	text := comparisonText(t, c)
	for _, want := range []string{"down 2, apart", "up 2, apart", "gone", "new", "Settings that differ", "temperature"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not say %q:\n%s", want, text)
		}
	}
}

// TestCompareTheSame: nothing moves, and no setting differs.
func TestCompareTheSame(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{})
	c := Compare(r, r)
	for _, one := range c.Candidates {
		if one.Moves[1] != MoveSame {
			t.Errorf("%s: %s", one.Name, one.Moves[1])
		}
	}
	if text := comparisonText(t, c); !strings.Contains(text, "No setting differs.") || !strings.Contains(text, "5 kept the rank.") ||
		!strings.Contains(text, "Trust in 2 is caution. Check some verdicts first: ") {
		t.Errorf("the terminal says:\n%s", text)
	}
}

// TestFurtherEvaluationsChangeNoMove: what is said of two evaluations does not depend on a third one, even if it ranks none
// of their candidates.
func TestFurtherEvaluationsChangeNoMove(t *testing.T) {
	t.Parallel()
	of := func(name string, candidates ...string) *Report {
		m := tournament(candidates, names(8), []string{"j", "k"}, []float64{0, 0}, 6)
		m.evaluation.Plan.Name = name
		return built(t, m, Options{})
	}
	first, second, other := of("first", "a", "b", "c", "d"), of("second", "d", "c", "b", "a"), of("other", "x", "y", "z")

	two, three := Compare(first, second), Compare(first, second, other)
	if got, want := three.Headline()[0], two.Headline()[0]; got != want || !strings.Contains(got, "4 moved beyond the intervals") {
		t.Errorf("with a third evaluation: %q, without: %q", got, want)
	}
	if got, want := comparisonCells(t, three), comparisonCells(t, two); got != want || !strings.Contains(got, "up 3, apart") {
		t.Errorf("moves with a third evaluation: %s, without: %s", got, want)
	}
	if got, want := three.Headline()[1], "“other” against “first”: 3 new, 4 gone, so no candidate can be compared."; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
	if text := comparisonText(t, three); !strings.Contains(text, "No candidate is ranked in every evaluation") || three.plot() != nil {
		t.Errorf("wins of different candidates are shown on one scale:\n%s", text)
	}

	one := Compare(first, of("one in common", "a", "y", "z"))
	want := "“one in common” against “first”: 2 new, 3 gone, with only one candidate in both, no rank can be compared."
	if got := one.Headline()[0]; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
}

// comparisonCells returns the moves of all candidates from the first evaluation to the second.
func comparisonCells(t *testing.T, c *Comparison) string {
	t.Helper()
	var cells []string
	for _, one := range c.Candidates {
		if one.Moves[1] != MoveNone {
			cells = append(cells, one.Name+": "+c.place(one, 1).Move)
		}
	}
	return strings.Join(cells, "; ")
}

// TestMovesSayIfTheyAreUnsound: judges that follow the place move candidates, and the sentence says what that is worth.
func TestMovesSayIfTheyAreUnsound(t *testing.T) {
	t.Parallel()
	good := built(t, tournament(names(4), names(8), []string{"j", "k"}, []float64{0, 0}, 6), Options{})
	placed := tournament(names(4), names(8), []string{"j", "k"}, []float64{50, 50}, 6)
	placed.evaluation.Plan.Name = "placed"
	bad := built(t, placed, Options{})
	if level := bad.Reliance().Level; level != Unsound {
		t.Fatalf("judges that follow the place are %s", level)
	}
	says := "Do not rely on these moves: trust in “placed” is unsound."
	if line := Compare(good, bad).Headline()[0]; !strings.HasSuffix(line, says) {
		t.Errorf("headline %q, want it to end in %q", line, says)
	}
	if line := Compare(bad, good).Headline()[0]; !strings.HasSuffix(line, says) {
		t.Errorf("headline %q, want it to end in %q", line, says)
	}
	if line := Compare(good, good).Headline()[0]; strings.Contains(line, "rely") {
		t.Errorf("headline %q of good judges", line)
	}
}

// TestCompareAnything: what cannot be compared is said in words, without a number
// that is none.
func TestCompareAnything(t *testing.T) {
	t.Parallel()
	empty := built(t, sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")), Options{})
	scored := built(t, sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")).withScores("style"), Options{})
	one := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	one.verdict(0, "q/a", "q/b", eval.Tie, "r")
	for _, c := range []*Comparison{
		Compare(empty, empty), Compare(empty, scored), Compare(scored, built(t, one, Options{})),
		Compare(hostileReport(t), scored, empty), Compare(scored, hostileReport(t), hostileReport(t)),
	} {
		text := comparisonText(t, c)
		for _, bad := range []string{"NaN", "Inf", "%!", "<nil>", "\x1b", "\u202e"} {
			if strings.Contains(text, bad) {
				t.Errorf("the comparison contains %q:\n%s", bad, text)
			}
		}
		for _, line := range strings.Split(text, "\n") {
			if got := runewidth.StringWidth(line); got > 100 {
				t.Errorf("%d columns, want at most 100: %s", got, line)
			}
		}
	}
}

func comparisonText(t testing.TB, c *Comparison) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.WriteText(&out, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
