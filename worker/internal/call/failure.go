package call

import (
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/providers"
)

// failureOf returns err as the failure of a call that was made under ctx. Only the context tells why a call ended
// without a response. An endpoint may return the same bare context.Canceled for a lost lease, a timeout or a stop of
// the worker, and for a reason of its own. The latter is a failed connection like any other.
func failureOf(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, providers.ErrAgain) {
		return err
	}
	failed := providers.Error{Class: providers.ClassOf(err), Message: err.Error(), MayBeBilled: true, Err: err}
	var told *providers.Error
	if errors.As(err, &told) {
		if told.Status != 0 {
			return err // the provider's own answer
		}
		failed = *told
	}

	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		failed.Class, failed.Err = providers.Timeout, cause
		failed.Message = "no whole answer within the call's time"
	case cause != nil:
		failed.Class, failed.Err, failed.Message = providers.Cancelled, cause, cause.Error()
	case failed.Class == providers.Cancelled:
		failed.Class = providers.Transient
		failed.Message = "the endpoint gave up on the call: " + failed.Message
	}

	return &failed
}
