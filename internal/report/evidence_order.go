package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// ranksBy reports whether the verdicts of a judge rank the candidates: those of all do but a strong judge that others escalate
// to, or those of that one alone.
func (r *Report) ranksBy(judge string) bool {
	return r.Escalation == nil || (judge == r.Escalation.Judge) == r.Escalation.Corrected
}

// ranking returns the judges whose verdicts rank the candidates.
func (r *Report) ranking() []Judge {
	return slices.DeleteFunc(slices.Clone(r.Judges), func(j Judge) bool { return !r.ranksBy(j.Name) })
}

func (t *Reliance) weighOrder(r *Report) {
	var both rank.Swaps
	for _, j := range r.ranking() {
		both.Consistent += j.Swaps.Consistent
		both.AlwaysFirst += j.Swaps.AlwaysFirst
		both.AlwaysSecond += j.Swaps.AlwaysSecond
		both.HalfTied += j.Swaps.HalfTied
	}
	if both.Total() > 0 {
		t.Order = 1 - both.Consistency()
	}

	switch {
	case r.given() && r.Evaluation.Plan.Given.Column != nil:
		c := r.Evaluation.Plan.Given.Column
		t.add("order", t.Order, Unknown, fmt.Sprintf("%s is in the first column of %s of its %s, and it is not known which text was shown first",
			called(c.Candidate), wording.Count(c.First), wording.Counted(c.Rows, "row")))
	case !r.ordered():
		t.add("order", t.Order, Caution, "it is not known which text was shown first")
	case both.Total() < fewest && r.Pairs >= fewest && r.onePlace() != "":
		t.add("order", t.Order, Unknown, r.onePlace())
	case both.Total() < fewest:
		level, why := Caution, fmt.Sprintf("%s compared in both orders", wording.Either(both.Total(), "pair was", "pairs were"))
		if place := r.placeShare(); place >= (1+mostly)/2 { // random verdicts and those for the place both choose it
			level = Unsound
			why = fmt.Sprintf("of two equal texts, %s choose the one in the same place in %s %% of verdicts", r.raters(), outOfHundred(place))
		}
		t.add("order", t.Order, level, why)
	case both.Flipped() >= mostly || both.Flipped() >= nearlyMostly && distuv.Binomial{N: float64(both.Total()), P: mostly}.
		CDF(float64(both.AlwaysFirst+both.AlwaysSecond)) > outside:
		t.add("order", t.Order, Unsound,
			fmt.Sprintf("%s prefer the same place instead of the same text on %s %% of pairs", r.raters(), outOfHundred(both.Flipped())))
	case t.Order > often:
		t.add("order", t.Order, Caution, fmt.Sprintf("order changes %s %% of verdicts", outOfHundred(t.Order)))
	default:
		t.add("order", t.Order, Sound, "")
	}
}

// onePlace says that the texts in one place won nearly all verdicts although nothing tells whether because of their place:
// the same candidates were always shown there, or the effect of the order is not estimated or may be none. It is empty if
// they did not, or something tells.
func (r *Report) onePlace() string {
	first, decided := 0, 0
	for _, j := range r.ranking() {
		if j.Effect.HasOrder && !j.Effect.Confounded && j.OrderLimits.Low*j.OrderLimits.High > 0 {
			return ""
		}
		first, decided = first+j.Positions.FirstWins, decided+j.Positions.FirstWins+j.Positions.SecondWins
	}
	won, place := max(first, decided-first), "first"
	if first < won {
		place = "second"
	}
	chance := distuv.Binomial{N: float64(decided), P: mostly}
	if decided == 0 || float64(won) < (1+mostly)/2*float64(decided) || 1-chance.CDF(float64(won)-1) > outside {
		return ""
	}
	return fmt.Sprintf("the text shown %s won %s of %s verdicts, and nothing tells whether because of its place",
		place, wording.Count(won), wording.Count(decided))
}

// placeShare returns how often judges choose the place that each of them prefers, of two texts of equal strength: the mean
// over their verdicts. A judge whose preference may be chance, or a difference between candidates, counts as one half.
func (r *Report) placeShare() float64 {
	var all weighted
	for _, j := range r.ranking() {
		share := 0.5
		if j.Effect.HasOrder && !j.Effect.Confounded && j.OrderLimits.Low*j.OrderLimits.High > 0 {
			share = winShare(math.Abs(j.Effect.Order))
		}
		all.add(share, float64(j.Positions.Total()))
	}
	return all.mean()
}
