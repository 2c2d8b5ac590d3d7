// Package rank turns pairwise verdicts into a ranking. It computes counts, Bradley–Terry and Davidson abilities with
// intervals, confidence sets for ranks, Elo, win rates, and judges' preferences for a position. BradleyTerry fits the
// abilities, and Fit.Uncertainty computes all intervals of a Fit.
//
// It is pure mathematics over small integers: candidates are 0 to n−1, judges are positions in a slice, and no names
// appear. It reads nothing, and gives the same digits for the same input in any order. It keeps only counts, no
// verdicts. Only Fit.Uncertainty reads verdicts, by cluster, and makes random draws from the given seed. The caller
// chooses which verdicts count: a failed run is not a comparison, and cannot be passed in.
package rank

import "fmt"

// Outcome is the result of a comparison, by the position in which the candidates were shown.
type Outcome uint8

// The outcomes.
const (
	FirstWins Outcome = iota
	SecondWins
	Tied
)

// Comparison is one verdict: First was shown before Second.
type Comparison struct {
	First, Second int
	Outcome       Outcome
}

// Counts holds the outcomes of the comparisons in which one candidate was shown before another.
type Counts struct {
	FirstWins, SecondWins, Ties int
}

// Total returns the number of comparisons.
func (c Counts) Total() int { return c.FirstWins + c.SecondWins + c.Ties }

// Add counts one outcome. It ignores an unknown one.
func (c *Counts) Add(o Outcome) {
	if more, err := o.counts(); err == nil {
		*c = c.Plus(more)
	}
}

// Swapped returns the counts for the other order of the two candidates.
func (c Counts) Swapped() Counts { return Counts{c.SecondWins, c.FirstWins, c.Ties} }

// Plus returns the sum of both.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.FirstWins + d.FirstWins, c.SecondWins + d.SecondWins, c.Ties + d.Ties}
}

// Record holds the results of one candidate's comparisons.
type Record struct {
	Wins, Losses, Ties int
}

// Games returns the number of comparisons.
func (r Record) Games() int { return r.Wins + r.Losses + r.Ties }

// WinRate returns (wins + ties/2) / games, where a tie is half a win (Zheng et al. 2023, "Judging LLM-as-a-Judge",
// adjusted win rate). It returns 0 without games.
//
// It does not measure strength if candidates had different opponents; the abilities of BradleyTerry do.
func (r Record) WinRate() float64 {
	if r.Games() == 0 {
		return 0
	}
	return (float64(r.Wins) + float64(r.Ties)/2) / float64(r.Games())
}

func (r Record) plus(s Record) Record {
	return Record{r.Wins + s.Wins, r.Losses + s.Losses, r.Ties + s.Ties}
}

func (o Outcome) counts() (Counts, error) {
	switch o {
	case FirstWins:
		return Counts{FirstWins: 1}, nil
	case SecondWins:
		return Counts{SecondWins: 1}, nil
	case Tied:
		return Counts{Ties: 1}, nil
	default:
		return Counts{}, fmt.Errorf("outcome %d is none of first wins, second wins, tied", o)
	}
}
