package call

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestContextSaysWhatEndedACall: an endpoint's error says little, the call's own
// context says why it ended.
func TestContextSaysWhatEndedACall(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("%w: fenced", ratelimit.ErrLost)
	over, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer end()
	because := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	bare := []error{
		context.Canceled, context.DeadlineExceeded, fmt.Errorf("read: %w", context.Canceled), errors.New("connection reset"),
		&providers.Error{Class: providers.Cancelled, Err: context.Canceled, MayBeBilled: true},
	}
	for name, tt := range map[string]struct {
		ctx   context.Context
		errs  []error
		want  providers.Class
		cause error
	}{
		"lease lost":       {because(lost), bare, providers.Cancelled, ratelimit.ErrLost},
		"timeout":          {over, bare, providers.Timeout, context.DeadlineExceeded},
		"worker stopped":   {because(nil), bare, providers.Cancelled, context.Canceled},
		"out of the blue":  {t.Context(), []error{bare[0], bare[2], bare[3], bare[4]}, providers.Transient, nil},
		"its own deadline": {t.Context(), bare[1:2], providers.Timeout, nil},
		"answered":         {because(lost), []error{&providers.Error{Class: providers.Refused, Status: 400}}, providers.Refused, nil},
		"cancelled there":  {t.Context(), []error{&providers.Error{Class: providers.Cancelled, Status: 200}}, providers.Cancelled, nil},
	} {
		for _, err := range tt.errs {
			got := failureOf(tt.ctx, err)
			var failed *providers.Error
			if !errors.As(got, &failed) || failed.Class != tt.want || tt.cause != nil && !errors.Is(got, tt.cause) {
				t.Errorf("%s: got %v for %v, want class %s because of %v", name, got, err, tt.want, tt.cause)
			}
			if failed != nil && failed.Status == 0 && !failed.MayBeBilled {
				t.Errorf("%s: %v is recorded as free", name, err)
			}
		}
	}
	if err := failureOf(because(lost), nil); err != nil {
		t.Errorf("an answer became %v", err)
	}
}
