package report

import (
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// Agreement says how far raters agree about the same units (pairs or documents). A coefficient that does not exist is
// NaN: all values are equal, or no unit has two raters.
type Agreement struct {
	// Name is the criterion or dimension of the scores; empty for verdicts on pairs.
	Name   string
	Raters []string
	Pairs  []RaterPair // those with units in common, in the order of Raters
	// Units counts the units that at least two raters judged, Complete those that all raters judged.
	Units, Complete int
	// Fleiss is Fleiss' kappa over the complete units.
	Fleiss float64
	// Alpha is Krippendorff's alpha over the units, for values as mere names: two scores are equal or not. Ordinal
	// and Interval are the alphas that also count how far apart two scores are.
	Alpha, Ordinal, Interval float64
	// Within is Interval of scores less the mean of their rater's scores in the same item, over WithinUnits documents, with
	// its limits. Rankings compare scores within items, so to agree only on which items are hard is no agreement about
	// candidates.
	Within       float64
	WithinUnits  int
	WithinLimits rank.Limits
	// Groups is the value of rank.ClusteredAgreement.Groups.
	Groups int
	// The limits of each coefficient at 95 %; NaN where they are not known.
	FleissLimits, AlphaLimits, OrdinalLimits, IntervalLimits rank.Limits
}

// RaterPair compares two raters over the units that both judged.
type RaterPair struct {
	A, B  int // positions in Agreement.Raters
	Units int
	Raw   float64 // how often both gave the same value, as a share of the units
	Cohen float64 // Cohen's kappa
	// CohenLimits are the limits of Cohen at 95 %; NaN where they are not known.
	CohenLimits rank.Limits
}

// raw returns the share of units to which two raters gave the same value, over all pairs of raters. It is NaN if no
// pair of raters has a unit in common.
func (a *Agreement) raw() float64 {
	same, units := 0.0, 0
	for _, pair := range a.Pairs {
		if pair.Units > 0 {
			same += pair.Raw * float64(pair.Units)
			units += pair.Units
		}
	}
	return same / float64(units)
}

// agreed computes the coefficients of an agreement. It returns nil if no unit was judged by two raters.
func agreed(name string, raters []string, a *rank.ClusteredAgreement) *Agreement {
	if a.Units() == 0 {
		return nil
	}
	out := &Agreement{
		Name: name, Raters: raters, Units: a.Units(),
		Alpha: a.Alpha(rank.Nominal), Ordinal: a.Alpha(rank.Ordinal), Interval: a.Alpha(rank.Interval),
		Groups: a.Groups(),
	}
	out.Fleiss, out.Complete = a.Fleiss()
	out.FleissLimits = a.Limits(func(a *rank.Agreement) float64 { kappa, _ := a.Fleiss(); return kappa })
	alpha := func(level rank.Level) rank.Limits {
		return a.Limits(func(a *rank.Agreement) float64 { return a.Alpha(level) })
	}
	out.AlphaLimits, out.OrdinalLimits, out.IntervalLimits = alpha(rank.Nominal), alpha(rank.Ordinal), alpha(rank.Interval)
	for i := range raters {
		for j := i + 1; j < len(raters); j++ {
			raw, units := a.Raw(i, j)
			if units == 0 {
				continue
			}
			out.Pairs = append(out.Pairs, RaterPair{A: i, B: j, Units: units, Raw: raw, Cohen: a.Cohen(i, j), CohenLimits: cohenLimits(a, i, j)})
		}
	}

	return out
}

func cohenLimits(a *rank.ClusteredAgreement, i, j int) rank.Limits {
	return a.Limits(func(a *rank.Agreement) float64 { return a.Cohen(i, j) })
}

// agreement compares raters by all their verdicts on pairs, as rank.Agreement.AddShares does; first is the position of
// the first of them. It also calls each, unless it is nil, with their verdicts on each pair. It returns nil if no pair was
// judged by two of them.
func (b *builder) agreement(first int, raters []string, each func([]rank.Shares)) *Agreement {
	if b.report.separate() { // nothing says that two of them judged the same texts
		return nil
	}
	a := rank.NewClusteredAgreement(len(raters))
	cluster := b.clusters()
	b.verdicts.units(first, len(raters), func(document, _ int, said []rank.Shares) {
		a.AddShares(cluster(document), said)
		if each != nil {
			each(said)
		}
	})
	return agreed("", raters, a)
}

// ratings holds the mean score over trials, by document, rater and aspect (a criterion or a dimension). Its memory
// grows with these, not with the number of scores.
type ratings struct {
	raters, aspects int
	scores          [][]Score // by document; nil: none
}

func newRatings(documents, raters, aspects int) *ratings {
	return &ratings{raters, aspects, make([][]Score, documents)}
}

func (r *ratings) add(document, rater, aspect int, score float64) {
	if r.scores[document] == nil {
		r.scores[document] = make([]Score, r.raters*r.aspects)
	}
	r.scores[document][aspect*r.raters+rater].add(score)
}

// of returns the scores of a document on an aspect, by rater; nil: it has none.
func (r *ratings) of(document, aspect int) []Score {
	if r.scores[document] == nil {
		return nil
	}
	return r.scores[document][aspect*r.raters : (aspect+1)*r.raters]
}

// verdict returns which of two documents a rater scored higher, by the sum over the aspects on which it scored both; equal
// sums are a tie.
func (r *ratings) verdict(rater, one, other int) rank.Shares {
	more, known := 0.0, false
	for aspect := range r.aspects {
		first, second := r.of(one, aspect), r.of(other, aspect)
		if first == nil || second == nil || first[rater].N == 0 || second[rater].N == 0 {
			continue
		}
		more, known = more+first[rater].Mean()-second[rater].Mean(), true
	}
	switch {
	case !known:
		return rank.Shares{}
	case more > 0:
		return rank.FirstWins.Only()
	case more < 0:
		return rank.SecondWins.Only()
	}
	return rank.Tied.Only()
}

// setMeans sets values to the means of scores; NaN of those without any.
func setMeans(values []float64, scores []Score) {
	for k, s := range scores {
		values[k] = math.NaN()
		if s.N > 0 {
			values[k] = s.Mean()
		}
	}
}

// agreement compares raters by their scores, for each aspect that two of them scored. cluster returns the cluster of
// a document, and item its item.
func (r *ratings) agreement(raters, aspects []string, cluster, item func(document int) int) []*Agreement {
	var all []*Agreement
	values := make([]float64, r.raters)
	for aspect, name := range aspects {
		a := rank.NewClusteredAgreement(r.raters)
		for document := range r.scores {
			if scores := r.of(document, aspect); scores != nil {
				setMeans(values, scores)
				a.Add(cluster(document), values)
			}
		}
		if one := agreed(name, raters, a); one != nil {
			within := r.within(aspect, cluster, item)
			one.Within, one.WithinUnits = within.Alpha(rank.Interval), within.Units()
			one.WithinLimits = within.Limits(func(a *rank.Agreement) float64 { return a.Alpha(rank.Interval) })
			all = append(all, one)
		}
	}
	return all
}

// within compares raters by their scores on an aspect less the mean of each rater's scores in the same item, in items with
// several documents that two raters scored.
func (r *ratings) within(aspect int, cluster, item func(document int) int) *rank.ClusteredAgreement {
	documents := map[int][]int{} // by item
	var items []int
	for document := range r.scores {
		n := 0
		for _, s := range r.of(document, aspect) {
			n += one(s.N > 0)
		}
		if n < 2 {
			continue
		}
		i := item(document)
		if documents[i] == nil {
			items = append(items, i)
		}
		documents[i] = append(documents[i], document)
	}

	a := rank.NewClusteredAgreement(r.raters)
	values := make([]float64, r.raters)
	for _, i := range items {
		if len(documents[i]) < 2 {
			continue
		}
		means := make([]weighted, r.raters)
		for _, document := range documents[i] {
			setMeans(values, r.of(document, aspect))
			for k, v := range values {
				means[k].add(v, 1)
			}
		}
		for _, document := range documents[i] {
			setMeans(values, r.of(document, aspect))
			for k := range values {
				values[k] -= means[k].mean()
			}
			a.Add(cluster(document), values)
		}
	}
	return a
}
