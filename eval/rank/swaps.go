package rank

// Swaps compares a judge's verdicts on the same two texts in both orders. It measures position consistency (Zheng et
// al. 2023, "Judging LLM-as-a-Judge").
type Swaps struct {
	Consistent   int // the same text preferred in both, or tied in both
	AlwaysFirst  int // the text shown first preferred in both
	AlwaysSecond int // the text shown second preferred in both
	HalfTied     int // one text preferred in one order, a tie in the other
}

// Add counts one pair of texts by its outcomes in the two orders, each by the position shown.
func (s *Swaps) Add(one, other Outcome) {
	switch {
	case one == Tied && other == Tied, one != other && one != Tied && other != Tied:
		s.Consistent++
	case one == Tied || other == Tied:
		s.HalfTied++
	case one == FirstWins:
		s.AlwaysFirst++
	default:
		s.AlwaysSecond++
	}
}

// Total returns the number of pairs of texts with verdicts in both orders.
func (s Swaps) Total() int {
	return s.Consistent + s.AlwaysFirst + s.AlwaysSecond + s.HalfTied
}

// Flipped returns the share of pairs on which the judge preferred the other text in the other order; 0 without pairs.
func (s Swaps) Flipped() float64 {
	if s.Total() == 0 {
		return 0
	}
	return float64(s.AlwaysFirst+s.AlwaysSecond) / float64(s.Total())
}

// Consistency returns Consistent / Total; 0 without pairs.
func (s Swaps) Consistency() float64 {
	if s.Total() == 0 {
		return 0
	}
	return float64(s.Consistent) / float64(s.Total())
}
