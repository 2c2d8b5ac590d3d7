package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Neighbour says how certain it is that a candidate is better than the next one. It also says how much more data
// would make it certain.
type Neighbour struct {
	// Right and Clusters are the fields Right and More of rank.Neighbour.
	Right, Clusters float64
	// Pairs is how many pairs of texts that many clusters contain on average.
	Pairs float64
}

// compareNeighbours fills in Group.Neighbours for the groups of a rating.
func (b *builder) compareNeighbours(of *rating) {
	group, pairs := map[int]int{}, make([]int, len(b.report.Groups))
	for g, one := range b.report.Groups {
		for _, c := range one.Ranked {
			group[c.Candidate] = g
		}
	}

	documents := b.report.Evaluation.Plan.Documents
	possible, seen := 0, len(b.pairClusters())
	size := map[int]int{} // documents of the item so far
	for _, d := range documents {
		possible += size[d.Item]
		size[d.Item]++
	}

	b.report.exhausted = b.clusterBy() == ByPair && seen >= possible && b.escalation == nil
	var low, high int32 = -1, -1
	for _, c := range b.verdicts.cells {
		l, h := c.pair()
		_, counts := of.places[c.rater]
		first, second := documents[c.first].Candidate, documents[c.second].Candidate
		if !counts || c.wins+c.losses+c.ties == 0 || l == low && h == high || first == second {
			continue
		}
		low, high = l, h
		pairs[group[b.candidate[first]]]++
		if b.report.separate() { // each verdict is on a pair of texts of its own
			pairs[group[b.candidate[first]]] += int(c.wins+c.losses+c.ties) - 1
			low, high = -1, -1
		}
	}

	for _, n := range of.uncertainty.Neighbours() {
		g := group[n.Better]
		one := Neighbour{Right: n.Right, Clusters: n.More, Pairs: n.More * float64(pairs[g]) / float64(n.Clusters)}
		b.report.Groups[g].Neighbours = append(b.report.Groups[g].Neighbours, one)
	}
	b.narrow(of, pairs)
}

// known reports whether the verdicts allow to say anything about the order of the two.
func (n Neighbour) known() bool { return !math.IsNaN(n.Right) }

// apart reports whether the order of the two is significant at 95 %, for this pair of candidates alone.
func (n Neighbour) apart() bool { return n.Clusters == 0 }

// OpenNeighbours returns the names of candidates that are neighbours in the ranking and not told apart, the one that ranks
// higher first. Those that about the fewest further pairs would tell apart come first, those for which no number is known
// last.
func (r *Report) OpenNeighbours() (open [][2]string) {
	needs := map[[2]string]float64{}
	for _, g := range r.Groups {
		for k, n := range g.Neighbours {
			if n.known() && n.apart() {
				continue
			}
			need := n.Clusters
			if !n.known() || math.IsNaN(need) {
				need = math.Inf(1)
			}
			pair := [2]string{g.Ranked[k].Name, g.Ranked[k+1].Name}
			open, needs[pair] = append(open, pair), need
		}
	}

	slices.SortStableFunc(open, func(a, b [2]string) int { return cmp.Compare(needs[a], needs[b]) })
	return open
}

// pairCost returns the mean cost of a pair with a verdict in USD: all judges' calls about it. It returns NaN if the
// cost of a call is unknown, or nothing was paid.
func (r *Report) pairCost() float64 {
	var all results.Usage
	for _, phase := range r.Progress {
		if phase.Kind == eval.KindPairwise {
			all = all.Plus(phase.Sum().Used)
		}
	}
	if all.Unpriced > 0 || all.CostUSD <= 0 {
		return math.NaN()
	}
	return all.CostUSD / float64(max(1, r.Pairs))
}

// mostMore is the largest number of further pairs that is shown; above, the number reads "> 1,000,000".
const mostMore = 1_000_000

// about rounds a number up to two significant digits. NaN is "–", and numbers above mostMore read "> " and mostMore.
func about(n float64) string {
	switch {
	case math.IsNaN(n):
		return "–"
	case n > mostMore:
		return "> " + wording.Count(mostMore)
	}
	step := math.Pow(10, max(0, math.Floor(math.Log10(max(n, 1)))-1))
	return wording.Count(int(math.Ceil(n/step) * step))
}

// furtherPairs returns about for use in a sentence: "about 1,200 more pairs", or "more than 1,000,000 further pairs".
func furtherPairs(n float64) string {
	if n > mostMore {
		return "more than " + wording.Count(mostMore) + " further pairs"
	}
	return "about " + about(n) + " more pairs"
}

// furtherCells returns how many more clusters and pairs would tell the two apart, and what these pairs would cost.
func (n Neighbour) furtherCells(pairCost float64) []string {
	switch {
	case !n.known():
		return []string{"–", "–", "–"}
	case n.apart():
		return []string{"0", "0", "–"}
	case math.IsInf(n.Clusters, 1):
		return []string{"no number", "no number", "–"}
	}
	cost := "–"
	if usd := n.Pairs * pairCost; !math.IsNaN(usd) {
		cost = dollars(usd)
	}
	return []string{about(n.Clusters), about(n.Pairs), cost}
}

// dollars formats an estimated amount, of which only the magnitude is known.
func dollars(usd float64) string {
	switch {
	case usd < 0.01:
		return "< $0.01"
	case usd < 100:
		return fmt.Sprintf("$%.2f", usd)
	default:
		return "$" + about(usd)
	}
}

// manyNeighbours is how many neighbours of many candidates are shown: most of those are nearly equal, and tiers say more.
const manyNeighbours = 5

// enoughSection shows for at most `most` neighbours how certain their order is, and what would settle it. ok is false
// without abilities.
func (r *Report) enoughSection(most int) (s section, ok bool) {
	t := append(lines.Table{
		{Head: "candidate", Flexible: true}, {Head: "before", Flexible: true},
	}, lines.Heads("right", "more items", "more pairs", "cost")...).InFull("", "ahead of",
		"chance that the order is right", "more items to be sure", "more pairs to be sure", "their cost")
	const further = "about how many more of the same kind tell the two apart at 95 % in half of all evaluations, for this " +
		"pair of candidates alone; 0: told apart"
	t[2].Means, t[3].Means, t[4].Means = "below 95 %, the two are not told apart", further, "the pairs of texts of so many items"
	left, pairCost := 0, r.pairCost()
	if len(r.Groups) == 1 && r.Groups[0].tiered() {
		most = min(most, manyNeighbours)
	}
	for _, g := range r.Groups {
		for k, n := range g.Neighbours {
			if len(t[0].Cells) == most {
				left++
				continue
			}
			t.Add(append([]string{named(g.Ranked[k].Name), named(g.Ranked[k+1].Name), probability(n.Right)}, n.furtherCells(pairCost)...)...)
		}
	}

	if len(t[0].Cells) == 0 {
		return section{}, false
	}
	switch {
	case r.ByScore():
		t = t[:4]
	case r.Intervals.By != ByItem:
		t = append(t[:3:3], t[4:]...) // clusters are pairs
		t[3].Means = further
	}
	s = section{title: "Is it enough?", table: t}
	if !math.IsNaN(pairCost) {
		s.lines = append(s.lines, "A pair of texts has cost "+ratelimit.USD(pairCost)+" on average, with all judges, orders and trials.")
	}
	if len(r.Groups) == 1 && r.Groups[0].tiered() {
		s.lines = append(s.lines, r.narrowing(r.Groups[0]))
	}
	if r.powerless != "" {
		s.lines = append(s.lines, capital(r.powerless)+".")
	}
	if r.exhausted {
		s.lines = append(
			s.lines,
			"All pairs of these documents are compared. Further verdicts can only come from more judges and trials, which add less.",
		)
	}
	if left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more pair")+" of neighbours in report.json.")
	}
	return s, true
}

// enough describes in a sentence or two which neighbours have a significant order. It is empty if that is not known, or if there
// are several groups.
func (r *Report) enough() string {
	if len(r.Groups) != 1 {
		return ""
	}
	group := r.Groups[0]
	if group.tiered() {
		return r.narrowing(group)
	}
	known, apart, open := 0, 0, -1
	for k, n := range group.Neighbours {
		switch {
		case !n.known():
		case n.apart():
			known, apart = known+1, apart+1
		default:
			known++
			if open < 0 || math.IsInf(group.Neighbours[open].Clusters, 1) && !math.IsInf(n.Clusters, 1) {
				open = k
			}
		}
	}

	if known == 0 {
		return ""
	}
	words := fmt.Sprintf("%s of %s told apart, each alone", wording.Count(apart), wording.Counted(known, "neighbour pair"))
	if open < 0 {
		return words + "."
	}
	n := group.Neighbours[open]
	words += fmt.Sprintf("; %s over %s: %s sure", called(group.Ranked[open].Name), called(group.Ranked[open+1].Name), probability(n.Right))
	if math.IsInf(n.Clusters, 1) {
		return words + ", perhaps equal."
	}
	if r.exhausted {
		return words + ", and all pairs are compared."
	}
	if r.ByScore() {
		return words + ", " + furtherItems(n.Clusters) + " for 95 %."
	}
	return words + ", " + r.furtherWords(n.Pairs) + "."
}

// furtherItems returns about for use in a sentence about items.
func furtherItems(n float64) string {
	switch {
	case n > mostMore:
		return "more than " + wording.Count(mostMore) + " further items"
	case n <= 1:
		return "about 1 more item"
	}
	return "about " + about(n) + " more items"
}

// furtherWords says how many further pairs would tell two candidates apart, and what they would cost.
func (r *Report) furtherWords(pairs float64) string {
	switch {
	case math.IsNaN(pairs):
		return "and these verdicts cannot tell how many more pairs 95 % would take"
	case pairs > mostMore:
		return "and 95 % would take " + furtherPairs(pairs)
	}
	cost := ""
	if usd := pairs * r.pairCost(); !math.IsNaN(usd) {
		cost = " (" + dollars(usd) + ")"
	}
	if pairs <= 1 {
		return "about 1 more pair" + cost + " for 95 %"
	}
	return furtherPairs(pairs) + cost + " for 95 %"
}

// neighbourJSON is the JSON form of Neighbour; docs/formats.md describes its fields.
type neighbourJSON struct {
	Candidate string `json:"candidate"`
	Next      string `json:"next"`
	Right     number `json:"right"`
	Apart     bool   `json:"apart"`
	Clusters  number `json:"more_clusters"`
	Pairs     number `json:"more_pairs"`
	CostUSD   number `json:"more_cost_usd"`
}

func (r *Report) neighboursJSON(g Group) (out []neighbourJSON) {
	pairCost := r.pairCost()
	for k, n := range g.Neighbours {
		out = append(out, neighbourJSON{
			g.Ranked[k].Name, g.Ranked[k+1].Name, number(n.Right), n.apart(), number(n.Clusters), number(n.Pairs), number(n.Pairs * pairCost),
		})
	}
	return out
}
