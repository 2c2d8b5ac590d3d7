package eval

import "testing"

// TestDecidedWithoutAJudge: identical texts tie, and a text that fails a gate loses to one that passes, ties with one
// that fails, and a check that is no gate decides nothing.
func TestDecidedWithoutAJudge(t *testing.T) {
	t.Parallel()
	e := &Evaluation{Checks: []Check{{Name: "polite"}, {Name: "json", Gate: true}}}
	document := func(id, hash string, failed ...int) Document {
		d := Document{ID: id, Hash: hash}
		for _, k := range failed {
			d.Failed = append(d.Failed, FailedCheck{Check: k})
		}
		return d
	}
	good, rude := document("good", "1"), document("rude", "2", 0)
	prose, both, copied := document("prose", "3", 1), document("both", "4", 0, 1), document("copied", "1")
	for _, c := range []struct {
		first, second  Document
		winner, reason string
	}{
		{good, rude, "", ""},
		{good, copied, Tie, "identical"},
		{good, prose, "good", "gate: json"},
		{both, rude, "rude", "gate: json"},
		{prose, both, Tie, "gates: both fail"},
	} {
		winner, reason, ok := e.Decided(c.first, c.second)
		if winner != c.winner || reason != c.reason || ok != (c.winner != "") {
			t.Errorf("%s and %s: %q, %q, %v; want %q, %q", c.first.ID, c.second.ID, winner, reason, ok, c.winner, c.reason)
		}
	}
}

// TestFailedChecksAreNoIdentity: what is checked is part of the identity; which texts fail follows from it.
func TestFailedChecksAreNoIdentity(t *testing.T) {
	t.Parallel()
	of := func(checks []Check, failed []FailedCheck) ID {
		e := &Evaluation{Items: []Item{{}}, Documents: []Document{{ID: "a", Hash: "1", Failed: failed}}, Checks: checks}
		e.Normalize()
		id := e.ID()
		if failed != nil && e.Documents[0].Failed == nil {
			t.Error("ID forgets which checks failed")
		}
		return id
	}
	checks := []Check{{Name: "short", Kind: CheckMaxWords, Value: "9"}}
	if plain, failed := of(checks, nil), of(checks, []FailedCheck{{0, "10 words"}}); plain != failed {
		t.Errorf("a failed check makes %s of %s", failed, plain)
	}
	if of(checks, nil) == of(nil, nil) {
		t.Error("a check does not change the id")
	}
}
