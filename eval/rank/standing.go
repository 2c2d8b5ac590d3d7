package rank

import (
	"cmp"
	"math"
	"slices"
)

// z95 is the 97.5 % quantile of the normal distribution: two-sided 95 %.
const z95 = 1.959963984540054

// Standing is one candidate's place in its component.
type Standing struct {
	Candidate int
	Component int // index into Fit.Components; ranks of different components do not compare

	// Rank is 1 + the number of candidates of the component with a greater ability;
	// abilities equal to nine decimals share a rank.
	Rank int
	// RankLow and RankHigh bound the rank: 1 + the number of candidates that are
	// better, and size − the number that are worse, each by a difference that is
	// significant at 95 % (|λi − λj| > 1.96 standard errors of that difference).
	//
	// These are the confidence sets for ranks of Mogstad, Romano, Shaikh and Wilhelm
	// 2024, "Inference for Ranks", from pairwise differences, without their
	// correction for many comparisons: with dozens of candidates some true ranks lie
	// outside.
	RankLow, RankHigh int

	// Ability is the log-odds above the mean of the component, SE its standard
	// error in that parametrisation (not against a reference candidate, for which
	// see Fit.Contrast), Low and High are Ability ∓ 1.96 SE.
	Ability, SE, Low, High float64
	// Regularised says that a prior holds the ability (Component.Regularised).
	Regularised bool

	Record
}

// Standings are all candidates, component by component, best first; equals in the
// order of their numbers. A candidate without games stands alone in its component
// with ability 0, which means nothing.
func (f *Fit) Standings() []Standing {
	standings := make([]Standing, 0, len(f.Abilities))
	for c, part := range f.Components {
		ordered := slices.Clone(part.Candidates)
		slices.SortStableFunc(ordered, func(i, j int) int {
			return cmp.Compare(f.rounded(j), f.rounded(i))
		})
		rank := 1
		for k, i := range ordered {
			if k > 0 && f.rounded(i) < f.rounded(ordered[k-1]) {
				rank = k + 1
			}
			se := f.se(i)
			s := Standing{
				Candidate: i, Component: c, Rank: rank,
				Ability: f.Abilities[i], SE: se, Low: f.Abilities[i] - z95*se, High: f.Abilities[i] + z95*se,
				Regularised: part.Regularised, Record: f.records[i],
			}
			s.RankLow, s.RankHigh = f.rankBounds(i, ordered)
			standings = append(standings, s)
		}
	}
	return standings
}

// Games is the number of comparisons of candidate i.
func (f *Fit) Games(i int) int { return f.records[i].Games() }

// rounded makes abilities that differ by rounding only equal.
func (f *Fit) rounded(i int) float64 { return math.Round(f.Abilities[i] * 1e9) }

func (f *Fit) se(i int) float64 {
	return math.Sqrt(max(f.covariance.At(i, i), 0))
}

func (f *Fit) rankBounds(i int, component []int) (low, high int) {
	low, high = 1, len(component)
	for _, j := range component {
		if j == i {
			continue
		}
		switch difference, se, _ := f.Contrast(j, i); {
		case difference > z95*se:
			low++
		case difference < -z95*se:
			high--
		}
	}
	return low, high
}

// Contrast is the difference of the abilities of i and j with its standard error,
// √(Vii + Vjj − 2Vij). Against a reference candidate j it is the ability in that
// parametrisation. ok is false, and the rest 0, for candidates of different
// components, which have no difference.
func (f *Fit) Contrast(i, j int) (difference, se float64, ok bool) {
	if f.component[i] != f.component[j] {
		return 0, 0, false
	}
	variance := f.covariance.At(i, i) + f.covariance.At(j, j) - 2*f.covariance.At(i, j)
	return f.Abilities[i] - f.Abilities[j], math.Sqrt(max(variance, 0)), true
}

// Elo is the rating of an ability (Elo 1978, "The Rating of Chessplayers"):
// 1000 + 400/ln 10 · ability, so that the mean of a component is 1000 and 400
// points are odds of ten to one.
//
// Ratings updated game by game depend on the order of the games and on a factor K,
// and a queue's workers finish in no particular order. This is what they fluctuate
// around: the ratings whose expected scores 1/(1+10^((Rj−Ri)/400)) add up to the
// scores seen. Elo has no draws of its own, only half points, so give it abilities
// fitted with HalfWins.
func Elo(ability float64) float64 {
	return 1000 + 400/math.Ln10*ability
}
