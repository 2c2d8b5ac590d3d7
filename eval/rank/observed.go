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
	// FirstMore and SecondMore are the wins that degrees add to FirstWins and SecondWins in estimates: a win of degree k
	// counts k times. See FromObserved.
	FirstMore, SecondMore int32
	// Soft is what the probabilities of soft verdicts add to FirstWins + Ties/2, and take from what SecondWins + Ties/2 is
	// for the other. It counts in WeightedWinRates alone.
	Soft float64
	// Identical counts ties between identical texts, which are known without a call. They count in records and win
	// rates, but not in estimates, because their probability does not depend on any parameter.
	Identical int32

	// Longer is the relative difference in length of the texts (Relative); 0 if length is not estimated. Verdicts on
	// texts of other lengths need another Observed.
	Longer float64

	// Weight, if it is not 0, is how much each verdict counts in estimates. Only FromSample sets it.
	Weight float64
	// Predicted says that the judge did not give these verdicts. They count in estimates, but in nothing else.
	Predicted bool
}

func (o Observed) weight() float64 {
	if o.Weight == 0 {
		return 1
	}
	return o.Weight
}

// row returns the verdicts as a row of a model whose differences in length are divided by scale, and whose wins of the
// first degree count as degree.
func (o Observed) row(scale, degree float64) row {
	w := o.weight()
	return row{
		first: int(o.First), second: int(o.Second), judge: int(o.Judge), longer: o.Longer / scale,
		wins: w * degree * float64(o.FirstWins+o.FirstMore), losses: w * degree * float64(o.SecondWins+o.SecondMore), ties: w * float64(o.Ties),
	}
}

// firstDegree returns what a win of the first degree counts as, so that the mean win counts as one: a ranking by winners
// alone, and one by winners that all have the same degree, are the same.
func firstDegree(observed []Observed) float64 {
	wins, more := 0.0, 0.0
	for _, o := range observed {
		wins += float64(o.FirstWins + o.SecondWins)
		more += float64(o.FirstMore + o.SecondMore)
	}
	if more == 0 {
		return 1
	}
	return wins / (wins + more)
}

// counts returns the verdicts except those on identical texts.
func (o Observed) counts() Counts {
	return Counts{int(o.FirstWins), int(o.SecondWins), int(o.Ties)}
}

// compare orders verdicts as the rows of a model, then by cluster and counts, so that the order is fully determined.
func (o Observed) compare(p Observed) int {
	return cmp.Or(cmp.Compare(o.Judge, p.Judge), cmp.Compare(o.First, p.First), cmp.Compare(o.Second, p.Second),
		cmp.Compare(o.Longer, p.Longer), cmp.Compare(o.Cluster, p.Cluster), cmp.Compare(o.FirstWins, p.FirstWins),
		cmp.Compare(o.SecondWins, p.SecondWins), cmp.Compare(o.FirstMore, p.FirstMore), cmp.Compare(o.SecondMore, p.SecondMore),
		cmp.Compare(o.Ties, p.Ties), cmp.Compare(o.Identical, p.Identical), cmp.Compare(o.Soft, p.Soft),
		cmp.Compare(o.Weight, p.Weight))
}

// FromObserved fits abilities as BradleyTerry does, to verdicts with clusters, which it sorts in place. If any differ
// in Observed.Longer, there is one more parameter: the effect of a text's length on its odds. An ability is then that
// of texts of equal length (the style control of Li, Angelopoulos and Chiang 2024, "Does style matter?"). The
// covariate is divided by its standard deviation around 0, so that Fit.Length is comparable between evaluations.
//
// Wins can have degrees. Agresti 1992, "Analysis of ordinal paired comparison data", gives degrees equally spaced scores
// in a logit model of adjacent categories: what then tells abilities apart is the sum of the degrees of a candidate's wins
// less those of its losses. Here a win of degree k counts as k wins, divided by the mean degree, in the likelihood of the
// model without degrees. That is a quasi-likelihood; its intervals hold because Uncertainty takes errors from clusters.
// Records, win rates and tests of who won count each verdict once.
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
	degree := firstDegree(observed)
	records := make([]Record, n)
	for _, o := range observed {
		if err := o.check(n, judges); err != nil {
			return nil, err
		}
		o.record(records)
		if o.counts().Total() == 0 {
			continue
		}
		one := o.row(1, degree)
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
	m.scale, m.degree = scale, degree
	m.heaviest = heaviest(observed)
	fit, err := m.fit(records, options)
	if err != nil {
		return nil, fmt.Errorf("rank %d candidates: %w", n, err)
	}
	return fit, nil
}

// heaviest returns the greatest weight of a verdict that a judge gave; 0 if all have the same.
func heaviest(observed []Observed) float64 {
	most, differ := 1.0, false
	for _, o := range observed {
		differ = differ || o.Weight != 0
		if !o.Predicted {
			most = max(most, o.weight())
		}
	}
	if !differ {
		return 0
	}
	return most
}

// record adds the verdicts to the records of both candidates.
func (o Observed) record(records []Record) {
	if o.Predicted {
		return
	}
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
	case min(o.FirstWins, o.SecondWins, o.Ties, o.Identical, o.FirstMore, o.SecondMore) < 0 ||
		o.FirstWins == 0 && o.FirstMore > 0 || o.SecondWins == 0 && o.SecondMore > 0:
		return fmt.Errorf("a verdict with invalid counts %+v, %d on identical texts, degrees of %d and %d more",
			o.counts(), o.Identical, o.FirstMore, o.SecondMore)
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
