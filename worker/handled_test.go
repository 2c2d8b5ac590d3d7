package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// handled starts a worker for one run and returns what it tells of it when it lets it
// go first.
func handled(t *testing.T, answer func(context.Context, int, *providers.Request) (*providers.Result, error),
	change ...func(*eval.Evaluation, map[string]string, *record.Settings)) observe.Handled {
	t.Helper()
	b := setup(t, &fakeProvider{answer: answer})
	b.submit(2, append(change, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Pairwise.Order = eval.OrderAsListed
	})...)
	cfg := b.config()
	told := make(chan observe.Handled, 100)
	cfg.Slots, cfg.Observer.Handled = 1, func(h observe.Handled) { told <- h }
	defer b.start(cfg)()
	select {
	case h := <-told:
		return h
	case <-testrun.Context(t).Done():
		t.Fatal("nothing was told of any run")
		return observe.Handled{}
	}
}

func eventNames(h observe.Handled) (names []string) {
	for _, e := range h.Events {
		names = append(names, e.Event)
	}
	return names
}

// A run that was recorded is told with its outcome, every event and every call.
func TestHandledRecorded(t *testing.T) {
	t.Parallel()
	h := handled(t, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			return nil, &providers.Error{Class: providers.Transient, Status: 503, Message: "busy"}
		}
		result, err := firstWins(ctx, n, request)
		if err == nil {
			result.Model = "m-2026"
		}
		return result, err
	})
	if h.Run == nil || h.Run.State != "succeeded" || h.Run.Attempts != 2 || h.Why != "" || h.Worker == "" || h.Task.Model != "p:m" || h.Queue != "p" {
		t.Errorf("got %+v of %s in %s, %q; want the outcome of a run that succeeded by its second call", h.Run, h.Task.Model, h.Queue, h.Why)
	}
	want := []string{
		observe.EventStarted, observe.EventQueueing, observe.EventAcquired, observe.EventReleased, observe.EventRetry, observe.EventQueueing, observe.EventAcquired, observe.EventReleased, observe.EventSucceeded,
	}
	if diff := cmp.Diff(want, eventNames(h)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(h.Calls) != 2 || h.Calls[0].Class != providers.Transient || h.Calls[1].Class != "" || h.Calls[1].Named != "m-2026" {
		t.Fatalf("calls: got %+v, want one that failed and one that the model m-2026 answered", h.Calls)
	}
	in := []time.Time{h.Began, h.First, h.Calls[0].Started, h.Calls[1].Ended, h.Ended}
	for i := range in[1:] {
		if in[i+1].Before(in[i]) {
			t.Errorf("times are out of order: %v", in)
		}
	}
}

// A run that goes back to its queue is told without an outcome, with why and for how
// long.
func TestHandledGivenBack(t *testing.T) {
	t.Parallel()
	h := handled(t, func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return nil, &providers.Error{Class: providers.RateLimited, Status: 429, RetryAfter: time.Minute, Message: "too many"}
	})
	if h.Run != nil || h.Why != string(providers.RateLimited) || h.Delay < 55*time.Second || len(h.Calls) != 1 {
		t.Errorf("got %+v, %q, %s and %d calls; want one call, and the run back for a minute as rate_limited", h.Run, h.Why, h.Delay, len(h.Calls))
	}
}

// Every event of a retry says which attempt failed, also of one that the run is not
// charged for.
func TestRetriesSayTheirAttempt(t *testing.T) {
	t.Parallel()
	refusals := []*providers.Error{
		{Class: providers.RateLimited, Status: 429, RetryAfter: time.Millisecond}, {Class: providers.Transient, Status: 503},
		{Class: providers.RateLimited, Status: 429, RetryAfter: time.Millisecond},
	}
	for name, tweak := range map[string]func(*eval.Evaluation, map[string]string, *record.Settings){
		"retries": func(*eval.Evaluation, map[string]string, *record.Settings) {},
		"retries before a fallback": func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
			s.Fallback = &record.Fallback{Models: []string{"p:other"}, AutoWait: true, MaxRetries: 3, Base: 2, After429: time.Millisecond}
		},
	} {
		h := handled(t, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
			if n <= len(refusals) && request.Model == "m" {
				return nil, refusals[n-1]
			}
			return firstWins(ctx, n, request)
		}, tweak)
		var attempts []int
		for _, e := range h.Events {
			if e.Event == observe.EventRetry {
				attempts = append(attempts, e.Attempt)
			}
		}
		if len(attempts) == 0 || attempts[0] != 1 || slices.Contains(attempts, 0) || !slices.IsSorted(attempts) {
			t.Errorf("%s: attempts %v, want the number of each attempt that failed", name, attempts)
		}
	}
}

// A wait that the run makes instead of asking another model is an event of its own.
func TestHandledWaits(t *testing.T) {
	t.Parallel()
	h := handled(t, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			return nil, &providers.Error{Class: providers.RateLimited, Status: 429, Message: "too many"}
		}
		return firstWins(ctx, n, request)
	}, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Fallback = &record.Fallback{Models: []string{"p:other"}, AutoWait: true, MaxRetries: 3, Base: 2, After429: 10 * time.Millisecond}
	})
	if h.Run == nil || h.Run.RateLimitWaits == 0 || h.Run.AnsweredBy != "p:m" {
		t.Fatalf("outcome: got %+v, want one after a wait", h.Run)
	}
	var delays []float64
	for _, e := range h.Events {
		if e.Event == observe.EventRateLimitWait && e.Model == "m" {
			delays = append(delays, e.DelayS)
		}
	}
	if len(delays) != h.Run.RateLimitWaits || delays[0] != 0.01 {
		t.Errorf("waits of %v s are told in %v, want those %d that the outcome counts, the first of 10 ms", delays, eventNames(h), h.Run.RateLimitWaits)
	}
}
