package rank

import (
	"errors"
	"testing"
)

func TestFromObservedRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Observed){
		"a judge beyond the last":     func(o *Observed) { o.Judge = 1 },
		"a judge below 0":             func(o *Observed) { o.Judge = -1 },
		"a candidate beyond the last": func(o *Observed) { o.Second = 2 },
		"a candidate below 0":         func(o *Observed) { o.First = -1 },
		"a candidate and itself":      func(o *Observed) { o.Second = o.First },
		"a negative count":            func(o *Observed) { o.Ties = -1; o.FirstWins = 3 },
	} {
		bad := game(0, 0, 1, FirstWins)
		spoil(&bad)
		if _, err := FromObserved(2, 1, []Observed{game(0, 1, 0, Tied), bad}, Options{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := FromObserved(MaxCandidates+1, 1, nil, Options{}); !errors.Is(err, ErrTooManyCandidates) {
		t.Errorf("too many: %v, want %v", err, ErrTooManyCandidates)
	}
	fit, err := FromObserved(2, 1, []Observed{{First: 0, Second: 1}, game(0, 0, 1, Tied)}, Options{})
	if err != nil || fit.Games(0) != 1 {
		t.Errorf("an observation of nothing: %+v, %v", fit, err)
	}
}
