package eval

import "testing"

// What an evaluation has grown from is part of its identity, and the rankings before it are not.
func TestHistoryIsNoPartOfTheIdentity(t *testing.T) {
	t.Parallel()
	e := Evaluation{Name: "board", Board: &Board{Evaluation: "ev-a"}}
	id := e.ID()
	e.Board.History = []Standing{{Evaluation: "ev-0", Ranks: []RankedName{{Candidate: "a", Rank: 1, Low: 1, High: 1}}}}
	if e.ID() != id || e.StoredID() != id {
		t.Error("the history changes the identity")
	}
	if !e.Grew("ev-0") || !e.Grew("ev-a") || e.Grew("ev-b") || (&Evaluation{}).Grew("ev-a") {
		t.Error("an evaluation has grown from others than it names")
	}
	e.Board = &Board{Evaluation: "ev-b"}
	if e.ID() == id {
		t.Error("another ranking that it has grown from is the same evaluation")
	}
}
