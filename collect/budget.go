package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
)

// UnpricedError is returned for an evaluation with a budget when the cost of recorded
// calls is unknown: no budget can be kept over them.
type UnpricedError struct {
	Evaluation eval.ID
	Calls      int
}

func (e *UnpricedError) Error() string {
	return fmt.Sprintf("the cost of %d recorded calls of %s is unknown", e.Calls, e.Evaluation)
}

// Spent returns what an evaluation with a budget has spent by its results store, in
// nano-USD; 0 without a budget, or without a results store yet (nil). The error is an
// *UnpricedError when that is unknown.
func Spent(ctx context.Context, id eval.ID, s record.Settings, sink results.Reader) (int64, error) {
	if s.Budget() == 0 || sink == nil {
		return 0, nil
	}
	return spent(ctx, id, sink)
}

func spent(ctx context.Context, id eval.ID, sink results.Reader) (int64, error) {
	nano, unknown, err := sink.Spent(ctx, id)
	if err == nil && unknown > 0 {
		err = &UnpricedError{id, unknown}
	}
	return nano, err
}

// Restore opens the budget of an evaluation and the daily quotas after Redis has lost what was
// used of them. They count on from the results store once drain has moved what waits in Redis,
// the budget from least, in nano-USD, if that is more. Restore waits for the end of the
// limiter's grace period, in which no evaluation's calls begin, because a call that ended as the
// memory was lost may not be recorded yet.
func Restore(ctx context.Context, limits *ratelimit.Admin, id eval.ID, s record.Settings, sink results.Reader, least int64, drain func(context.Context) error) error {
	closed, unsure, err := toRestore(ctx, limits, id, s)
	if err != nil || !closed && !unsure {
		return err
	}
	for {
		grace, err := limits.Grace(ctx)
		if err != nil {
			return err
		}
		if grace <= 0 {
			break
		}
		if err := pause(ctx, grace); err != nil {
			return err
		}
	}
	if err := drain(ctx); err != nil {
		return err
	}
	if unsure {
		if err := seed(ctx, limits, sink); err != nil {
			return err
		}
	}
	if !closed {
		return nil
	}
	nano, err := spent(ctx, id, sink)
	if err != nil {
		return err
	}
	return limits.TellSpent(ctx, string(id), max(nano, least))
}

// toRestore reports whether the budget of an evaluation is closed, and whether Redis may not
// know every call under a daily quota.
func toRestore(ctx context.Context, limits *ratelimit.Admin, id eval.ID, s record.Settings) (closed, unsure bool, err error) {
	if s.Budget() > 0 {
		if closed, err = budgetClosed(ctx, limits, id); err != nil {
			return false, false, err
		}
	}
	unsure, err = limits.Unsure(ctx)
	return closed, unsure, err
}

// budgetClosed reports whether Redis does not know the amount spent of an evaluation's budget,
// so that no call begins.
func budgetClosed(ctx context.Context, limits *ratelimit.Admin, id eval.ID) (bool, error) {
	usage, err := limits.Usage(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(usage, func(u ratelimit.Usage) bool {
		return u.Limit.Kind == ratelimit.Cost && u.Limit.Evaluation == string(id) && u.Closed
	}), nil
}

// seed tells the daily quotas that Redis may not remember which calls of today a results store
// has. The quota of a group counts all of them.
func seed(ctx context.Context, limits *ratelimit.Admin, sink results.Reader) error {
	return limits.Reseed(ctx, sink.ID(), func(quota ratelimit.Scope, from, to time.Time, without []string) (n int64, err error) {
		begun, err := sink.CallsBegun(ctx, from, to, without)
		for target, calls := range begun {
			provider, model, _ := strings.Cut(target, ":")
			if (quota.Provider == "" || quota.Provider == provider) && (quota.Model == "" || quota.Model == model) {
				n += calls
			}
		}
		return n, err
	})
}
