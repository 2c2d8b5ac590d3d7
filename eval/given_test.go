package eval

import "testing"

// The names of files are not part of an evaluation's identity; the verdicts in them are.
func TestIdentityOfGivenVerdicts(t *testing.T) {
	t.Parallel()
	id := func(given *Given) ID {
		e := Evaluation{Name: "n", Given: given}
		return e.ID()
	}
	plain := id(&Given{Hash: "a", PairRuns: 1})
	e := Evaluation{Name: "n", Given: &Given{Hash: "a", PairRuns: 1, Files: []GivenFile{{Name: "x.csv"}}}}
	if e.ID() != plain || len(e.Given.Files) != 1 {
		t.Errorf("the name of a file changes the id, or is gone: %+v", e.Given)
	}
	for name, other := range map[string]*Given{"no verdicts": nil, "others": {Hash: "b", PairRuns: 1}, "separate": {Hash: "a", PairRuns: 1, Separate: true}} {
		if id(other) == plain {
			t.Errorf("%s: the same id", name)
		}
	}
}
