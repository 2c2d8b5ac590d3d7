package rank

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// evaluations are what is simulated: candidates whose abilities are known, judged by
// judges whose preference for the text shown first is known.
type evaluations struct {
	name       string
	candidates int
	apart      float64 // between neighbours; 0: all are equal; drawn: normal
	alike      int     // that many neighbours are equal; 0: none
	drawn      bool
	items      int // 1: every pair of documents is a cluster
	pairs      int // of each item; 0: all
	judges     []simulatedJudge
	luck       float64 // share of verdicts that follow the luck of an item's texts
	oneOrder   bool    // every pair is shown in one order only, as drawn
	fails      float64 // share of the verdicts lost by the last candidate that are missing
	weighed    bool    // judges have scales
	people     int     // who say what they see in any order, each about three pairs of an item; they replace the judges
	layout     *twoWay // candidates are crossed levels of two factors; nil: they are not
	most       int     // evaluations at most, because each takes long; 0: no bound
}

// twoWay says how candidates are made of rows and columns: by how far neighbouring rows and columns are apart, and by how
// far the first candidate is above the sum of both, and the second below.
type twoWay struct {
	rows, columns           int
	byRow, byColumn, beyond float64
}

// of places the candidates.
func (l twoWay) of() Layout {
	out := make(Layout, l.rows)
	for r := range out {
		for c := range l.columns {
			out[r] = append(out[r], r*l.columns+c)
		}
	}
	return out
}

type simulatedJudge struct {
	scale, order float64
	varies       float64 // standard deviation of the order effect between items
	nu           float64
	nuVaries     float64 // standard deviation of its logarithm between people
}

// simulations are what coverage is measured of.
func simulations() []evaluations {
	plain := []simulatedJudge{{scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	one := []simulatedJudge{{scale: 1, order: 0.4}}
	return []evaluations{
		{name: "independent, 6 candidates, 30 items", candidates: 6, drawn: true, items: 30, judges: one},
		{name: "6 candidates, 3 items", candidates: 6, apart: 0.2, items: 3, judges: plain, luck: 0.5},
		{name: "6 candidates, 5 items", candidates: 6, apart: 0.2, items: 5, judges: plain, luck: 0.5},
		{name: "6 candidates, 10 items", candidates: 6, apart: 0.2, items: 10, judges: plain, luck: 0.5},
		{name: "6 candidates, 20 items", candidates: 6, apart: 0.2, items: 20, judges: plain, luck: 0.5},
		{name: "6 candidates, 100 items", candidates: 6, apart: 0.2, items: 100, judges: plain, luck: 0.5},
		{name: "2 equal candidates, 8 items", candidates: 2, items: 8, judges: plain, luck: 0.5},
		{name: "2 equal candidates, 8 items, verdicts of an item all alike", candidates: 2, items: 8, judges: []simulatedJudge{{scale: 1}, {scale: 1}}, luck: 1},
		{name: "8 candidates spaced by .05, 30 items", candidates: 8, apart: 0.05, items: 30, judges: plain, luck: 0.5},
		{name: "8 equal candidates, 30 items", candidates: 8, items: 30, judges: plain, luck: 0.5},
		{name: "8 equal candidates, 5 items", candidates: 8, items: 5, judges: plain, luck: 0.5},
		{name: "8 equal candidates, 10 items", candidates: 8, items: 10, judges: plain, luck: 0.5},
		{name: "20 equal candidates, 20 items", candidates: 20, items: 20, judges: one, luck: 0.5},
		{name: "12 candidates, 1 item, by pair", candidates: 12, drawn: true, items: 1, judges: plain, luck: 0.5},
		{name: "30 candidates, 40 items, 20 pairs of each", candidates: 30, drawn: true, items: 40, pairs: 20, judges: one, luck: 0.5},
		{name: "100 candidates, 1 item, 500 pairs, by pair", candidates: 100, drawn: true, items: 1, pairs: 500, judges: one, luck: 0.5, most: 1000},
		{name: "judges of scale 1 and .3, 20 items", candidates: 6, apart: 0.3, items: 20, judges: []simulatedJudge{{scale: 1}, {scale: 0.3}}, luck: 0.5},
		{name: "judges of scale 1 and .3, weighed, 20 items", candidates: 6, apart: 0.3, items: 20, judges: []simulatedJudge{{scale: 1}, {scale: 0.3}}, luck: 0.5, weighed: true},
		{name: "order effects of ±1.5 that vary by item, 20 items", candidates: 6, apart: 0.3, items: 20, luck: 0.5, judges: []simulatedJudge{{scale: 1, order: 1.5, varies: 0.5}, {scale: 1, order: -1.5, varies: 0.5}}},
		{name: "pairs in one order, order effect of 1.5, 20 items", candidates: 6, items: 20, oneOrder: true, luck: 0.5, judges: []simulatedJudge{{scale: 1, order: 1.5}}},
		{name: "ties of 30 %, 20 items", candidates: 6, apart: 0.2, items: 20, luck: 0.5, judges: []simulatedJudge{{scale: 1, order: 0.4, nu: 0.86}}},
		{name: "votes of 60 people, 20 items", candidates: 6, apart: 0.2, items: 20, people: 60, judges: []simulatedJudge{{scale: 1, nu: 0.5, nuVaries: 1}}, luck: 0.5},
		{name: "half of the last candidate's losses missing, 20 items", candidates: 6, apart: 0.2, items: 20, judges: plain, luck: 0.5, fails: 0.5},
		{name: "2,000 candidates, 1 item, 10,000 pairs, by pair", candidates: 2000, drawn: true, items: 1, pairs: 10_000, judges: one, luck: 0.5, most: 5},
		{name: "near-perfect records, 10 items", candidates: 4, apart: 2.5, items: 10, luck: 0.5, judges: one},
		{name: "separated: 16 candidates 1.5 apart, 1 item, by pair", candidates: 16, apart: 1.5, items: 1, judges: plain, luck: 0.9},
		{name: "separated: 4 groups of 4 equals 4 apart, 1 item, by pair", candidates: 16, apart: 4, alike: 4, items: 1, judges: plain, luck: 0.9},
		{name: "separated: 7 equals and a better one, 1 item, by pair", candidates: 8, apart: 8, alike: 7, items: 1, judges: plain, luck: 0.9},
		{name: "separated: 4 groups of 4 equals, 40 pairs, by pair", candidates: 16, apart: 4, alike: 4, items: 1, pairs: 40, judges: plain, luck: 0.9},
		{name: "separated: 4 groups of 4 equals 6 apart, 6 items", candidates: 16, apart: 6, alike: 4, items: 6, judges: plain, luck: 0.9},
		{name: "separated: 4 groups of 4 equals 6 apart, 10 items", candidates: 16, apart: 6, alike: 4, items: 10, judges: plain, luck: 0.9},
		{name: "10 candidates, 20 items, 10 pairs of each", candidates: 10, drawn: true, items: 20, pairs: 10, judges: one, luck: 0.5},
		{name: "50 candidates, 20 items, 50 pairs of each", candidates: 50, drawn: true, items: 20, pairs: 50, judges: one, luck: 0.5, most: 400},
		{name: "100 candidates, 1 item, 1,000 pairs, by pair", candidates: 100, drawn: true, items: 1, pairs: 1000, judges: one, luck: 0.5, most: 400},
		{name: "300 candidates, 1 item, 3,000 pairs, by pair", candidates: 300, drawn: true, items: 1, pairs: 3000, judges: one, luck: 0.5, most: 60},
		{name: "2 groups of 5 equals 3 apart, 20 items", candidates: 10, apart: 3, alike: 5, items: 20, judges: one, luck: 0.5},
		{name: "2 groups of 25 equals 3 apart, 500 pairs, by pair", candidates: 50, apart: 3, alike: 25, items: 1, pairs: 500, judges: one, luck: 0.5, most: 400},
		{name: "2 groups of 50 equals 3 apart, 20 items, 100 pairs of each", candidates: 100, apart: 3, alike: 50, items: 20, pairs: 100, judges: one, luck: 0.5, most: 400},
		{name: "2 groups of 150 equals 3 apart, 3,000 pairs, by pair", candidates: 300, apart: 3, alike: 150, items: 1, pairs: 3000, judges: one, luck: 0.5, most: 60},
		{name: "4 × 3, rows .2 apart, columns .4 apart, 50 items", candidates: 12, layout: &twoWay{4, 3, 0.2, 0.4, 0}, items: 50, judges: plain, luck: 0.5},
		{name: "4 × 3, equals, 50 items", candidates: 12, layout: &twoWay{4, 3, 0, 0, 0}, items: 50, judges: plain, luck: 0.5},
		{name: "4 × 3, equals, 12 items", candidates: 12, layout: &twoWay{4, 3, 0, 0, 0}, items: 12, judges: plain, luck: 0.5},
		{name: "4 × 3, equals, 1 item, by pair", candidates: 12, layout: &twoWay{4, 3, 0, 0, 0}, items: 1, judges: plain, luck: 0.5},
		{name: "4 × 3, two candidates .6 off the sum, 50 items", candidates: 12, layout: &twoWay{4, 3, 0.2, 0.4, 0.6}, items: 50, judges: plain, luck: 0.5},
		{name: "3 × 3, rows and columns .4 apart, 50 items", candidates: 9, layout: &twoWay{3, 3, 0.4, 0.4, 0}, items: 50, judges: plain, luck: 0.5},
		{name: "2 × 2, equals, 8 items", candidates: 4, layout: &twoWay{2, 2, 0, 0, 0}, items: 8, judges: plain, luck: 0.5},
		{name: "separated: 4 × 3, equal rows, columns 4 apart, 20 items", candidates: 12, layout: &twoWay{4, 3, 0, 4, 0}, items: 20, judges: plain, luck: 0.5},
	}
}

// chances are those of the judge's verdict, with that much more of an order effect.
func (j simulatedJudge) chances(difference, more float64) chances {
	d := j.scale*difference + j.order + more
	win, loss := math.Exp(d/2), math.Exp(-d/2)
	sum := win + loss + j.nu
	return chances{win / sum, loss / sum, j.nu / sum}
}

// abilities have the mean 0.
func (e evaluations) abilities(random *rand.Rand) []float64 {
	out := make([]float64, e.candidates)
	if l := e.layout; l != nil {
		for i := range out {
			out[i] = l.byRow*float64(i/l.columns) + l.byColumn*float64(i%l.columns)
		}
		out[0], out[1] = out[0]+l.beyond, out[1]-l.beyond
		return out
	}
	for i := range out {
		out[i] = e.apart * float64(i/max(e.alike, 1))
		if e.drawn {
			out[i] = random.NormFloat64()
		}
	}
	return out
}

// observed are one evaluation's verdicts. Every text has luck; the difference
// between two is logistic (Yellott 1977, "The relationship between Luce's choice axiom,
// Thurstone's theory of comparative judgment, and the double exponential
// distribution"): its distribution function is uniform, so that each verdict alone has
// exactly the chances of the model, while both orders, all judges and all pairs of an
// item share what they follow.
func (e evaluations) observed(random *rand.Rand, abilities []float64) []Observed {
	n := e.candidates
	gumbel := func() float64 { return -math.Log(-math.Log(random.Float64())) }
	var observed []Observed
	people := make([]float64, e.people) // what each multiplies the propensity to tie by
	for k := range people {
		people[k] = math.Exp(e.judges[0].nuVaries * random.NormFloat64())
	}
	for item := range e.items {
		luck := make([]float64, n)
		for i := range luck {
			luck[i] = gumbel()
		}
		more := make([]float64, len(e.judges))
		for k, j := range e.judges {
			more[k] = j.varies * random.NormFloat64()
		}
		all := n * (n - 1) / 2
		for _, pair := range random.Perm(all)[:cmp.Or(e.pairs, all)] {
			i, j := pairAt(n, pair)
			cluster := item
			if e.items == 1 { // then every pair has texts of its own
				cluster, luck[i], luck[j] = pair, gumbel(), gumbel()
			}
			orders := [][2]int{{i, j}, {j, i}}
			if e.oneOrder {
				k := random.IntN(2)
				orders = orders[k : k+1]
			}
			if e.people > 0 {
				orders = [][2]int{{i, j}, {i, j}, {i, j}}
			}
			for k, judge := range e.judges {
				for _, shown := range orders {
					judge := judge
					if e.people > 0 {
						judge.nu *= people[random.IntN(e.people)]
					}
					at := random.Float64()
					if random.Float64() < e.luck {
						at = 1 / (1 + math.Exp(luck[shown[1]]-luck[shown[0]]))
					}
					p, outcome := judge.chances(abilities[shown[0]]-abilities[shown[1]], more[k]), Tied
					switch {
					case at > 1-p.win:
						outcome = FirstWins
					case at < p.loss:
						outcome = SecondWins
					}
					one := game(cluster, shown[0], shown[1], outcome)
					one.Judge = int32(k)
					observed = append(observed, one)
				}
			}
		}
	}
	return observed
}

// incomplete takes away verdicts that the last candidate lost.
func (e evaluations) incomplete(random *rand.Rand, observed []Observed) (left []Observed, missing []Missing) {
	if e.fails == 0 {
		return observed, nil
	}
	for _, o := range observed {
		lost := o.First == 0 && o.SecondWins > 0 || o.Second == 0 && o.FirstWins > 0
		if lost && random.Float64() < e.fails {
			missing = append(missing, Missing{Cluster: o.Cluster, Judge: o.Judge, First: o.First, Second: o.Second})
		} else {
			left = append(left, o)
		}
	}
	return left, missing
}

// truth is what is estimated: abilities whose mean is 0, and judges' order effects.
type truth struct {
	abilities, orders []float64
}

// truth is the fit to what is expected of infinitely many items where the judges differ
// from the model.
func (e evaluations) truth(t *testing.T, abilities []float64) truth {
	t.Helper()
	if !slices.ContainsFunc(e.judges, func(j simulatedJudge) bool { return j.scale != 1 || j.varies > 0 || j.nuVaries > 0 }) {
		var out truth
		mean := 0.0
		for _, ability := range abilities {
			mean += ability / float64(len(abilities))
		}
		for _, ability := range abilities {
			out.abilities = append(out.abilities, ability-mean)
		}
		for _, j := range e.judges {
			out.orders = append(out.orders, j.order)
		}
		return out
	}
	const many, steps = 1_000_000, 41
	random := rand.New(rand.NewPCG(1, 1))
	var expected []Observed
	for k, judge := range e.judges {
		for i := range e.candidates {
			for j := range e.candidates {
				if i == j {
					continue
				}
				var p chances
				for range steps {
					more := 0.0
					if judge.varies > 0 {
						more = judge.varies * random.NormFloat64()
					}
					judge := judge
					if judge.nuVaries > 0 {
						judge.nu *= math.Exp(judge.nuVaries * random.NormFloat64())
					}
					one := judge.chances(abilities[i]-abilities[j], more)
					p.win, p.loss, p.tie = p.win+one.win/steps, p.loss+one.loss/steps, p.tie+one.tie/steps
				}
				expected = append(expected, Observed{
					Judge: int32(k), First: int32(i), Second: int32(j),
					FirstWins: int32(p.win * many), SecondWins: int32(p.loss * many), Ties: int32(p.tie * many),
				})
			}
		}
	}
	fit, err := FromObserved(e.candidates, len(e.judges), expected, e.options())
	if err != nil {
		t.Fatal(err)
	}
	out := truth{abilities: fit.Abilities}
	for _, j := range fit.Judges {
		out.orders = append(out.orders, j.Order)
	}
	return out
}

func (e evaluations) options() Options { return Options{OrderEffect: e.people == 0, Scales: e.weighed} }

// pairAt is the k-th of all pairs.
func pairAt(n, k int) (i, j int) {
	for k >= n-1-i {
		k -= n - 1 - i
		i++
	}
	return i, i + 1 + k
}

// covered counts how often what is known lies in what is said.
type covered struct {
	abilities, differences, orders share
	together, alone                share       // the ranks of all candidates at once, and of the first one
	alarms                         share       // one difference is called, of the wrong sign or of equals
	ahead                          share       // a candidate is said to be ahead of all others, and is not
	first, bold, order             calibration // the first, also where that is likely, and each one before the next
	tiers, contenders              share       // all that tiers say is true; the contenders include the best
	tierCount, contenderCount      int         // sums of their numbers
	width                          float64     // sum of the mean numbers of ranks within bounds
	wide, widest                   float64     // sums of the widths of limits of abilities and of differences
	layout                         layoutCovered
}

// layoutCovered counts what is said of two factors.
type layoutCovered struct {
	main, ranges, interaction share // limits; those of the interaction of all candidates at once
	levels                    share // the ranks of all rows and columns at once
	found, falsely            share // an interaction where there is one, and where there is none
	more, moreFalsely         share // which factor differs more is said, and wrongly
}

type share struct{ hits, of int }

// calibration sets how often the first was the best beside the probability that was said.
type calibration struct {
	share
	sum float64
}

func (c *calibration) add(best bool, said float64) {
	c.share.add(best)
	c.sum += said
}

func (c calibration) said() float64 { return c.sum / float64(max(c.of, 1)) }

// tooBold is by how much more was said than was true, beyond what chance explains.
func (c calibration) tooBold() float64 {
	said := c.said()
	return said - c.rate() - 3*math.Sqrt(said*(1-said)/float64(max(c.of, 1)))
}

func (s *share) add(hit bool) {
	s.of++
	if hit {
		s.hits++
	}
}

func (s share) rate() float64 { return float64(s.hits) / float64(max(s.of, 1)) }

func (c *covered) add(t *testing.T, e evaluations, seed uint64, draws int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 77))
	abilities := e.abilities(random)
	truth := e.truth(t, abilities)
	observed, missing := e.incomplete(random, e.observed(random, abilities))
	fit, err := FromObserved(e.candidates, len(e.judges), observed, e.options())
	if err != nil {
		t.Fatal(err)
	}
	if len(fit.Components) > 1 {
		return // not one ranking
	}
	u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: draws, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	lowest, highest := e.ranks(truth.abilities)
	together, alone, ahead := true, true, false
	for i, ability := range truth.abilities {
		low, high := u.RankLow[i], u.RankHigh[i]
		if missing != nil {
			bounds, err := BoundsOf(t.Context(), i, e.candidates, len(e.judges), observed, missing, e.options())
			if err != nil {
				t.Fatal(err)
			}
			low, high = bounds.Low, bounds.High
		}
		c.abilities.add(u.Abilities[i].Low <= ability && ability <= u.Abilities[i].High)
		c.wide += u.Abilities[i].High - u.Abilities[i].Low
		together = together && low <= lowest[i] && highest[i] <= high
		alone = alone && (i > 0 || u.MarginalLow[i] <= lowest[i] && highest[i] <= u.MarginalHigh[i])
		c.width += float64(high-low+1) / float64(e.candidates)
		ahead = ahead || high == 1 && highest[i] > 1
		for j := range i {
			real := ability - truth.abilities[j]
			_, limits, _ := u.Contrast(i, j)
			c.differences.add(limits.Low <= real && real <= limits.High)
			c.widest += limits.High - limits.Low
			claim := u.ahead(i, j, ofPair)
			c.alarms.add(claim != 0 && float64(claim)*real < 1e-3)
		}
	}
	c.ahead.add(ahead)
	if e.layout != nil {
		c.layout.add(t, *e.layout, u, truth.abilities)
	}
	if missing == nil { // otherwise all abilities are biased
		c.addTiers(u, truth.abilities)
	}
	if first := fit.Standings()[0].Candidate; missing == nil && e.alike == 0 && (e.drawn || e.apart > 0) {
		c.first.add(highest[first] == 1, u.Best[first])
		if u.Best[first] >= 0.8 {
			c.bold.add(highest[first] == 1, u.Best[first])
		}
		for _, pair := range u.Neighbours() {
			c.order.add(truth.abilities[pair.Better] > truth.abilities[pair.Worse], pair.Right)
		}
	}
	c.together.add(together)
	c.alone.add(alone || missing != nil)
	for k, order := range u.Orders {
		if e.people > 0 {
			break // they have none
		}
		real := truth.orders[k]
		c.orders.add(order.Low <= real && real <= order.High)
	}
}

// add adds what is said of the factors, beside what is true.
func (c *layoutCovered) add(t *testing.T, l twoWay, u *Uncertainty, truth []float64) {
	t.Helper()
	said, ok := u.Effects(l.of())
	if !ok {
		t.Fatal("the candidates have no effects")
	}
	means := func(levels, step, size, apart int) (out []float64) {
		for k := range levels {
			mean := 0.0
			for j := range size {
				mean += truth[k*step+j*apart] / float64(size)
			}
			out = append(out, mean)
		}
		return out
	}
	rows, columns := means(l.rows, l.columns, l.columns, 1), means(l.columns, 1, l.rows, l.columns)

	right, squares := true, [2]float64{}
	for k, factor := range []struct {
		said  []Effect
		truth []float64
		span  Range
	}{{said.Rows, rows, said.RowRange}, {said.Columns, columns, said.ColumnRange}} {
		lowest, highest := evaluations{}.ranks(factor.truth)
		for j, one := range factor.said {
			c.main.add(one.Low <= factor.truth[j] && factor.truth[j] <= one.High)
			right = right && one.RankLow <= lowest[j] && highest[j] <= one.RankHigh
			squares[k] += factor.truth[j] * factor.truth[j] / float64(len(factor.truth)-1)
		}
		real := factor.truth[factor.span.Highest] - factor.truth[factor.span.Lowest]
		c.ranges.add(factor.span.Low <= real && real <= factor.span.High)
	}
	c.levels.add(right)
	c.more.add(said.More != 0)
	c.moreFalsely.add(float64(said.More)*(squares[0]-squares[1]) < 0 || said.More != 0 && math.Abs(squares[0]-squares[1]) < 1e-9)
	if said.Untested != Tested {
		return
	}

	all := true
	for r, line := range said.Interaction {
		for k, one := range line {
			real := truth[r*l.columns+k] - rows[r] - columns[k]
			all = all && one.Low <= real && real <= one.High
		}
	}
	c.interaction.add(all)
	if l.beyond != 0 {
		c.found.add(said.P < level)
	} else {
		c.falsely.add(said.P < level)
	}
}

// check logs what was counted, and complains of shares that are too low or too high.
func (c *layoutCovered) check(t *testing.T, name string, least, joint, falsely float64) {
	t.Helper()
	interaction, tested := fmt.Sprintf("%.3f", c.interaction.rate()), fmt.Sprintf("%.3f", c.falsely.rate())
	switch {
	case c.interaction.of == 0:
		interaction, tested = "–", "–"
	case c.found.of > 0:
		tested = fmt.Sprintf("%.3f (there is one)", c.found.rate())
	}
	t.Logf("effects | %s | %.3f | %.3f | %.3f | %s | %s | %.3f | %.3f |", name,
		c.main.rate(), c.ranges.rate(), c.levels.rate(), interaction, tested, c.more.rate(), c.moreFalsely.rate())
	if c.main.rate() < least {
		t.Errorf("%.3f of %d limits of main effects hold the truth, want %.3f", c.main.rate(), c.main.of, least)
	}
	for what, share := range map[string]share{"ranges": c.ranges, "ranks of all levels": c.levels, "interactions": c.interaction} {
		if share.of > 0 && share.rate() < joint {
			t.Errorf("%s hold in %.3f of the evaluations, want %.3f", what, share.rate(), joint)
		}
	}
	if c.falsely.rate() > falsely || c.moreFalsely.rate() > falsely {
		t.Errorf("an interaction is falsely claimed in %.3f of the evaluations, and which factor differs more in %.3f; want at most %.3f",
			c.falsely.rate(), c.moreFalsely.rate(), falsely)
	}
}

// addTiers adds what tiers and contenders say. Of equals that are the best, one is taken that no
// chance has chosen, so that the contenders do not include it by being the first.
func (c *covered) addTiers(u *Uncertainty, truth []float64) {
	best, right := len(truth)-1, true
	for i := range slices.Backward(truth) {
		if truth[i] > truth[best]+1e-3 {
			best = i
		}
	}
	tiers := u.Tiers[0]
	for t, tier := range tiers {
		if t == 0 {
			continue
		}
		for _, i := range tier.Candidates {
			better := func(j int) bool { return truth[j] > truth[i]+1e-3 }
			right = right && slices.ContainsFunc(tiers[t-1].Candidates, better)
			for _, above := range tiers[:t] {
				right = right && (!tiers[t-1].Apart || !slices.ContainsFunc(above.Candidates, func(j int) bool { return !better(j) }))
			}
		}
	}

	c.tiers.add(right)
	c.tierCount += len(tiers)
	c.contenders.add(u.Contenders[best])
	for _, one := range u.Contenders {
		if one {
			c.contenderCount++
		}
	}
}

// ranks are the least and the greatest that a candidate can be said to have; of equals
// they differ.
func (e evaluations) ranks(truth []float64) (lowest, highest []int) {
	for _, x := range truth {
		low, high := 1, 0
		for _, y := range truth {
			if y > x+1e-3 {
				low++
			}
			if y > x-1e-3 {
				high++
			}
		}
		lowest, highest = append(lowest, low), append(highest, high)
	}
	return lowest, highest
}

// TestCoverage: of many evaluations by simulated judges, 95 % intervals hold the truth
// about 95 times in 100 or more, and so do bounds for the ranks of all candidates at
// once, what tiers say, and the best among the contenders; at most 5 in 100 say of a candidate that is not the best
// that it is ahead of every other; the probability that the first is the best is not said to be greater than it
// is. With -full these are 1,000 evaluations of each row, and the bounds are
// tight.
func TestCoverage(t *testing.T) {
	t.Parallel()
	for _, e := range simulations() {
		if e.candidates > 500 && !*full {
			continue // takes long
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			evaluations, draws := 4, 50
			if *full {
				evaluations, draws = *evaluationsFlag, 500
			}
			if e.most > 0 {
				evaluations = min(evaluations, e.most)
			}
			var c covered
			for seed := range uint64(evaluations) {
				c.add(t, e, seed, draws)
			}
			least, joint, falsely := 0.75, 0.5, 0.5 // of so few evaluations: that nothing is wrong by far
			if *full {
				slack := 3 * math.Sqrt(0.05*0.95/float64(c.together.of))
				least, joint, falsely = 0.94-slack, 0.94-slack, 0.05+slack
			}
			calibrated := "– | –"
			if c.first.of > 0 {
				calibrated = fmt.Sprintf("%.3f | %.3f", c.first.said(), c.first.rate())
			}
			orders := "–"
			if c.orders.of > 0 {
				orders = fmt.Sprintf("%.3f", c.orders.rate())
			}
			t.Logf("| %s | %.3f | %.3f | %s | %.3f | %.1f | %.3f | %.3f | %s |", e.name,
				c.abilities.rate(), c.differences.rate(), orders, c.together.rate(), c.width/float64(c.together.of), c.alarms.rate(), c.ahead.rate(), calibrated)
			if n := float64(max(c.tiers.of, 1)); c.tiers.of > 0 {
				t.Logf("tiers and contenders | %s | %.3f | %.1f | %.3f | %.1f |", e.name,
					c.tiers.rate(), float64(c.tierCount)/n, c.contenders.rate(), float64(c.contenderCount)/n)
			}
			if e.layout != nil {
				c.layout.check(t, e.name, least, joint, falsely)
			}
			t.Logf("mean widths: abilities %.2f, differences %.2f", c.wide/float64(c.abilities.of), c.widest/float64(c.differences.of))
			t.Logf("ranks of one candidate alone %.3f", c.alone.rate())
			t.Logf("P(best) of .8 or more: %d of %d, %.3f said, %.3f true", c.bold.of, c.first.of, c.bold.said(), c.bold.rate())
			t.Logf("order of neighbours: %.3f said, %.3f true of %d", c.order.said(), c.order.rate(), c.order.of)
			for what, share := range map[string]share{"abilities": c.abilities, "differences": c.differences, "order effects": c.orders} {
				if e.fails > 0 || e.people > 0 && share.of == 0 {
					continue // limits take failures as random; people have no order effects
				}
				if share.of == 0 || share.rate() < least {
					t.Errorf("%.3f of %d limits of %s hold the truth, want %.3f", share.rate(), share.of, what, least)
				}
			}
			if c.alone.rate() < joint {
				t.Errorf("bounds hold the rank of one candidate in %.3f of the evaluations, want %.3f", c.alone.rate(), joint)
			}
			if c.together.rate() < joint {
				t.Errorf("bounds hold all ranks at once in %.3f of the evaluations, want %.3f", c.together.rate(), joint)
			}
			if c.tiers.of > 0 && c.tiers.rate() < joint {
				t.Errorf("all that tiers say is true in %.3f of the evaluations, want %.3f", c.tiers.rate(), joint)
			}
			if c.contenders.of > 0 && c.contenders.rate() < joint {
				t.Errorf("contenders include the best in %.3f of the evaluations, want %.3f", c.contenders.rate(), joint)
			}
			if e.fails == 0 && c.alarms.rate() > falsely || c.ahead.rate() > falsely {
				t.Errorf("%.3f of the pairs are falsely called different, %.3f of the candidates ahead of every other; want at most %.3f", c.alarms.rate(), c.ahead.rate(), falsely)
			}
			if c.order.of > 0 && c.order.tooBold() > 0.02 {
				t.Errorf("the order of neighbours is said to be right with probability %.3f, and is in %.3f of %d", c.order.said(), c.order.rate(), c.order.of)
			}
			for what, best := range map[string]calibration{"": c.first, " where that is .8 or more": c.bold} {
				if best.of > 0 && best.tooBold() > 0.02 {
					t.Errorf("the first is said to be the best with probability %.3f%s, and is in %.3f of %d evaluations", best.said(), what, best.rate(), best.of)
				}
			}
		})
	}
}
