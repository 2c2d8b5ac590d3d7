// Package rank turns pairwise verdicts into a ranking: counts, Bradley–Terry and Davidson
// abilities with intervals, confidence sets for ranks, Elo, win rates, and estimates of judges'
// preferences for a position. BradleyTerry fits the abilities, and Fit.Uncertainty computes all
// intervals of a Fit.
//
// It is pure mathematics over small integers: candidates are 0 … n−1, judges are positions
// in a slice, and no names appear. It reads nothing, keeps no verdicts (only counts, but for
// Fit.Uncertainty, which reads them by cluster and draws from the seed it is given), and gives
// the same digits for the same input in any order. The caller chooses which verdicts count: a
// failed run is not a comparison, and cannot be passed in.
package rank

import "fmt"

// Outcome is what a comparison said, by the position in which the candidates
// were shown.
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

// Counts are the outcomes of the comparisons in which one candidate was shown
// before one other.
type Counts struct {
	FirstWins, SecondWins, Ties int
}

// Total is the number of comparisons.
func (c Counts) Total() int { return c.FirstWins + c.SecondWins + c.Ties }

// Add counts one more outcome. An unknown one is not counted.
func (c *Counts) Add(o Outcome) {
	if more, err := o.counts(); err == nil {
		*c = c.plus(more)
	}
}

func (c Counts) plus(d Counts) Counts {
	return Counts{c.FirstWins + d.FirstWins, c.SecondWins + d.SecondWins, c.Ties + d.Ties}
}

// Record is one candidate's comparisons.
type Record struct {
	Wins, Losses, Ties int
}

// Games is the number of comparisons.
func (r Record) Games() int { return r.Wins + r.Losses + r.Ties }

// WinRate is (wins + ties/2) / games, a tie being half a win (Zheng et al. 2023,
// "Judging LLM-as-a-Judge", adjusted win rate). It is 0 without games.
//
// It is no measure of strength when candidates met different opponents; the
// abilities of BradleyTerry are.
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
