package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A process dies with a call in flight, and Redis loses its memory: the call is in no results
// store, and the process that was granted the next call knows that it was reserved. It does not
// forget that while other evaluations are submitted again first, or the same one, whose budget is
// closed, and Redis loses its memory again.
func TestBudgetCountsCallsOfTheDead(t *testing.T) {
	t.Parallel()
	for what, between := range map[string][]string{
		"other evaluations between two losses":   {"ev-b", "ev-c"},
		"the same evaluation between two losses": {"ev-a"},
	} {
		t.Run(what, func(t *testing.T) {
			timed(t, func(t testing.TB, connect func() *redis.Client) { budgetOfTheDead(t, connect, between) })
		})
	}
}

// budgetOfTheDead loses Redis's memory twice after the death of a process. Meanwhile calls of some evaluations are asked
// for. It then wants the budget to count the call of the dead process.
func budgetOfTheDead(t testing.TB, connect func() *redis.Client, between []string) {
	client := connect()
	budget := Budget("ev-a", 10*costly)
	register(t, client, "ev-a", budget)
	if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
		t.Fatal(err)
	}
	dying, wire := faulty(connect())
	a, b := start(t, dying, "a", short), start(t, connect(), "b", short)
	acquire := func(p *process) *Lease {
		lease, err := acquireCosting(t, p, costly)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	for range 3 {
		mustRelease(t, acquire(a))
	}
	acquire(a)
	mustRelease(t, acquire(b))
	wire.set(func() { wire.cut = true })

	flush := func() {
		t.Helper()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testrun.Eventually(t, "two calls are asked for in a grace period", func() bool {
		flush()
		flushed := time.Now()
		for _, other := range between {
			register(t, client, other, Budget(other, 10*costly))
			lease, err := b.Acquire(t.Context(), Request{
				ID: newID(), Call: Scope{Provider: "other", Evaluation: other}, Holders: []string{other}, MaxWait: shortLease / 4,
			})
			if err == nil {
				mustRelease(t, lease)
			}
			if time.Since(flushed) >= shortLease {
				return false // the machine stood still
			}
			if err == nil {
				t.Error("a call begins in the grace period")
			}
		}
		return true
	})
	flush()
	register(t, client, "ev-a", budget)
	testrun.Eventually(t, "the process that lives has reported, and the grace period is over", func() bool {
		lease, err := b.Acquire(t.Context(), Request{ID: newID(), Call: Scope{Provider: "other"}, MaxWait: time.Millisecond})
		if err == nil {
			mustRelease(t, lease)
		}
		return err == nil
	})
	if err := tools(client).TellSpent(t.Context(), "ev-a", "", 4*costly); err != nil { // without the call of the dead
		t.Fatal(err)
	}
	if usage, err := tools(client).Usage(t.Context()); err != nil || len(usage) != 1 || usage[0].Spent != 5*costly {
		t.Errorf("Usage = %+v, %v; want %d spent", usage, err, 5*costly)
	}
}
