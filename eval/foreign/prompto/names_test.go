package prompto

import (
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// The classes and finishes by which outcomes are written are those that calls end with.
func TestNamesAreThoseOfProviders(t *testing.T) {
	t.Parallel()
	for class := range exceptions {
		if !slices.Contains(providers.Classes, providers.Class(class)) {
			t.Errorf("no call fails with %q", class)
		}
	}
	for finish := range finishReasons {
		if !slices.Contains([]providers.Finish{providers.FinishStop, providers.FinishTruncated}, providers.Finish(finish)) {
			t.Errorf("no answer of use ends with %q", finish)
		}
	}
}
