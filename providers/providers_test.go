package providers

import (
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
