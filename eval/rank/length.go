package rank

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Measured is one comparison with the lengths of the texts shown, in any unit.
type Measured struct {
	Judge int // from 0
	Comparison
	FirstLength, SecondLength int
}

// difference is (first − second)/(first + second), which is the same for texts of 100
// and 200 words and of 1,000 and 2,000; 0 for two empty texts.
func (c Measured) difference() float64 {
	sum := c.FirstLength + c.SecondLength
	if sum == 0 {
		return 0
	}
	return float64(c.FirstLength-c.SecondLength) / float64(sum)
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

// Add takes one more verdict.
func (l *Lengths) Add(c Measured) {
	verdict := map[Outcome]float64{FirstWins: 1, SecondWins: -1}[c.Outcome]
	difference := c.difference()
	switch {
	case verdict*difference > 0:
		l.LongerWins++
	case verdict*difference < 0:
		l.ShorterWins++
	}
	l.n++
	l.differences.add(difference)
	l.verdicts.add(verdict)
	l.both += verdict * difference
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
// matter?"). The covariate is the difference in length relative to the sum, divided by
// its standard deviation around 0, so that Fit.Length is comparable between
// evaluations.
//
// It can be told from ability only where candidates have several texts of different
// lengths; with one text each, the length is the candidate's.
//
// Memory grows with the comparisons that differ in judge, candidates or lengths.
func WithLength(n, judges int, games []Measured, options Options) (*Fit, error) {
	if n > MaxCandidates {
		return nil, fmt.Errorf("rank %d candidates: %w (at most %d)", n, ErrTooManyCandidates, MaxCandidates)
	}
	tallies := make([]*Tally, judges)
	for k := range tallies {
		tallies[k] = NewTally(n)
	}
	squares := 0.0
	rows := make([]row, 0, len(games))
	for _, g := range games {
		if g.Judge < 0 || g.Judge >= judges {
			return nil, fmt.Errorf("rank by length: a game of judge %d of %d", g.Judge, judges)
		}
		if err := tallies[g.Judge].Add(g.Comparison); err != nil {
			return nil, fmt.Errorf("rank by length: %w", err)
		}
		r := row{first: g.First, second: g.Second, judge: g.Judge, longer: g.difference()}
		switch g.Outcome {
		case FirstWins:
			r.wins = 1
		case SecondWins:
			r.losses = 1
		case Tied:
			r.ties = 1
		}
		rows = append(rows, r)
	}
	rows = merged(rows)
	for _, r := range rows { // sorted, so that the sum has the same digits in any order of games
		squares += r.total() * r.longer * r.longer
	}
	for i := range rows {
		if squares > 0 {
			rows[i].longer /= math.Sqrt(squares / float64(len(games)))
		}
	}
	fit, _, err := newModel(n, judges, rows, options).fit(Records(n, tallies), options)
	if err != nil {
		return nil, fmt.Errorf("rank %d candidates by length: %w", n, err)
	}
	return fit, nil
}

// merged sorts rows and adds up those that say the same.
func merged(rows []row) []row {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.judge, b.judge), cmp.Compare(a.first, b.first), cmp.Compare(a.second, b.second), cmp.Compare(a.longer, b.longer))
	})
	var out []row
	for _, r := range rows {
		if k := len(out) - 1; k >= 0 && out[k].judge == r.judge && out[k].first == r.first && out[k].second == r.second && out[k].longer == r.longer {
			out[k].wins += r.wins
			out[k].losses += r.losses
			out[k].ties += r.ties
			continue
		}
		out = append(out, r)
	}
	return out
}
