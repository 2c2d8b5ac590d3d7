package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Scorecard says how far one judge can be trusted. Unknown numbers are NaN.
type Scorecard struct {
	// Others is the share of pairs on which the judge agrees with another one, and OthersKappa is Cohen's kappa. Both
	// are means over the other judges, weighted by pairs.
	Others, OthersKappa float64
	// People and PeopleKappa are Accuracy and Cohen of AgainstPeople, over PeoplePairs pairs.
	People, PeopleKappa float64
	PeoplePairs         int
	// Flipped is the value of rank.Swaps.Flipped.
	Flipped float64
	// First is the probability that the judge prefers the first of two equal texts, according to its order effect.
	First float64
	// Longer is the share of the longer text in verdicts that are not ties.
	Longer float64
	// Own is how much more often the judge prefers candidates of its own model family than others do, as a difference
	// of shares, with OwnLimits. Judge.Own is unrelated.
	Own       float64
	OwnLimits rank.Limits
	// Repeated is the share of equal answers in pairs of trials on the same texts in the same order.
	Repeated float64
	// Used is the usage of the judge's calls.
	Used results.Usage
	// Drop says why the judge's verdicts make the ranking worse; empty if nothing indicates that.
	Drop string

	people   rank.Limits // of PeopleKappa
	verdicts int
	took     results.Took // its answered calls
}

// perVerdict returns the mean cost of a verdict or score in USD; NaN if it is not known.
func (c *Scorecard) perVerdict() float64 {
	if c.Used.Unpriced > 0 || c.Used.Calls+c.Used.FromCache == 0 || c.verdicts == 0 {
		return math.NaN()
	}
	return c.Used.CostUSD / float64(c.verdicts)
}

// scoreJudges fills in Judge.Card, after judges have been compared and candidates ranked. outlays are those by judge.
func (b *builder) scoreJudges(outlays []results.Outlay) {
	r := b.report
	if r.Evaluation.Plan.Pairwise == nil {
		return
	}
	none := math.NaN()
	for k := range r.Judges {
		j := &r.Judges[k]
		c := &Scorecard{
			Others: none, OthersKappa: none, People: none, PeopleKappa: none, Flipped: none, First: none, Longer: none,
			Own: none, Repeated: none,
		}
		j.Card = c
		c.agree(r.Agreement, k)
		if r.People != nil {
			one := r.People.Judges[k]
			c.People, c.PeopleKappa, c.PeoplePairs, c.people = one.Accuracy, one.Cohen, one.Pairs, one.CohenLimits
		}
		if j.Swaps.Total() > 0 {
			c.Flipped = j.Swaps.Flipped()
		}
		if j.Effect.HasOrder {
			c.First = 1 / (1 + math.Exp(-j.Effect.Order))
		}
		if decided := j.Length.LongerWins + j.Length.ShorterWins; decided > 0 {
			c.Longer = share(j.Length.LongerWins, decided)
		}
		if all := b.repeats[k]; all.pairs > 0 {
			c.Repeated = share(all.same, all.pairs)
		}
		for _, of := range outlays {
			if of.Of == j.Name {
				c.took = of.Took
			}
		}
		for _, phase := range r.Progress {
			for _, of := range phase.Judges {
				if of.Judge == j.Name && (phase.Kind == eval.KindPairwise || phase.Kind == eval.KindSingle) {
					c.Used, c.verdicts = c.Used.Plus(of.Used), c.verdicts+of.Rows
				}
			}
		}
	}

	b.preferOwn()
	for k := range r.Judges {
		r.Judges[k].Card.Drop = r.whyDrop(k)
	}
}

// agree computes the mean agreement of a rater with the others.
func (c *Scorecard) agree(a *Agreement, rater int) {
	if a == nil {
		return
	}
	same, pairs, kappa, units := 0.0, 0.0, 0.0, 0.0
	for _, p := range a.Pairs {
		if p.A != rater && p.B != rater {
			continue
		}
		n := float64(p.Units)
		same, pairs = same+n*p.Raw, pairs+n
		if !math.IsNaN(p.Cohen) {
			kappa, units = kappa+n*p.Cohen, units+n
		}
	}
	c.Others, c.OthersKappa = same/pairs, kappa/units
}

// repeats counts pairs of a judge's trials on the same texts in the same order, and how many of them agree.
type repeats struct{ same, pairs int }

// repeat compares the trials on one pair of documents with each other.
func (b *builder) repeat(said []Preference) {
	for i, p := range said {
		for _, q := range said[:i] {
			if p.Judge != q.Judge || p.Reverse != q.Reverse {
				continue
			}
			all := &b.repeats[b.judge[p.Judge]]
			all.pairs++
			all.same += one(p.Winner == q.Winner)
		}
	}
}

// preferOwn estimates self-preference: how much more often a judge prefers a candidate of its own model family than
// others do. It looks at the pairs of such a candidate with one of another family. The others are people or, where
// people did not vote, judges of other families. See Panickssery, Bowman and Feng 2024, "LLM Evaluators Recognize and
// Favor Their Own Generations". Limits are by item, or by pair.
func (b *builder) preferOwn() {
	r := b.report
	plan := r.Evaluation.Plan
	judges := len(r.Judges)
	own := make([][]bool, judges) // by candidate
	any := false
	for k, j := range plan.Judges {
		own[k] = make([]bool, len(r.candidates))
		for i, name := range r.candidates {
			own[k][i] = sameFamily(j.Model, name)
			any = any || own[k][i]
		}
	}

	if !any {
		return
	}
	type sums struct{ sum, n map[int]float64 } // by cluster
	all := make([]sums, judges)
	for k := range all {
		all[k] = sums{map[int]float64{}, map[int]float64{}}
	}
	cluster := b.clusters()
	b.verdicts.units(0, judges+len(b.annotators()), func(low, high int, said []rank.Shares) {
		at := cluster(low)
		i, j := b.candidate[plan.Documents[low].Candidate], b.candidate[plan.Documents[high].Candidate]
		for k, shares := range said[:judges] {
			if !shares.Known() || own[k][i] == own[k][j] {
				continue
			}
			other := meanKnown(said[judges:])
			if math.IsNaN(other) {
				var others []rank.Shares
				for l, shares := range said[:judges] {
					if l != k && !sameFamily(plan.Judges[l].Model, plan.Judges[k].Model) {
						others = append(others, shares)
					}
				}
				other = meanKnown(others)
			}
			if math.IsNaN(other) {
				continue
			}
			more := shares.Mean() - other // 1: the candidate of high
			if own[k][i] {
				more = -more
			}
			all[k].sum[at], all[k].n[at] = all[k].sum[at]+more, all[k].n[at]+1
		}
	})

	for k, of := range all {
		var total, counts []float64
		for _, at := range slices.Sorted(maps.Keys(of.n)) {
			total, counts = append(total, of.sum[at]), append(counts, of.n[at])
		}
		if len(counts) > 0 {
			c := r.Judges[k].Card
			c.Own, c.OwnLimits = rank.MeanOf(total, counts, -1, 1)
		}
	}
}

func meanKnown(said []rank.Shares) float64 {
	sum, n := 0.0, 0.0
	for _, shares := range said {
		if shares.Known() {
			sum, n = sum+shares.Mean(), n+1
		}
	}
	return sum / n
}

// leastPairs is the smallest number of pairs that can justify to drop a judge.
const leastPairs = 20

// whyDrop says why the k-th judge makes the ranking worse; empty if nothing indicates that. Each reason needs
// another judge that is better by the same measure: otherwise the question or the texts may be the problem.
//
//   - It agrees with people no better than chance (a kappa of 0 or less), and another judge does better. If people
//     voted on enough pairs, the judge's agreement with other judges does not count.
//   - Without enough votes, it agrees with the other judges no better than chance, while they agree with each other.
//     This takes three judges: if two disagree, nothing tells which one is wrong.
//   - It flipped with the order on at least half of the pairs, and another judge on at most a fifth. Its verdicts
//     follow the order more than the texts.
func (r *Report) whyDrop(k int) string {
	c := r.Judges[k].Card
	others := func(better func(*Scorecard) bool) bool {
		for l, j := range r.Judges {
			if l != k && better(j.Card) {
				return true
			}
		}
		return false
	}
	voted := func(c *Scorecard) bool { return c.PeoplePairs >= leastPairs }
	switch {
	case voted(c) && c.PeopleKappa <= 0 && others(func(o *Scorecard) bool { return voted(o) && o.PeopleKappa > slight && o.people.Low > 0 }):
		return fmt.Sprintf("it agrees with people no better than chance (kappa %s), unlike another judge", plainSigned(c.PeopleKappa))
	case !voted(c) && c.OthersKappa <= 0 && r.othersAgree(k):
		return fmt.Sprintf(
			"it agrees with the other judges no better than chance (kappa %s), while they agree with each other",
			plainSigned(c.OthersKappa),
		)
	case c.Flipped >= mostly && r.Judges[k].Swaps.Total() >= leastPairs && others(func(o *Scorecard) bool { return o.Flipped <= often }):
		return fmt.Sprintf("it follows the order of texts on %s %% of pairs, another judge on at most a fifth", outOfHundred(c.Flipped))
	}
	return ""
}

// othersAgree reports whether the judges other than the k-th agree more than slightly, looking at those with enough
// pairs in common.
func (r *Report) othersAgree(k int) bool {
	if r.Agreement == nil {
		return false
	}
	kappa, units := 0.0, 0.0
	for _, p := range r.Agreement.Pairs {
		if p.A != k && p.B != k && p.Units >= leastPairs && !math.IsNaN(p.Cohen) {
			kappa, units = kappa+float64(p.Units)*p.Cohen, units+float64(p.Units)
		}
	}
	return kappa/units > slight // false if NaN, without pairs
}
