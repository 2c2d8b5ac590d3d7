package rank

import (
	"cmp"
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
	much         float64 // log-odds from which it calls a text much better; 0: verdicts have no degree
	atRandom     float64 // share of its degrees that say nothing
}

// muchBetter returns the probabilities that it calls the text shown first much better, and much worse, given those of its
// verdict.
func (j simulatedJudge) muchBetter(difference, more float64, p chances) (better, worse float64) {
	if j.much == 0 {
		return 0, 0
	}
	d := j.scale*difference + j.order + more
	better, worse = min(p.win, 1/(1+math.Exp(j.much-d))), min(p.loss, 1/(1+math.Exp(j.much+d)))
	return better + j.atRandom*(p.win/2-better), worse + j.atRandom*(p.loss/2-worse)
}

// degree returns how many degrees more than 1 a verdict has whose place among its chances is at.
func (j simulatedJudge) degree(random *rand.Rand, at, difference, more float64) int32 {
	if j.much == 0 {
		return 0
	}
	if random.Float64() < j.atRandom {
		return int32(random.IntN(2))
	}
	d := j.scale*difference + j.order + more
	if at > 1-1/(1+math.Exp(j.much-d)) || at < 1/(1+math.Exp(j.much+d)) {
		return 1
	}
	return 0
}

// simulations are what coverage is measured of.
func simulations() []evaluations {
	plain := []simulatedJudge{{scale: 1, order: 0.6}, {scale: 1, order: -0.2}}
	one := []simulatedJudge{{scale: 1, order: 0.4}}
	graded, noisy, tying := gradingJudges()
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
		{name: "100 candidates, 1 item, 500 pairs, by pair", candidates: 100, drawn: true, items: 1, pairs: 500, judges: one, luck: 0.5, most: 200},
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
		{name: "separated: 44 equals and a better one, 21 items, pairs in one order", candidates: 45, apart: 8, alike: 44, items: 21, oneOrder: true, judges: one, luck: 0.5, most: 200},
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
		{name: "degrees, 6 candidates, 5 items", candidates: 6, apart: 0.2, items: 5, judges: graded, luck: 0.5},
		{name: "degrees, 6 candidates, 30 items", candidates: 6, apart: 0.2, items: 30, judges: graded, luck: 0.5},
		{name: "degrees and ties, 6 candidates .6 apart, 30 items", candidates: 6, apart: 0.6, items: 30, judges: tying, luck: 0.5},
		{name: "degrees by noisy judges, 6 candidates, 30 items", candidates: 6, apart: 0.2, items: 30, judges: noisy, luck: 0.5},
		{name: "degrees, 8 equal candidates, 10 items", candidates: 8, items: 10, judges: graded, luck: 0.5},
		{name: "degrees, 10 candidates, 1 item, by pair", candidates: 10, drawn: true, items: 1, judges: graded, luck: 0.5},
		{name: "separated: degrees, 4 candidates 4 apart, 12 items", candidates: 4, apart: 4, items: 12, judges: graded, luck: 0.5},
		{name: "separated: 4 × 3, equal rows, columns 4 apart, 20 items", candidates: 12, layout: &twoWay{4, 3, 0, 4, 0}, items: 20, judges: plain, luck: 0.5},
	}
}

// gradingJudges are good judges whose degrees follow what they feel, noisy ones whose degrees are half at random, and good
// ones that tie.
func gradingJudges() (good, noisy, tying []simulatedJudge) {
	good = []simulatedJudge{{scale: 1.5, order: 0.3, much: 1.5}, {scale: 1, order: -0.2, much: 2}}
	noisy = []simulatedJudge{{scale: 0.4, order: 0.8, much: 1, atRandom: 0.5}, {scale: 0.4, varies: 0.5, much: 1, atRandom: 1}}
	tying = []simulatedJudge{{scale: 1.5, order: 0.3, nu: 0.6, much: 1.5}, {scale: 1, nu: 0.3, much: 2}}
	return good, noisy, tying
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
					switch degree := judge.degree(random, at, abilities[shown[0]]-abilities[shown[1]], more[k]); outcome {
					case FirstWins:
						one.FirstMore = degree
					case SecondWins:
						one.SecondMore = degree
					}
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
	if !slices.ContainsFunc(e.judges, func(j simulatedJudge) bool { return j.scale != 1 || j.varies > 0 || j.nuVaries > 0 || j.much > 0 }) {
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
				var better, worse float64
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
					far, below := judge.muchBetter(abilities[i]-abilities[j], more, one)
					better, worse = better+far/steps, worse+below/steps
					p.win, p.loss, p.tie = p.win+one.win/steps, p.loss+one.loss/steps, p.tie+one.tie/steps
				}
				expected = append(expected, Observed{
					Judge: int32(k), First: int32(i), Second: int32(j),
					FirstWins: int32(p.win * many), SecondWins: int32(p.loss * many), Ties: int32(p.tie * many),
					FirstMore: int32(better * many), SecondMore: int32(worse * many),
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

// ordered reports whether estimates of order effects are used. People have none, and those of judges are estimated from
// winners alone where there are degrees.
func (e evaluations) ordered() bool { return e.people == 0 && e.judges[0].much == 0 }

// pairAt is the k-th of all pairs.
func pairAt(n, k int) (i, j int) {
	for k >= n-1-i {
		k -= n - 1 - i
		i++
	}
	return i, i + 1 + k
}
