package rank

import (
	"fmt"
	"math"
	"slices"

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
// proof of a bias, for which see WithLength. NaN where either never varies.
func (l *Lengths) Correlation() float64 {
	n := float64(l.n)
	spread := l.differences.variance(l.n) * l.verdicts.variance(l.n)
	if spread <= 0 {
		return math.NaN()
	}
	return (n*l.both - l.differences.sum*l.verdicts.sum) / math.Sqrt(spread)
}

// WithLength is BradleyTerry with one parameter more: what the length of a text adds
// to its odds beside its candidate's ability, which then is that of texts of equal
// length (the style control of Li, Angelopoulos and Chiang 2024, "Does style
// matter?"). The covariate is Observed.Longer, divided by its standard deviation
// around 0, so that Fit.Length is comparable between evaluations.
//
// It can be told from ability only where candidates have several texts of different
// lengths; with one text each, the length is the candidate's.
//
// Memory grows with the observations that differ in judge, candidates or lengths.
func WithLength(n, judges int, observed []Observed, options Options) (*Fit, error) {
	if n > MaxCandidates {
		return nil, fmt.Errorf("rank %d candidates: %w (at most %d)", n, ErrTooManyCandidates, MaxCandidates)
	}
	tallies := make([]*Tally, judges)
	for k := range tallies {
		tallies[k] = NewTally(n)
	}
	rows := make([]row, 0, len(observed))
	for _, o := range observed {
		if o.counts().Total() == 0 {
			continue
		}
		if o.Judge < 0 || int(o.Judge) >= judges {
			return nil, fmt.Errorf("rank by length: a verdict of judge %d of %d", o.Judge, judges)
		}
		if err := tallies[o.Judge].AddCounts(int(o.First), int(o.Second), o.counts()); err != nil {
			return nil, fmt.Errorf("rank by length: %w", err)
		}
		rows = append(rows, row{
			first: int(o.First), second: int(o.Second), judge: int(o.Judge), longer: o.Longer,
			wins: float64(o.FirstWins), losses: float64(o.SecondWins), ties: float64(o.Ties),
		})
	}
	rows = merged(rows)
	squares, total := 0.0, 0.0
	for _, r := range rows { // sorted, so that the sum has the same digits in any order of verdicts
		squares += r.total() * r.longer * r.longer
		total += r.total()
	}
	scale := 1.0
	if squares > 0 {
		scale = math.Sqrt(squares / total)
	}
	for i := range rows {
		rows[i].longer /= scale
	}
	m := newModel(n, judges, rows, options)
	m.scale = scale
	fit, err := m.fit(Records(n, tallies), options)
	if err != nil {
		return nil, fmt.Errorf("rank %d candidates by length: %w", n, err)
	}
	return fit, nil
}

// tellsLength reports whether differences in length can be told from those between
// candidates, and from a preference for a position: whether anything of them is left
// once those have explained what they can.
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

// merged sorts rows and adds up those that say the same.
func merged(rows []row) []row {
	slices.SortFunc(rows, row.compare)
	var out []row
	for _, r := range rows {
		if k := len(out) - 1; k >= 0 && out[k].compare(r) == 0 {
			out[k].wins += r.wins
			out[k].losses += r.losses
			out[k].ties += r.ties
			continue
		}
		out = append(out, r)
	}
	return out
}
