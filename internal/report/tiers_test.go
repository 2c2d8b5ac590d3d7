package report

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// ofMany is n candidates with one document each, of normal abilities, on as many of all pairs as are given, each in
// both orders, at 0.02 USD a pair.
func ofMany(t *testing.T, n, pairs int) *Report {
	t.Helper()
	m := sourceOf(plan(names(n), []string{"q"}, "j"))
	random := rand.New(rand.NewPCG(4, 4))
	ability := map[string]float64{}
	for _, name := range names(n) {
		ability["q/"+name] = 1.5 * random.NormFloat64()
	}
	for _, pair := range random.Perm(n * (n - 1) / 2)[:pairs] {
		i, j := 0, pair
		for ; j >= n-1-i; i++ {
			j -= n - 1 - i
		}
		first, second := "q/"+names(n)[i], "q/"+names(n)[i+1+j]
		for range 2 {
			winner := second
			if random.Float64() < 1/(1+math.Exp(ability[second]-ability[first])) {
				winner = first
			}
			m.verdict(0, first, second, winner, "r")
			first, second = second, first
		}
	}
	m.counts = []results.PhaseCounts{{Kind: eval.KindPairwise, Runs: len(m.pairwise), Succeeded: len(m.pairwise)}}
	m.progress = []results.Progress{{Judge: "j", Succeeded: len(m.pairwise), Used: results.Usage{Calls: 2 * pairs, CostUSD: 0.02 * float64(pairs)}}}
	return built(t, m, Options{})
}

// TestTiersOfManyCandidates: every form of a ranking of 98 candidates says how many of them hold the best, and has
// tiers in place of bounds, which leave nearly every rank open.
func TestTiersOfManyCandidates(t *testing.T) {
	t.Parallel()
	r := ofMany(t, 98, 900)
	group := r.Groups[0]
	contenders, n := group.Contenders, len(group.Contenders.Positions)
	if len(group.Ranked) != 98 || len(group.Tiers) < 2 || n < 5 || n > 60 || contenders.Positions[0] != 0 {
		t.Fatalf("tiers %+v, contenders %+v", group.Tiers, contenders)
	}
	var sizes []int
	for k, c := range group.Ranked {
		for len(sizes) < c.Tier {
			sizes = append(sizes, 0)
		}
		sizes[c.Tier-1]++
		if c.Contender != slices.Contains(contenders.Positions, k) || c.Contender && c.Tier > 1 {
			t.Errorf("%s of tier %d: %t", c.Name, c.Tier, c.Contender)
		}
	}
	for tier, one := range group.Tiers {
		if one.Candidates != sizes[tier] {
			t.Errorf("tier %d has %d candidates, and %d have it", tier+1, one.Candidates, sizes[tier])
		}
	}
	held := fmt.Sprintf("best is one of %d of the 98 candidates", n)
	if !strings.Contains(r.Headline(), "“"+group.Ranked[0].Name+"” is first; at 95 % confidence, the "+held+": ") {
		t.Errorf("the headline: %s", r.Headline())
	}

	texts := forms(t, r)
	var out reportJSON
	if err := json.Unmarshal([]byte(texts["json"]), &out); err != nil {
		t.Fatal(err)
	}
	got, ranked := out.Rankings[0].BestSet, out.Rankings[0].Candidates
	if got == nil || got.Candidates != n || got.Left != (n+1)/2 || got.Confidence != 0.95 || !(got.Best >= 0.95 && got.Best < 1.001) || math.Abs(float64(got.CostUSD/got.Pairs)-0.02) > 1e-6 {
		t.Errorf("the JSON has %+v", got)
	}
	if len(out.Rankings[0].Tiers) != len(group.Tiers) || !*ranked[0].MayBeBest || *ranked[97].MayBeBest || *ranked[0].Tier != 1 || *ranked[97].Tier != group.Ranked[97].Tier {
		t.Errorf("the JSON has tiers %+v", out.Rankings[0].Tiers)
	}
	delete(texts, "json")
	texts["card"] = card(t, r, CardOptions{TextOptions: TextOptions{Width: 200}})
	for form, text := range texts {
		text = strings.Join(strings.Fields(strings.ReplaceAll(html.UnescapeString(text), `\$`, "$")), " ")
		for _, want := range []string{held, "1 (tier 1)", group.tierLines()[0], r.narrowing(group)} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", form, want)
			}
		}
		for _, not := range []string{"1 (1–", "as well"} {
			if strings.Contains(text, not) {
				t.Errorf("%s has %q", form, not)
			}
		}
	}
	rows := rankingOf(t, r)
	if rows[0].number("tier") != 1 || rows[0].number("may_be_best") != 1 || rows[97].number("may_be_best") != 0 || rows[97].number("rank_low") < 2 {
		t.Errorf("ranking.csv has %v and %v", rows[0], rows[97])
	}
}

// TestFewCandidates: up to twenty candidates keep the bounds of their ranks.
func TestFewCandidates(t *testing.T) {
	t.Parallel()
	for n, many := range map[int]bool{rank.FewCandidates: false, rank.FewCandidates + 1: true} {
		r := ofMany(t, n, 5*n)
		if got := strings.Contains(textOf(t, r, TextOptions{}), "(tier 1)"); got != many || strings.Contains(r.Headline(), "as well") == many {
			t.Errorf("%d candidates: tiers %t, %s", n, got, r.Headline())
		}
		if r.Groups[0].Tiers == nil || r.Groups[0].Contenders == nil {
			t.Errorf("%d candidates: no tiers", n)
		}
	}
}

// TestHeadlineNamesTheBestSet: the headline names the very candidates that ranking.csv and report.json say may be the best.
func TestHeadlineNamesTheBestSet(t *testing.T) {
	t.Parallel()
	several := 0
	for n := 6; n <= 18; n += 2 {
		for pairs := n; pairs <= n*(n-1)/2; pairs += n {
			r := ofMany(t, n, pairs)
			said, named := r.Headline(), 0
			if len(r.Groups) != 1 || r.doubt() != "" || strings.Contains(said, " more ") {
				continue // it names only the first, or not all
			}
			for k, row := range rankingOf(t, r)[:len(r.Groups[0].Ranked)] {
				name := r.Groups[0].Ranked[k].Name
				if says := strings.Contains(said, called(name)); says != (row.number("may_be_best") == 1) {
					t.Errorf("%d candidates, %d pairs: %s may be the best: %v, and the headline is %q", n, pairs, name, row.number("may_be_best"), said)
				} else if says {
					named++
				}
			}
			if 1 < named && named < n {
				several++
			}
		}
	}
	if several < 5 {
		t.Errorf("only %d headlines name some of the candidates", several)
	}
}

// TestFewerContenders: what would leave fewer contenders is to compare them with each other while enough of their
// pairs are left, and otherwise to compare all candidates. If too few pairs are left, the report says so.
func TestFewerContenders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n, pairs    int
		all, tooFew bool
		want        string
	}{
		{98, 300, false, false, " more pairs among these "},
		{98, 900, true, false, " more pairs among all 98 ("},
		{30, 240, false, true, "more than are left"},
	} {
		r := ofMany(t, tt.n, tt.pairs)
		c, n := r.Groups[0].Contenders, len(r.Groups[0].Ranked)
		if said := r.narrowing(r.Groups[0]); c.TooFew != tt.tooFew || (c.Of == n) != tt.all || !strings.Contains(said, tt.want) {
			t.Errorf("%d candidates, %d pairs: %+v, %s", tt.n, tt.pairs, c, said)
		}
		share := float64(c.Of) / float64(n)
		if want := c.Clusters * share; math.Abs(c.Pairs-want) > 1e-6*want {
			t.Errorf("%d candidates: %v pairs, want %v", tt.n, c.Pairs, want)
		}
	}
}
