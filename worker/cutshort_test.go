package worker

import (
	"context"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// TestACutOffAnswerIsNotAskedForAgain: under the same bound it would be cut off
// again, and paid for again. The run says what to raise. A refusal keeps the
// provider's reason.
func TestACutOffAnswerIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		result providers.Result
		class  providers.Class
		says   string
	}{
		{
			"cut off within the JSON", providers.Result{Text: `{"winner_doc_id":"a`, Finish: providers.FinishTruncated, Usage: providers.Usage{Reported: true, Input: 9, Output: 64}},
			providers.Malformed, "the answer was cut off at 64 tokens; raise max_completion_tokens",
		},
		{
			"cut off while it reasoned", providers.Result{Finish: providers.FinishTruncated, Reason: "model_context_window_exceeded"},
			providers.Malformed, "the answer was cut off at its end; raise max_completion_tokens (model_context_window_exceeded)",
		},
		{
			"refused", providers.Result{Text: "No.", Finish: providers.FinishRefused, Reason: "bio: This request was declined."},
			providers.Refused, "the model refused to answer: bio: This request was declined.",
		},
		{"refused without a reason", providers.Result{Finish: providers.FinishRefused}, providers.Refused, "the model refused to answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, &fakeProvider{answer: func(context.Context, int, *providers.Request) (*providers.Result, error) {
				result := test.result
				return &result, nil
			}})
			b.submit(2)
			defer b.start(b.config())()
			b.wait()
			runs, calls := b.outcomes()
			if len(calls) != len(runs) {
				t.Errorf("%d calls were made for %d runs, want one each", len(calls), len(runs))
			}
			for _, ends := range runs {
				run := ends[0]
				if run.Class != test.class || !strings.HasSuffix(run.Error, test.says) {
					t.Errorf("run ended as %s: %q, want %s: %q", run.Class, run.Error, test.class, test.says)
				}
			}
		})
	}
}
