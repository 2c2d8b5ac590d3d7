package call

import (
	"context"
	"errors"
	"testing"
)

// A lease came, but the evaluation was halted and the worker stops: no call may begin without one.
func TestInterruptedAdmissionIsAnError(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := errors.New("the worker stops")
	stop(stopped)
	if err := (&Calls{}).interrupted(ctx, false, nil); !errors.Is(err, stopped) {
		t.Errorf("got %v, want %v", err, stopped)
	}
	other := errors.New("another")
	if err := (&Calls{}).interrupted(ctx, false, other); !errors.Is(err, other) {
		t.Errorf("got %v, want %v", err, other)
	}
}
