package rank

import "cmp"

// Observed are the verdicts of one judge on two candidates in the order shown, within
// one cluster: verdicts of a cluster (on the same texts, or on answers to the same
// question) err together.
type Observed struct {
	Cluster       int32 // any number from 0
	Judge         int32 // from 0
	First, Second int32

	FirstWins, SecondWins, Ties int32

	// Longer is Relative of the texts' lengths; 0 where length is not asked about.
	// Verdicts on texts of other lengths are another Observed.
	Longer float64
}

func (o Observed) counts() Counts {
	return Counts{int(o.FirstWins), int(o.SecondWins), int(o.Ties)}
}

// compare orders as a model's rows are, and then by cluster and by what was said, so
// that sorting leaves nothing to chance.
func (o Observed) compare(p Observed) int {
	return cmp.Or(cmp.Compare(o.Judge, p.Judge), cmp.Compare(o.First, p.First), cmp.Compare(o.Second, p.Second),
		cmp.Compare(o.Longer, p.Longer), cmp.Compare(o.Cluster, p.Cluster), cmp.Compare(o.FirstWins, p.FirstWins),
		cmp.Compare(o.SecondWins, p.SecondWins), cmp.Compare(o.Ties, p.Ties))
}
