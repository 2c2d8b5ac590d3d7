package rank

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Observed holds the verdicts of one judge on two candidates, in the order shown, within one cluster. A cluster is a
// set of verdicts that may depend on each other: on the same texts, or on answers to the same question.
type Observed struct {
	Cluster       int32 // any number from 0
	Judge         int32 // from 0
	First, Second int32

	FirstWins, SecondWins, Ties int32
	// Identical counts ties between identical texts, which are known without a call. They count in records and win
	// rates, but not in estimates, because their probability does not depend on any parameter.
	Identical int32

	// Longer is the relative difference in length of the texts (Relative); 0 if length is not estimated. Verdicts on
	// texts of other lengths need another Observed.
	Longer float64
}

// counts returns the verdicts except those on identical texts.
func (o Observed) counts() Counts {
	return Counts{int(o.FirstWins), int(o.SecondWins), int(o.Ties)}
}

// compare orders verdicts as the rows of a model, then by cluster and counts, so that the order is fully determined.
func (o Observed) compare(p Observed) int {
	return cmp.Or(cmp.Compare(o.Judge, p.Judge), cmp.Compare(o.First, p.First), cmp.Compare(o.Second, p.Second),
		cmp.Compare(o.Longer, p.Longer), cmp.Compare(o.Cluster, p.Cluster), cmp.Compare(o.FirstWins, p.FirstWins),
		cmp.Compare(o.SecondWins, p.SecondWins), cmp.Compare(o.Ties, p.Ties), cmp.Compare(o.Identical, p.Identical))
}

// FromObserved fits abilities as BradleyTerry does, to verdicts with clusters, which it sorts in place. If any differ
// in Observed.Longer, there is one more parameter: the effect of a text's length on its odds. An ability is then that
// of texts of equal length (the style control of Li, Angelopoulos and Chiang 2024, "Does style matter?"). The
// covariate is divided by its standard deviation around 0, so that Fit.Length is comparable between evaluations.
//
// The effect can be separated from ability only if candidates have several texts of different lengths. If each has
// one text, its length belongs to the candidate.
//
// Memory grows with the number of verdicts that differ in judge, candidates or lengths.
func FromObserved(n, judges int, observed []Observed, options Options) (*Fit, error) {
	if n > MaxCandidates {
		return nil, fmt.Errorf("rank %d candidates: %w (at most %d)", n, ErrTooManyCandidates, MaxCandidates)
	}
	slices.SortFunc(observed, Observed.compare)
	var rows []row
	records := make([]Record, n)
	for _, o := range observed {
		if err := o.check(n, judges); err != nil {
			return nil, err
		}
		o.record(records)
		if o.counts().Total() == 0 {
			continue
		}
		one := row{
			first: int(o.First), second: int(o.Second), judge: int(o.Judge), longer: o.Longer,
			wins: float64(o.FirstWins), losses: float64(o.SecondWins), ties: float64(o.Ties),
		}
		if k := len(rows) - 1; k >= 0 && rows[k].compare(one) == 0 {
			rows[k].wins += one.wins
			rows[k].losses += one.losses
			rows[k].ties += one.ties
		} else {
			rows = append(rows, one)
		}
	}

	scale := spread(rows)
	for i := range rows {
		rows[i].longer /= scale
	}
	m := newModel(n, judges, rows, options)
	m.scale = scale
	fit, err := m.fit(records, options)
	if err != nil {
		return nil, fmt.Errorf("rank %d candidates: %w", n, err)
	}
	return fit, nil
}

// record adds the verdicts to the records of both candidates.
func (o Observed) record(records []Record) {
	wins, losses, ties := int(o.FirstWins), int(o.SecondWins), int(o.Ties+o.Identical)
	records[o.First] = records[o.First].plus(Record{Wins: wins, Losses: losses, Ties: ties})
	records[o.Second] = records[o.Second].plus(Record{Wins: losses, Losses: wins, Ties: ties})
}

func (o Observed) check(n, judges int) error {
	switch {
	case o.Judge < 0 || int(o.Judge) >= judges:
		return fmt.Errorf("a verdict of judge %d, want 0 to %d", o.Judge, judges-1)
	case min(o.First, o.Second) < 0 || int(max(o.First, o.Second)) >= n:
		return fmt.Errorf("a verdict on candidates %d and %d, want 0 to %d", o.First, o.Second, n-1)
	case o.First == o.Second:
		return fmt.Errorf("a verdict on candidate %d and itself", o.First)
	case min(o.FirstWins, o.SecondWins, o.Ties, o.Identical) < 0:
		return fmt.Errorf("a verdict with negative counts %+v, %d on identical texts", o.counts(), o.Identical)
	default:
		return nil
	}
}

// spread returns the standard deviation of differences in length around 0; 1 if there are none.
func spread(rows []row) float64 {
	squares, total := 0.0, 0.0
	for _, r := range rows {
		squares += r.total() * r.longer * r.longer
		total += r.total()
	}
	if squares == 0 {
		return 1
	}
	return math.Sqrt(squares / total)
}
