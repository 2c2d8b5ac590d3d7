package rank

// Swaps compares a judge's verdicts on the same two texts in both orders
// (position consistency; Zheng et al. 2023, "Judging LLM-as-a-Judge").
type Swaps struct {
	Consistent   int // the same text preferred both times, or tied both times
	AlwaysFirst  int // the one shown first preferred both times
	AlwaysSecond int // the one shown second preferred both times
	HalfTied     int // one text preferred in one order, a tie in the other
}

// Add counts one pair of texts by its outcomes in the two orders.
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

// Total is the number of pairs of texts asked about in both orders.
func (s Swaps) Total() int {
	return s.Consistent + s.AlwaysFirst + s.AlwaysSecond + s.HalfTied
}

// Flipped is the share of pairs on which another text was preferred in the other order; 0 without pairs.
func (s Swaps) Flipped() float64 {
	if s.Total() == 0 {
		return 0
	}
	return float64(s.AlwaysFirst+s.AlwaysSecond) / float64(s.Total())
}

// Consistency is Consistent / Total; 0 without pairs.
func (s Swaps) Consistency() float64 {
	if s.Total() == 0 {
		return 0
	}
	return float64(s.Consistent) / float64(s.Total())
}
