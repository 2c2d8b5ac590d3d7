package rank

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Relative returns the relative difference in length: (first − second)/(first + second). It is the same for texts of
// 100 and 200 words as for 1,000 and 2,000, and 0 for two empty texts.
func Relative(first, second int) float64 {
	if first+second == 0 {
		return 0
	}
	return float64(first-second) / float64(first+second)
}

// Lengths says how far verdicts follow the length of the texts. The zero value has no verdicts.
type Lengths struct {
	LongerWins  int // verdicts for the longer text
	ShorterWins int
	n           int
	differences moments
	verdicts    moments // 1 for the first, −1 for the second, 0 for a tie
	both        float64 // sum of the products
}

type moments struct{ sum, squares float64 }

func (m *moments) add(x float64) {
	m.sum += x
	m.squares += x * x
}

// variance returns n² times the variance.
func (m moments) variance(n int) float64 { return float64(n)*m.squares - m.sum*m.sum }

// Add counts one verdict. longer is the relative difference in length of the two texts (Relative).
func (l *Lengths) Add(outcome Outcome, longer float64) {
	verdict := map[Outcome]float64{FirstWins: 1, SecondWins: -1}[outcome]
	switch {
	case verdict*longer > 0:
		l.LongerWins++
	case verdict*longer < 0:
		l.ShorterWins++
	}
	l.n++
	l.differences.add(longer)
	l.verdicts.add(verdict)
	l.both += verdict * longer
}

// Correlation returns Pearson's correlation between the relative difference in length and the verdict; a tie is in
// the middle. Better texts may well be longer, so it does not prove a bias; see FromObserved for that. Correlation
// returns NaN if either never varies.
func (l *Lengths) Correlation() float64 {
	n := float64(l.n)
	spread := l.differences.variance(l.n) * l.verdicts.variance(l.n)
	if spread <= 0 {
		return math.NaN()
	}
	return (n*l.both - l.differences.sum*l.verdicts.sum) / math.Sqrt(spread)
}

// tellsLength reports whether the effect of length can be separated from differences between candidates and from a
// position effect. This needs some difference in length that those do not explain.
func (m *model) tellsLength() bool {
	information := mat.NewSymDense(m.size, nil)
	m.derivatives(m.start(), make([]float64, m.size), information)
	all := information.At(m.length, m.length)
	var factor mat.Cholesky
	if !factor.Factorize(information) {
		return false
	}
	return 1/variance(&factor, m.length) > 1e-6*all
}
