package rank

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Standing is one candidate's place in its component.
type Standing struct {
	Candidate int
	Component int // index into Fit.Components; ranks compare only within one

	// Rank is 1 plus the number of candidates of the component with a greater ability. Abilities that are equal to
	// nine decimals share a rank.
	Rank int
	// Ability is in log-odds, relative to the mean of the component. ModelSE is its standard error, assuming
	// independent verdicts. For errors relative to a reference candidate, see Fit.Contrast.
	Ability, ModelSE float64
	// Regularised says that a prior was used for the ability (Component.Regularised).
	Regularised bool

	Record
}

// Standings returns all candidates, component by component and best first. Equal ones are in the order of their
// numbers. A candidate without games is alone in its component, with a meaningless ability of 0.
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

// Games returns the number of comparisons of candidate i.
func (f *Fit) Games(i int) int { return f.records[i].Games() }

// rounded returns the ability such that rounding errors make no difference, for comparisons.
func (f *Fit) rounded(i int) float64 { return math.Round(f.Abilities[i] * 1e9) }

func (f *Fit) se(i int) float64 {
	return math.Sqrt(max(f.covariance.At(i, i), 0))
}

// Contrast returns the difference of the abilities of i and j with its standard error, √(Vii + Vjj − 2Vij). It is the
// ability of i relative to a reference candidate j. If the candidates are in different components, the difference is
// undefined: ok is false, and the rest 0.
func (f *Fit) Contrast(i, j int) (difference, se float64, ok bool) {
	if f.component[i] != f.component[j] {
		return 0, 0, false
	}
	return f.Abilities[i] - f.Abilities[j], math.Sqrt(between(f.covariance, i, j)), true
}

// between returns the variance of the difference of parameters i and j.
func between(covariance *mat.SymDense, i, j int) float64 {
	return max(covariance.At(i, i)+covariance.At(j, j)-2*covariance.At(i, j), 0)
}

// Elo returns the rating for an ability (Elo 1978, "The Rating of Chessplayers"): 1000 + 400/ln 10 · ability. The
// mean of a component is 1000, and 400 points are odds of ten to one.
//
// Ratings that are updated game by game depend on the order of the games and on a factor K. Workers finish in no
// particular order. Such ratings fluctuate around those returned here, whose expected scores 1/(1+10^((Rj−Ri)/400))
// add up to the observed scores. Elo has no draws, only half points, so pass abilities fitted with HalfWins.
func Elo(ability float64) float64 {
	return 1000 + 400/math.Ln10*ability
}
