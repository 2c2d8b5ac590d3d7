package worker

import (
	"context"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// TestTheBodyOfAnUnusableAnswerIsKept: what a provider sent with a status of success says what
// its message does not.
func TestTheBodyOfAnUnusableAnswerIsKept(t *testing.T) {
	t.Parallel()
	const body = `{"base_resp":{"status_code":1000,"status_msg":"unknown error"},"choices":null}`
	b := setup(t, &fakeProvider{answer: func(_ context.Context, _ int, _ *providers.Request) (*providers.Result, error) {
		return nil, &providers.Error{Class: providers.BadRequest, Status: 200, Message: "unknown error", Raw: []byte(body)}
	}})
	b.submit(2)
	t.Cleanup(b.start(b.config()))
	b.wait()
	_, calls := b.outcomes()
	for _, call := range calls {
		if call.Text != body || call.Class != providers.BadRequest {
			t.Errorf("call %s: kept %q of class %s, want the body", call.ID, call.Text, call.Class)
		}
	}
	if len(calls) == 0 {
		t.Error("no call is recorded")
	}
}
