package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// UnpricedError means that an evaluation has a budget and recorded calls of unknown cost, so no
// budget can be kept.
type UnpricedError struct {
	Evaluation eval.ID
	Calls      int
}

func (e *UnpricedError) Error() string {
	return fmt.Sprintf(
		"the cost of %s of %s is unknown: there was no price when they were made", wording.Counted(e.Calls, "recorded call"),
		e.Evaluation,
	)
}

// Spent returns what an evaluation with a budget has spent according to its results store, in
// nano-USD. It is 0 without a budget, or if reader is nil because there is no results store yet. The
// error is an *UnpricedError if the amount is unknown.
func Spent(ctx context.Context, id eval.ID, s record.Settings, reader results.Reader) (int64, error) {
	if s.Budget() == 0 || reader == nil {
		return 0, nil
	}
	return spent(ctx, id, reader)
}

// spent sums the cost of an evaluation's calls, except for those in without.
func spent(ctx context.Context, id eval.ID, reader results.Reader, without ...string) (int64, error) {
	nano, unknown, err := reader.Spent(ctx, id, without...)
	if err == nil && unknown > 0 {
		err = &UnpricedError{id, unknown}
	}
	return nano, err
}

// Unrecorded is what a process knows of calls that its results store may lack, because they were in
// flight when an earlier process was killed. The zero value means no calls.
type Unrecorded struct {
	Spent int64 // nano-USD: at least so much of the budget is spent
	// Begun is like results.Reader.CallsBegun, for calls that the store lacks; nil: none.
	Begun func(from, to time.Time, without []string) map[string]int64
}

// Restoration restores the used amounts of an evaluation's budget, and of daily quotas.
type Restoration struct {
	Store      *store.Store
	Limits     *ratelimit.Admin
	Evaluation eval.ID
	Budget     bool // the evaluation has a budget, and has not ended
	Results    results.Reader
	Unrecorded Unrecorded
	Log        zerolog.Logger
	Drain      func(context.Context) error // moves what waits in Redis to Results
}

// Restore opens the budget and the daily quotas after Redis has lost all or part of their used
// amounts. They continue from the results store, once Drain has moved what waits in Redis to it,
// and from what Unrecorded says.
//
// A call that ended before the loss may be missing there, because Redis has lost its record as
// well, or did not have it yet. So Restore waits until every live worker has recorded again what it
// knows. It also waits for the end of the limiter's grace period, in which no evaluation's calls
// begin.
func (r Restoration) Restore(ctx context.Context) error {
	for {
		err := r.inOneMemory(ctx)
		if !errors.Is(err, ratelimit.ErrMemory) {
			return err
		}
	}
}

// inOneMemory restores while the limits have one memory. It returns ratelimit.ErrMemory if another
// has begun meanwhile.
func (r Restoration) inOneMemory(ctx context.Context) error {
	id := string(r.Evaluation)
	closed, unsure, err := toRestore(ctx, r.Limits, r.Evaluation, r.Budget)
	if err != nil || !closed && !unsure {
		return err
	}

	memory, err := r.awaitRecords(ctx)
	if err != nil {
		return err
	}
	if err := r.Drain(ctx); err != nil {
		return err
	}
	if unsure {
		if err := seed(ctx, r.Limits, memory, r.Results, r.Unrecorded); err != nil {
			return err
		}
	}
	if !closed {
		return nil
	}

	_, counted, err := r.Limits.Untold(ctx, id)
	if err != nil {
		return err
	}
	nano, err := spent(ctx, r.Evaluation, r.Results, counted...)
	if err != nil {
		return err
	}
	return r.Limits.TellSpent(ctx, id, memory, max(nano, r.Unrecorded.Spent))
}

// Intervals at which to ask workers whether they have recorded again what Redis has lost, and Redis
// whether the grace period is over. A worker of an earlier release does not tell; it gets tellTime
// after the grace period.
const (
	askWorkers = 200 * time.Millisecond
	tellTime   = 5 * time.Second
)

var askGrace = time.Second // tests ask more often

// awaitRecords waits until the limiter's grace period is over and every live worker has recorded
// again what it knew when the limiter's memory began. It drains what is recorded meanwhile, and
// returns the name of that memory.
func (r Restoration) awaitRecords(ctx context.Context) (memory string, err error) {
	if err := r.Limits.Remember(ctx); err != nil {
		return "", err
	}
	began, said := time.Time{}, false // the wait for workers in the current memory
	for before := ""; ; {
		memory, grace, err := r.Limits.Memory(ctx)
		if err != nil {
			return "", err
		}
		if memory != before || grace > 0 {
			before, began = memory, time.Now()
		}
		if grace > 0 {
			// Redis's clock may be set, or another memory may begin, at any time.
			if err := outage.Pause(ctx, min(grace, askGrace)); err != nil {
				return "", err
			}
			continue
		}

		late, silent, err := unrecorded(ctx, r.Store, r.Limits, memory, "")
		if err != nil {
			return "", err
		}
		waited := time.Since(began)
		if len(late) == 0 && (silent == 0 || waited >= tellTime) {
			return memory, nil
		}
		if waited >= tellTime && !said {
			said = true
			r.Log.Warn().Strs("workers", late).Msg("budgets and daily quotas stay closed until these workers have recorded " +
				"again what redis has lost")
		}
		if err := r.Drain(ctx); err != nil {
			return "", err
		}
		if err := outage.Pause(ctx, askWorkers); err != nil {
			return "", err
		}
	}
}

// unrecorded returns the live workers that have not recorded again what they knew when a memory of
// the limits began. It includes workers that keep something of evaluation id ("": of none) which
// they have not found in Redis. silent counts the workers that do not tell.
func unrecorded(
	ctx context.Context, s *store.Store, limits *ratelimit.Admin, memory string, id eval.ID,
) (late []string, silent int, err error) {
	beats, err := limits.Beats(ctx)
	if errors.Is(err, ratelimit.ErrClock) {
		return []string{"all"}, 0, nil // live workers are unknown until each has renewed its heartbeat
	}
	if err != nil {
		return nil, 0, err
	}

	var live []string
	for worker, left := range beats {
		if left > 0 {
			live = append(live, worker)
		}
	}

	told, err := s.Told(ctx, live)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(live)
	for _, worker := range live {
		switch of := told[worker]; {
		case of.Recorded == nil:
			silent++
		case of.Lease > 0 && beats[worker] > of.Lease+time.Second: // not renewed since the clock was set
		case *of.Recorded != memory, id != "" && slices.Contains(of.Lost, id):
			late = append(late, worker)
		}
	}

	return late, silent, nil
}

// budgeted reports whether an evaluation has a budget that its calls must keep.
func budgeted(r record.Evaluation) bool {
	return r.Settings.Budget() > 0 && r.Status != record.StatusDone && r.Status != record.StatusCancelled
}

// toRestore reports what a results store must tell Redis after a loss: closed, if the evaluation's
// budget is closed until it is told what was spent; unsure, if Redis may have forgotten calls of
// today under a daily quota. budget says whether the evaluation has a budget.
func toRestore(ctx context.Context, limits *ratelimit.Admin, id eval.ID, budget bool) (closed, unsure bool, err error) {
	if budget {
		if closed, _, err = limits.Untold(ctx, string(id)); err != nil {
			return false, false, err
		}
	}
	unsure, err = limits.Unsure(ctx)
	return closed, unsure, err
}

// seed tells Redis how many calls were made today, for the daily quotas that it may have forgotten.
// The calls are those in a results store and in more. The quota of a group counts all of them.
func seed(ctx context.Context, limits *ratelimit.Admin, memory string, reader results.Reader, more Unrecorded) error {
	count := func(quota ratelimit.Scope, from, to time.Time, without []string) (n int64, knows bool, err error) {
		begun, err := reader.CallsBegun(ctx, from, to, without)
		if err == nil {
			knows, err = reader.CalledBefore(ctx, to)
		}
		if err != nil {
			return 0, false, err
		}

		if more.Begun != nil { // no other runs use these quotas
			knows = true
			for target, calls := range more.Begun(from, to, without) {
				begun[target] += calls
			}
		}

		for target, calls := range begun {
			provider, model, _ := strings.Cut(target, ":")
			counts := ratelimit.Scope{Provider: quota.Provider, Model: quota.Model}
			if counts.Matches(ratelimit.Scope{Provider: provider, Model: model}) {
				n += calls
			}
		}
		return n, knows, nil
	}
	return limits.Reseed(ctx, reader.ID(), memory, count)
}
