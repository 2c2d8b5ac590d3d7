package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// bestNames is how many contenders a headline names.
const bestNames = 5

// Tier is a rank.Tier.
type Tier struct {
	Candidates int
	Apart      bool
}

// Contenders are the candidates that may be the best of a group, as rank.Uncertainty.Contenders.
type Contenders struct {
	Positions []int   // in Group.Ranked
	Best      float64 // their probability to include the best, as the sum of Ranked.Best; NaN: unknown
	// Left and Clusters are the fields Left and More of rank.Narrowing.
	Left     int
	Clusters float64
	// Pairs is about how many more pairs of texts are as good as that many clusters, if they compare Of candidates: only
	// the contenders if enough of their pairs are left, otherwise all. It is NaN where scores rank candidates.
	Pairs float64
	Of    int
	// TooFew says that not so many pairs are left to compare, because each candidate has one text.
	TooFew bool
}

// tiered reports whether a group has so many candidates that tiers and a set of contenders replace the bounds of ranks.
func (g Group) tiered() bool { return len(g.Tiers) > 0 && len(g.Ranked) > rank.FewCandidates }

// groupTiers sets the tiers of a group whose candidates are those of component c.
func (g *Group) groupTiers(u rank.Conclusions, c int) {
	tier := map[int]int{}
	for t, one := range u.Tiers[c] {
		g.Tiers = append(g.Tiers, Tier{len(one.Candidates), one.Apart})
		for _, i := range one.Candidates {
			tier[i] = t + 1
		}
	}
	g.Contenders = &Contenders{Left: 1, Clusters: math.NaN(), Pairs: math.NaN()}
	for k := range g.Ranked {
		one := &g.Ranked[k]
		one.Tier, one.Contender, one.tiered = tier[one.Candidate], u.Contenders[one.Candidate], g.tiered()
		if one.Contender {
			g.Contenders.Positions = append(g.Contenders.Positions, k)
			g.Contenders.Best += one.Best
		}
	}
}

// narrow fills in what would leave fewer contenders in each group, given the numbers of pairs compared in the groups.
func (b *builder) narrow(of *rating, pairs []int) {
	narrowings := of.uncertainty.Narrowings()
	for g := range b.report.Groups {
		group := &b.report.Groups[g]
		contenders, inside, all := group.Contenders, map[string]bool{}, map[string]bool{}
		for _, one := range group.Ranked {
			all[one.Name] = true
			if one.Contender {
				inside[one.Name] = true
			}
		}

		more := narrowings[group.Ranked[0].Component]
		ofAll := more.More * float64(pairs[g]) / float64(more.Clusters)
		contenders.Left, contenders.Clusters, contenders.Of = more.Left, more.More, len(inside)
		contenders.Pairs = ofAll * float64(len(inside)) / float64(len(all)) // as many of each candidate
		if b.clusterBy() != ByPair || contenders.Pairs <= b.open(inside) {
			continue // further items are possible
		}
		if contenders.TooFew = ofAll > b.open(all); !contenders.TooFew {
			contenders.Pairs, contenders.Of = ofAll, len(all)
		}
	}
}

// open returns the number of pairs of texts of the given candidates that were not compared.
func (b *builder) open(candidates map[string]bool) float64 {
	type place struct {
		item      int
		candidate string
	}
	documents := b.report.Evaluation.Plan.Documents
	left, texts, own := 0, map[int]int{}, map[place]int{}
	for _, d := range documents {
		if at := (place{d.Item, d.Candidate}); candidates[d.Candidate] {
			left += texts[d.Item] - own[at]
			texts[d.Item]++
			own[at]++
		}
	}
	for pair := range b.pairClusters() {
		first, second := documents[pair[0]].Candidate, documents[pair[1]].Candidate
		if first != second && candidates[first] && candidates[second] {
			left--
		}
	}
	return float64(left)
}

// leadersOfMany says which of many candidates may be the best. first names the first, or those that share its rank.
func (g Group) leadersOfMany(first, verb string) string {
	all, n := len(g.Ranked), len(g.Contenders.Positions)
	if n == all {
		return fmt.Sprintf(
			"%s %s; at 95 %% confidence, any of the %s candidates could be the best.", first, verb, wording.Count(all),
		)
	}
	var names []string
	for _, k := range g.Contenders.Positions {
		names = append(names, called(g.Ranked[k].Name))
	}
	return fmt.Sprintf(
		"%s %s; at 95 %% confidence, the best is one of %s of the %s candidates: %s.",
		first, verb, wording.Count(n), wording.Count(all), list(names, bestNames),
	)
}

// narrowing says what would leave fewer contenders of many candidates.
func (r *Report) narrowing(g Group) string {
	c := g.Contenders
	n := len(c.Positions)
	if n == 1 {
		return fmt.Sprintf("The best of %s candidates is known at 95 %%.", wording.Count(len(g.Ranked)))
	}
	words := fmt.Sprintf("The best is one of %s of the %s candidates", wording.Count(n), wording.Count(len(g.Ranked)))
	cost := ""
	if usd := c.Pairs * r.pairCost(); !math.IsNaN(usd) {
		cost = " (" + dollars(usd) + ")"
	}

	if r.ByScore() && !math.IsNaN(c.Clusters) && !math.IsInf(c.Clusters, 1) {
		return fmt.Sprintf("%s; %s with scores of all would leave %s or fewer.", words, furtherItems(c.Clusters), wording.Count(c.Left))
	}

	among := "these"
	if c.Of == len(g.Ranked) {
		among = "all"
	}
	pairs := fmt.Sprintf("%s among %s %s%s", furtherPairs(c.Pairs), among, wording.Count(c.Of), cost)
	switch {
	case math.IsNaN(c.Clusters):
		return words + "."
	case math.IsInf(c.Clusters, 1):
		return words + "; the first is perhaps equal to others, so more may not help."
	case c.TooFew:
		return fmt.Sprintf(
			"%s; leaving %s or fewer takes %s, more than are left: add items, judges or trials.",
			words, wording.Count(c.Left), pairs,
		)
	default:
		return fmt.Sprintf("%s; %s would leave %s or fewer.", words, pairs, wording.Count(c.Left))
	}
}

// tierLines explains the tiers of a group, and names the candidates that may be the best.
func (g Group) tierLines() []string {
	if !g.tiered() {
		return nil
	}
	var sizes []string
	apart := ""
	for t, one := range g.Tiers {
		sizes = append(sizes, wording.Count(one.Candidates))
		if one.Apart && t+1 < len(g.Tiers) {
			apart += fmt.Sprintf(" Every candidate down to tier %d is better than every one below.", t+1)
		}
	}

	words := "One tier: with all differences tested at once at 95 %, no candidate is told from another."
	if n := len(sizes); n > 1 {
		words = fmt.Sprintf(
			"%s tiers (%s candidates, best first): each of a lower tier is worse than some of the tier above, all at once at 95 %%.%s",
			wording.Count(n), list(sizes, headlineNames), apart,
		)
	}

	var names []string
	for _, k := range g.Contenders.Positions {
		names = append(names, called(g.Ranked[k].Name))
	}
	held := "The best is among these at 95 %, however far apart candidates are (P(best) assumes a normal spread): " +
		list(names, plotCandidates) + "."
	if len(names) == len(g.Ranked) {
		held = "Each of them could be the best at 95 %."
	}
	return []string{words, held}
}

// tierJSON is the JSON form of Tier.
type tierJSON struct {
	Candidates int  `json:"candidates"`
	Apart      bool `json:"apart"` // each of this and higher tiers is better than each of lower ones
}

// bestSetJSON is the JSON form of Contenders. The candidates in it have may_be_best.
type bestSetJSON struct {
	Candidates int    `json:"candidates"`
	Confidence number `json:"confidence"` // that they include the best
	Best       number `json:"p_best"`     // sum of theirs
	Left       int    `json:"left"`       // half of them; about so many more would leave at most these:
	Clusters   number `json:"more_clusters"`
	Pairs      number `json:"more_pairs"`
	Of         int    `json:"more_candidates"` // compared by more_pairs: those of the set, or all
	TooFew     bool   `json:"too_few_pairs"`   // so many pairs are not left
	CostUSD    number `json:"more_cost_usd"`
}

func (r *Report) bestSetJSON(g Group) *bestSetJSON {
	c := g.Contenders
	if c == nil {
		return nil
	}
	return &bestSetJSON{
		len(c.Positions), 0.95, number(c.Best), c.Left, number(c.Clusters), number(c.Pairs), c.Of, c.TooFew,
		number(c.Pairs * r.pairCost()),
	}
}
