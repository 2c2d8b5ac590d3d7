package providers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUniqueSources(t *testing.T) {
	t.Parallel()
	got := UniqueSources([]Source{{URL: "b"}, {Title: "no address"}, {URL: "a", Title: "A"}, {URL: "b", Title: "B"}, {URL: "b", Title: "later"}, {URL: "a"}})
	want := []Source{{URL: "b", Title: "B"}, {URL: "a", Title: "A"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := UniqueSources([]Source{{}}); got != nil {
		t.Errorf("of none: got %v, want nil", got)
	}
}

// TestTheCauseOfAnErrorIsInItsChain: a worker repeats a call, or waits for a server, because of
// a cause that only the chain has.
func TestTheCauseOfAnErrorIsInItsChain(t *testing.T) {
	t.Parallel()
	var err error = &Error{Class: BadRequest, Err: ErrAgain}
	if !errors.Is(err, ErrAgain) || errors.Is(err, ErrNoServer) {
		t.Error("the cause is not in the chain")
	}
}
