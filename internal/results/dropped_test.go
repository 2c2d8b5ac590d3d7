package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// What a model would not take stays with the call, and is summed for the manifest.
func TestWhatWasNotSent(t *testing.T) {
	t.Parallel()
	for kind, path := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db, e := openStore(t, path(t))
			first, second := verdict(0), verdict(1)
			first.Calls[0].Dropped = []string{"reasoning_effort", "temperature"}
			mustAppend(t, db, e.ID, first, second)
			var kept [][]string
			for index := range 2 {
				for _, call := range mustCollect(t, db.Calls(t.Context(), eval.RunID{Evaluation: e.ID, Phase: 1, Index: index})) {
					kept = append(kept, call.Dropped)
				}
			}
			if diff := cmp.Diff([][]string{{"reasoning_effort", "temperature"}, nil}, kept); diff != "" {
				t.Errorf("of the calls (-want +got):\n%s", diff)
			}
			head, err := manifest(t.Context(), db, e, nil)
			want := []NotSent{{Model: "openai:gpt-5-mini", Fields: []string{"reasoning_effort", "temperature"}, Calls: 1}}
			if diff := cmp.Diff(want, head.NotSent); diff != "" || err != nil {
				t.Errorf("in the manifest: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
