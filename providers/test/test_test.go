package test

import (
	"context"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

func TestCall(t *testing.T) {
	t.Parallel()
	const calls = 1000
	for _, test := range []struct {
		name        string
		extra       map[string]any
		least, most int // failures
		cancelled   bool
	}{
		{"it is to fail", map[string]any{"raise_error": "True"}, calls, calls, false},
		{"it is to fail, in another word", map[string]any{"raise_error": "yes", "raise_error_type": "ValueError"}, calls, calls, false},
		{"it is to answer, in another word", map[string]any{"raise_error": "no", "raise_error_type": "Exception"}, 0, 0, false},
		{"it is to fail, as YAML says it", map[string]any{"raise_error": true}, calls, calls, false},
		{"it is to answer", map[string]any{"raise_error": "False"}, 0, 0, false},
		{"it is to answer, as YAML says it", map[string]any{"raise_error": false}, 0, 0, false},
		{"nothing is said", nil, calls / 8, calls / 3, false},
		{"something else is said", map[string]any{"raise_error": "true"}, calls / 8, calls / 3, false},
		{"no one waits", map[string]any{"raise_error": "False"}, calls, calls, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if test.cancelled {
			cancel()
		}
		failures := 0
		for range calls {
			result, err := Provider{}.Call(ctx, &providers.Request{Model: "m", Extra: test.extra})
			want := providers.BadRequest
			if test.cancelled {
				want = providers.Cancelled
			}
			switch {
			case err == nil && result.Text == "This is a test response" && result.Model == "m" && result.Finish == providers.FinishStop:
			case err != nil && providers.ClassOf(err) == want && (test.cancelled || err.Error() == "bad_request: This is a test error which we should handle and return"):
				failures++
			default:
				t.Fatalf("%s: got %+v, %v", test.name, result, err)
			}
		}
		cancel()
		if failures < test.least || failures > test.most {
			t.Errorf("%s: %d of %d calls failed, want %d to %d", test.name, failures, calls, test.least, test.most)
		}
	}
}

// A transient failure is retried.
func TestFailuresThatMayPass(t *testing.T) {
	t.Parallel()
	req := &providers.Request{Extra: map[string]any{"raise_error": "True", "raise_error_type": "Exception"}}
	_, err := Provider{}.Call(t.Context(), req)
	if class := providers.ClassOf(err); !class.Retryable() || !strings.HasSuffix(err.Error(), Failure) {
		t.Errorf("got %v, want a failure of a class that is retried", err)
	}
}

// Evidence is there exactly where it is asked for.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		req := &providers.Request{Search: asked, Reason: asked, Extra: map[string]any{"raise_error": false}}
		result, err := Provider{}.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if result.Grounding.Evident() != asked || (result.Reasoning != "") != asked {
			t.Errorf("asked %t: got searches %+v and reasoning %q", asked, result.Grounding, result.Reasoning)
		}
	}
}
