package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
)

// TestRecordedAgainAfterAnOlderCopy: Redis restarts from a copy that lacks the last writes, and no
// look finds it away. What was recorded since, and calls of unfinished runs, are recorded again,
// although nothing in the copy waits for a results store.
func TestRecordedAgainAfterAnOlderCopy(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins}, "--appendonly", "yes", "--appendfsync", "always")
	b.submit(3)
	r, err := b.store.Evaluation(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	k := ledger.New(b.store, nil)
	look := func() {
		t.Helper()
		if err := k.Look(t.Context(), "memory", nil, func(eval.ID) {}); err != nil {
			t.Fatal(err)
		}
	}
	older := b.server.Copy()
	run := record.Run{Index: 1, Kind: eval.KindPairwise, Queue: "p", Winner: "d000.md"}
	outcome := encoded(t, b.id, run, record.Call{ID: "of an outcome"})
	done, err := b.store.Put(t.Context(), outcome)
	if err != nil {
		t.Fatal(err)
	}
	k.Put(outcome, r.Created, done.Entry)
	calls := []record.Call{{ID: "of a run in progress"}}
	entry, err := b.store.AppendCalls(t.Context(), b.id, calls)
	if err != nil {
		t.Fatal(err)
	}
	k.PutCalls(b.id, calls, r.Created, entry)
	look()
	if outcomes, _ := k.Kept(); outcomes != 2 {
		t.Fatalf("%d outcomes and calls are kept before a results store has them, want 2", outcomes)
	}

	b.server.Kill()
	if !b.server.Revert(older) {
		t.Fatal("the copy cannot be used")
	}
	b.server.Start()
	testrun.Eventually(t, "Redis is back", func() bool { return b.store.Client().Ping(t.Context()).Err() == nil })
	for range 2 {
		look()
		runs, calls := b.outcomes()
		if len(runs[1]) != 1 || len(calls) != 2 {
			t.Errorf("%d outcomes of the run and %d calls are recorded, want 1 and 2", len(runs[1]), len(calls))
		}
	}
	b.store.Client().XTrimMaxLen(t.Context(), b.store.Keys().Results(b.id), 0)
	look()
	if outcomes, _ := k.Kept(); outcomes != 0 {
		t.Errorf("%d outcomes and calls are kept after a results store has them", outcomes)
	}
}

// TestCallsOfUnfinishedRunsAreStored: a call that failed is in Redis while its run waits for the
// next one, and while that is in flight, without a budget or a quota; the next record of the run
// does not repeat it.
func TestCallsOfUnfinishedRunsAreStored(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			return nil, &providers.Error{Class: providers.Overloaded, Message: "busy", Status: 503}
		}
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(2, atMost(1))
	defer b.start(b.config())()
	testrun.Eventually(t, "the first call is stored", func() bool {
		_, calls := b.outcomes()
		return len(calls) == 1
	})
	close(seen)
	b.wait()
	b.wantEachOnce()
	made, _ := b.provider.count()
	if _, calls := b.outcomes(); len(calls) != made {
		t.Errorf("%d calls are stored, want each of %d once", len(calls), made)
	}
}

// TestCallUnderAQuotaIsStoredBeforeTheNext: what a call has used of a budget or of a daily quota is
// in Redis before the run's next call begins.
func TestCallUnderAQuotaIsStoredBeforeTheNext(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(eval.ID) ratelimit.Limit{
		"budget": func(id eval.ID) ratelimit.Limit { return ratelimit.Budget(string(id), 1000*ratelimit.Dollar) },
		"quota": func(eval.ID) ratelimit.Limit {
			return ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: 100, Resets: "UTC"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *bench
			var failed sync.Map // runs whose first call has failed
			stored := make(chan bool, 10)
			b = setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				run, _, _ := strings.Cut(request.IdempotencyID, "-")
				if _, again := failed.LoadOrStore(run, true); !again {
					return nil, &providers.Error{Class: providers.Overloaded, Message: "busy", Status: 503}
				}
				entries, err := b.store.Client().XRange(ctx, b.store.Keys().Results(b.id), "-", "+").Result()
				stored <- err == nil && strings.Contains(fmt.Sprint(entries), `"id":"`+run+"-")
				return firstWins(ctx, n, request)
			}})
			b.submit(2, atMost(1), func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Retry.InitialDelay, s.Retry.MaxDelay = time.Millisecond, time.Millisecond
				e.Normalize()
				s.Limits = append(s.Limits, limit(e.ID()))
			})
			limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
			if err := limits.TellSpent(t.Context(), string(b.id), "", 0); err != nil {
				t.Fatal(err)
			}
			defer b.start(b.config())()
			b.wait()
			for range b.runs {
				if !<-stored {
					t.Error("the first call of a run is not stored as the second begins")
				}
			}
		})
	}
}

// TestLedgerTellsWhenAllIsRecorded: the ledger names a memory of the limits only once Redis has
// every call that ended, or was ending, before the memory began.
func TestLedgerTellsWhenAllIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3)
	k := ledger.New(b.store, nil)
	look := func(memory, want string, stored int) {
		t.Helper()
		if err := k.Look(t.Context(), memory, nil, func(eval.ID) {}); err != nil {
			t.Fatal(err)
		}
		if got := k.Recorded(); got != want {
			t.Errorf("all is recorded for memory %q, want %q", got, want)
		}
		if _, calls := b.outcomes(); len(calls) != stored {
			t.Errorf("%d calls are stored, want %d", len(calls), stored)
		}
	}
	look("first", "first", 0)
	k.Owe(b.id, record.Call{ID: "ended"})
	kept := k.Ending()
	look("second", "", 1)
	k.Owe(b.id, record.Call{ID: "ending"})
	kept()
	look("second", "second", 2)
	defer k.Ending()() // the limits have counted it in the memory of now
	look("second", "second", 2)
	look("", "", 2)
}
