package report

import (
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// Agreement is how far raters say the same about the same things. A coefficient that
// does not exist, because nothing differs or nothing was said by both, is NaN.
type Agreement struct {
	// Name is the criterion or dimension of scores; empty of verdicts on pairs.
	Name   string
	Raters []string
	Pairs  []RaterPair // of raters in their order that judged any of the same units
	// Units are the things about which at least two raters said something, Complete
	// those about which every one did.
	Units, Complete int
	// Fleiss is Fleiss' kappa over the complete units.
	Fleiss float64
	// Alpha is Krippendorff's over the units, of names: of scores it is how far they
	// are equal, and Ordinal and Interval count how far they are apart.
	Alpha, Ordinal, Interval float64
	// Limits of each at 95 %; NaN where they are not known.
	FleissLimits, AlphaLimits, OrdinalLimits, IntervalLimits rank.Limits
}

// RaterPair compares two raters over the units about which both said something.
type RaterPair struct {
	A, B  int // of Agreement.Raters
	Units int
	Raw   float64 // share of units about which they said the same
	Cohen float64 // Cohen's kappa
	// CohenLimits are those of Cohen at 95 %; NaN where they are not known.
	CohenLimits rank.Limits
}

// raw is how often two raters said the same, over all pairs of raters; NaN without
// any.
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

// agreed sums up what raters said; nil where no two said something of one unit.
func agreed(name string, raters []string, a *rank.ClusteredAgreement) *Agreement {
	if a.Units() == 0 {
		return nil
	}
	out := &Agreement{
		Name: name, Raters: raters, Units: a.Units(),
		Alpha: a.Alpha(rank.Nominal), Ordinal: a.Alpha(rank.Ordinal), Interval: a.Alpha(rank.Interval),
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

// agreement compares raters, from first on, by the verdicts on pairs; nil with fewer
// than two, or where no two said something of one pair. A rater that preferred each text
// as often as the other, such as one that follows the position, has said nothing.
func (b *builder) agreement(first int, raters []string) *Agreement {
	a := rank.NewClusteredAgreement(len(raters))
	cluster := b.clusters()
	b.verdicts.units(first, len(raters), math.NaN(), func(document, _ int, values []float64) { a.Add(cluster(document), values) })
	return agreed("", raters, a)
}

// ratings are scores by subject, rater and aspect (a criterion or a dimension): the mean over
// trials. Its memory grows with these, not with the scores.
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

// agreement compares raters by their scores on each aspect that two of them scored.
// cluster is that of a document.
func (r *ratings) agreement(raters, aspects []string, cluster func(document int) int) []*Agreement {
	var all []*Agreement
	values := make([]float64, r.raters)
	for aspect, name := range aspects {
		a := rank.NewClusteredAgreement(r.raters)
		for document, scores := range r.scores {
			if scores == nil {
				continue
			}
			for k, s := range scores[aspect*r.raters : (aspect+1)*r.raters] {
				values[k] = math.NaN()
				if s.N > 0 {
					values[k] = s.Mean()
				}
			}
			a.Add(cluster(document), values)
		}
		if one := agreed(name, raters, a); one != nil {
			all = append(all, one)
		}
	}
	return all
}
