package rank

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Standing is one candidate's place in its component.
type Standing struct {
	Candidate int
	Component int // index into Fit.Components; ranks of different components do not compare

	// Rank is 1 + the number of candidates of the component with a greater ability;
	// abilities equal to nine decimals share a rank.
	Rank int
	// Ability is the log-odds above the mean of the component, ModelSE its standard error in
	// that parametrisation (not against a reference candidate, for which see Fit.Contrast),
	// assuming independent verdicts.
	Ability, ModelSE float64
	// Regularised says that a prior holds the ability (Component.Regularised).
	Regularised bool

	Record
}

// Standings are all candidates, component by component, best first; equal ones in the order of
// their numbers. A candidate without games is alone in its component with a meaningless ability
// of 0.
func (f *Fit) Standings() []Standing {
	standings := make([]Standing, 0, len(f.Abilities))
	for c, part := range f.Components {
		ordered, rank := f.inOrder(c), 1
		for k, i := range ordered {
			if k > 0 && f.rounded(i) < f.rounded(ordered[k-1]) {
				rank = k + 1
			}
			standings = append(standings, Standing{
				Candidate: i, Component: c, Rank: rank, Ability: f.Abilities[i], ModelSE: f.se(i),
				Regularised: part.Regularised, Record: f.records[i],
			})
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

// Contrast is the difference of the abilities of i and j with its standard error, √(Vii + Vjj
// − 2Vij). Against a reference candidate j it is the ability in that parametrisation. ok is
// false, and the rest 0, for candidates of different components, whose difference is undefined.
func (f *Fit) Contrast(i, j int) (difference, se float64, ok bool) {
	if f.component[i] != f.component[j] {
		return 0, 0, false
	}
	return f.Abilities[i] - f.Abilities[j], math.Sqrt(between(f.covariance, i, j)), true
}

// between is the variance of the difference of parameters i and j.
func between(covariance *mat.SymDense, i, j int) float64 {
	return max(covariance.At(i, i)+covariance.At(j, j)-2*covariance.At(i, j), 0)
}

// Elo is the rating of an ability (Elo 1978, "The Rating of Chessplayers"): 1000 + 400/ln 10 ·
// ability, so that the mean of a component is 1000 and 400 points are odds of ten to one.
//
// Ratings updated game by game depend on the order of the games and on a factor K, and a
// queue's workers finish in no particular order. They fluctuate around these ratings, the ones
// whose expected scores 1/(1+10^((Rj−Ri)/400)) add up to the observed scores. Elo has no
// draws of its own, only half points, so give it abilities fitted with HalfWins.
func Elo(ability float64) float64 {
	return 1000 + 400/math.Ln10*ability
}
