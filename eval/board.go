package eval

import "time"

// Board says which ranking an evaluation has grown from.
type Board struct {
	// Evaluation is the one whose candidates and pairs this one repeats.
	Evaluation ID `json:"evaluation"`
	// History has the rankings before this one, oldest first. It is not part of the identity.
	History []Standing `json:"history,omitempty"`
}

// Standing is a ranking as it was when an evaluation had ended.
type Standing struct {
	Evaluation ID           `json:"evaluation"`
	Ended      time.Time    `json:"ended"`
	Newcomers  []string     `json:"newcomers,omitempty"` // candidates that this evaluation added; none: it began the ranking
	Ranks      []RankedName `json:"ranks"`               // best first
	Calls      int          `json:"calls"`               // made for them
	CostUSD    *float64     `json:"cost_usd"`            // of the calls; nil: unknown
}

// RankedName is a candidate's rank, and the ranks that it may have.
type RankedName struct {
	Candidate string `json:"candidate"`
	Rank      int    `json:"rank"`
	Low       int    `json:"rank_low"`
	High      int    `json:"rank_high"`
}

// Grew reports whether the evaluation repeats the pairs of an earlier one, directly or through others.
func (e *Evaluation) Grew(from ID) bool {
	if e.Board == nil {
		return false
	}
	for _, standing := range e.Board.History {
		if standing.Evaluation == from {
			return true
		}
	}
	return e.Board.Evaluation == from
}
