package rank

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Relative is how much longer the text shown first is: (first − second)/(first +
// second), which is the same for texts of 100 and 200 words and of 1,000 and 2,000; 0
// for two empty texts.
func Relative(first, second int) float64 {
	if first+second == 0 {
		return 0
	}
	return float64(first-second) / float64(first+second)
}

// Lengths say how far verdicts follow the length of the texts. The zero value has
// none.
type Lengths struct {
	LongerWins  int // decided for the longer text
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

// variance is n² times it.
func (m moments) variance(n int) float64 { return float64(n)*m.squares - m.sum*m.sum }

// Add takes one more verdict, on texts that differ in length by Relative.
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

// Correlation is Pearson's between the difference in length, relative to the sum, and
// the verdict, a tie lying in the middle. Better texts may well be longer: it is no
// proof of a bias, for which see FromObserved. NaN where either never varies.
func (l *Lengths) Correlation() float64 {
	n := float64(l.n)
	spread := l.differences.variance(l.n) * l.verdicts.variance(l.n)
	if spread <= 0 {
		return math.NaN()
	}
	return (n*l.both - l.differences.sum*l.verdicts.sum) / math.Sqrt(spread)
}

// tellsLength reports whether differences in length can be separated from those between
// candidates, and from a preference for a position: whether anything of them remains
// unexplained by those.
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
