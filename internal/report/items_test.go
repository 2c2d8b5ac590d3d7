package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// inCategories are two candidates on items of two categories by one judge: x wins in the
// first; in the second y does, or x too.
func inCategories(items int, differ bool) *memory {
	var ids []string
	for i := range 2 * items {
		ids = append(ids, fmt.Sprintf("q%02d", i))
	}
	m := sourceOf(plan([]string{"x", "y", "z"}, ids, "j"))
	for i := range m.evaluation.Plan.Items {
		second := i >= items
		m.evaluation.Plan.Items[i].Categories = []string{map[bool]string{false: "sums", true: "verse <i>"}[second]}
		for n, pair := range [][2]string{{"x", "y"}, {"x", "z"}, {"y", "z"}} {
			a, b := ids[i]+"/"+pair[0], ids[i]+"/"+pair[1]
			winner := a
			if second && differ || (i+n)%5 == 0 {
				winner = b
			}
			m.verdict(0, a, b, winner, "r")
			m.verdict(0, b, a, winner, "r")
		}
	}
	return m
}

func TestCategoriesAreRankedAndCompared(t *testing.T) {
	t.Parallel()
	for _, differ := range []bool{true, false} {
		r := built(t, inCategories(12, differ), Options{Seed: 1})
		c := r.Categories
		if c == nil || len(c.All) != 2 || c.All[0].Items != 12 || c.Permutations != permutations {
			t.Fatalf("differ %t: categories %+v", differ, c)
		}
		if second := c.All[1].Groups[0].Ranked[0].Name; (second == "z") != differ || c.All[0].Groups[0].Ranked[0].Name != "x" {
			t.Errorf("differ %t: %q is first in the second category", differ, second)
		}
		if (c.P < 0.01) != differ {
			t.Errorf("differ %t: p = %.3f", differ, c.P)
		}
		for name, form := range forms(t, r) {
			if name != "json" && !strings.Contains(form, "in some categories than in others") == differ {
				t.Errorf("differ %t: the %s does not say so", differ, name)
			}
			if name == "html" && (strings.Contains(form, "verse <i>") || !strings.Contains(form, `id="items"`)) {
				t.Error("the page shows a category as it is, or no items")
			}
			if name == "json" && !strings.Contains(form, `"permutations": 999`) {
				t.Error("the JSON lacks the test")
			}
		}
	}
}

// Where categories do not differ, the test says so in about 5 of 100 evaluations at most.
func TestCategoryTestHoldsItsLevel(t *testing.T) {
	t.Parallel()
	const evaluations = 200
	wrong := 0
	for seed := range uint64(evaluations) {
		items, rng := make([]Item, 20), rand.New(rand.NewPCG(seed, 7))
		for i := range items {
			items[i].Categories = []string{fmt.Sprint(i % 3)}
			luck := rng.Float64() // which all verdicts on an item share
			for range 4 {
				wins := 0.0
				for range 10 {
					if rng.Float64() < luck {
						wins++
					}
				}
				items[i].Results = append(items[i].Results, ItemResult{wins, 10})
			}
		}
		c := Categories{All: []Category{{Name: "0"}, {Name: "1"}, {Name: "2"}}, P: math.NaN()}
		c.permute(items, 4, seed)
		if c.P < 0.05 {
			wrong++
		}
	}
	if wrong > evaluations/10 { // five standard errors are 8 %
		t.Errorf("%d of %d tests find a difference that there is not", wrong, evaluations)
	}
}

func TestContestedItems(t *testing.T) {
	t.Parallel()
	r := built(t, disputed(), Options{})
	items := r.contested(10)
	if len(items) != 2 || items[0].ID != "q1" || items[0].Marked != 3 || items[0].Disagree != 1 || items[0].Flipped != 1 || items[0].Unlike != 1 || items[1].Marked != 0 {
		t.Errorf("items %+v", items)
	}
	if spread := items[1].Spread(); math.Abs(spread-0.5) > 1e-9 { // win rates 1, ½ and 0
		t.Errorf("the spread is %v, want 0.5", spread)
	}
}

// TestItemRows: items.csv has what the report says of each item, with mean scores where there
// are any.
func TestItemRows(t *testing.T) {
	t.Parallel()
	m := inCategories(3, false)
	rows := linesOf(t, built(t, m, Options{}), "items")
	if len(rows) != 6 || rows[0]["item"] != "q00" || rows[5]["categories"] != "verse <i>" || rows[0].integer("pairs") != 3 || !math.IsNaN(rows[0].number("mean_score")) || !(rows[0].number("spread") > 0) {
		t.Errorf("rows %+v", rows)
	}
	scored := inCategories(3, false).withScores("style")
	for k := range scored.singles {
		scored.singles[k].Score = 2
		if strings.HasPrefix(scored.singles[k].Document, "q05/") {
			scored.singles[k].Score = 4
		}
	}
	if rows := linesOf(t, built(t, scored, Options{}), "items"); rows[0].number("mean_score") != 2 || rows[5].number("mean_score") != 4 {
		t.Errorf("mean scores of %+v", rows)
	}
	scored.pairwise, scored.counts = nil, scored.counts[:1]
	alone := built(t, scored, Options{})
	if rows := linesOf(t, alone, "items"); len(rows) != 6 || rows[5].number("mean_score") != 4 || rows[0].integer("pairs") != 0 {
		t.Errorf("of scores alone: %+v", rows)
	}
	// Of scores alone, candidates are ranked by their means, and have no abilities.
	ranking := rankingOf(t, alone)
	for k, want := range alone.Groups[0].Ranked {
		row := ranking[k]
		if row["candidate"] != want.Name || row.integer("rank") != want.Rank || row.number("mean_score") != want.Overall.Mean() || row.integer("scores") != want.Overall.N {
			t.Errorf("row %d of scores alone: %+v, want %+v", k, row, want)
		}
		if row.number("mean_score_low") != want.ScoreLimits.Low || !math.IsNaN(row.number("ability")) || !math.IsNaN(row.number("elo")) || !math.IsNaN(row.number("win_rate")) {
			t.Errorf("row %d of scores alone: %+v, want limits and no ability", k, row)
		}
	}
}
