package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func adaptive(scope Scope, most int64) Limit {
	return Limit{Scope: scope, Kind: Concurrency, Max: most, Adaptive: true}
}

// adapting is a fleet of processes under limits that adapt.
type adapting struct {
	t         testing.TB
	client    *redis.Client
	processes []*process
}

func adapt(t testing.TB, connect func() *redis.Client, processes int, limits ...Limit) *adapting {
	a := &adapting{t: t, client: connect()}
	register(t, a.client, "fleet", limits...)
	for i := range processes {
		a.processes = append(a.processes, start(t, connect(), fmt.Sprintf("w%d", i)))
	}
	return a
}

// begin starts so many calls, spread over the processes.
func (a *adapting) begin(calls int) []*Lease {
	a.t.Helper()
	var leases []*Lease
	for i := range calls {
		leases = append(leases, mustAcquire(a.t, a.processes[i%len(a.processes)], newID(), openai))
	}
	return leases
}

func (a *adapting) end(leases []*Lease, went func(*Lease)) {
	a.t.Helper()
	for _, lease := range leases {
		went(lease)
		mustRelease(a.t, lease)
	}
}

func answered(e *Lease) { e.Settle(Settlement{Answered: true}) }
func refused(e *Lease)  { e.Settle(Settlement{Refused: true}) }
func failed(*Lease)     {}

// allows checks what the limits in force are.
func (a *adapting) allows(want ...int64) {
	a.t.Helper()
	limits, err := tools(a.client).InForce(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	var got []int64
	for _, l := range limits {
		got = append(got, l.Max)
	}
	if d := cmp.Diff(want, got); d != "" {
		a.t.Errorf("limits in force (-want +got):\n%s", d)
	}
}

// full checks that no call is admitted.
func (a *adapting) full() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 100*time.Millisecond)
	defer cancel()
	if lease, err := a.processes[0].Acquire(ctx, Request{ID: newID(), Call: openai}); err == nil {
		a.t.Errorf("%s was admitted to a limit that is used up", lease.ID())
	}
}

// TestCutOnce: of what many processes meet at once, a limit is cut once.
func TestCutOnce(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		a := adapt(t, connect, 3, adaptive(Scope{Provider: "openai"}, 20))
		calls := a.begin(20)
		a.end(calls[:12], refused)
		a.allows(14)
		rest := a.begin(6) // beside the 8 that are left
		a.full()
		a.end(calls[8:], refused) // those of before, and some again
		a.allows(14)
		a.end(rest[:1], refused)
		a.allows(4) // seven tenths of the 6 that were in flight
		a.end(rest[1:], refused)
		a.allows(4)
		a.end(a.begin(1), refused) // it was alone
		a.allows(4)
		a.end(a.begin(4), failed)
		a.allows(4)
	})
}

// TestGrowsWhenUsedUp: a round of answers is worth one call more, if no room was
// left meanwhile.
func TestGrowsWhenUsedUp(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		a := adapt(t, connect, 2, adaptive(Scope{Provider: "openai"}, 10))
		a.end(a.begin(10), answered)
		a.allows(10)
		before := a.begin(8)
		a.end(before[:1], refused)
		a.allows(5)
		a.end(before[1:3], answered)
		a.end(before[3:], answered) // of before the cut
		a.allows(5)

		for range 3 {
			a.end(a.begin(4), answered) // never used up
		}
		a.allows(5)

		a.round(5)
		a.allows(6)
		a.round(6)
		a.allows(7)
		a.round(6)
		a.allows(7)
		for allowed := int64(7); allowed < 10; allowed++ {
			a.round(int(allowed))
		}
		a.allows(10)
		calls := a.begin(10)
		a.full()
		a.end(calls, answered)
		a.allows(10)
		if n, err := a.client.Exists(t.Context(), newKeys("ef").cut("provider/openai/concurrency")).Result(); n > 0 || err != nil {
			t.Errorf("%d keys of a limit that is at its cap, %v", n, err)
		}
	})
}

// round has so many calls answered, each while another takes the last lease.
func (a *adapting) round(calls int) {
	a.t.Helper()
	limits, err := tools(a.client).InForce(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	inFlight := a.begin(int(limits[0].Max))
	for range calls {
		a.end(inFlight[:1], answered)
		inFlight = append(inFlight[1:], a.begin(1)...)
	}
	a.end(inFlight, failed)
}

// TestGreatCapGrowsFaster: the way back to a great cap is no longer than that to a
// small one.
func TestGreatCapGrowsFaster(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := adapt(t, func() *redis.Client { return server.Client() }, 1, adaptive(Scope{Provider: "openai"}, 500))
	calls := a.begin(10)
	a.end(calls[:1], refused)
	a.end(calls[1:], failed)
	a.allows(7)
	a.round(7)
	a.allows(17)
}

// TestGrowsToItsCap: and no further, whatever waits.
func TestGrowsToItsCap(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := adapt(t, func() *redis.Client { return server.Client() }, 1, adaptive(Scope{Provider: "openai"}, 101))
	err := a.client.HSet(t.Context(), newKeys("ef").cut("provider/openai/concurrency"), "max", 100, "cut", 1, "answered", 99).Err()
	if err != nil {
		t.Fatal(err)
	}
	calls := a.begin(100)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := load(ctx, t, a.processes[0], 4, openai, func() time.Duration { <-ctx.Done(); return 0 })
	testrun.Eventually(t, "calls wait", func() bool { return a.processes[0].Waiting() == 4 })
	a.end(calls[:1], answered)
	testrun.Eventually(t, "two are admitted", func() bool { return a.processes[0].Waiting() == 2 })
	a.full()
	cancel()
	waiting.Wait()
	a.end(calls[1:], failed)
}

// TestCutOfTheNarrowest: what a provider refuses of one model says nothing of its
// others, and a limit that it names by its kind is not one of calls in flight.
func TestCutOfTheNarrowest(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	model := Scope{Provider: "openai", Model: openai.Model}
	a := adapt(t, func() *redis.Client { return server.Client() }, 1,
		adaptive(Scope{Provider: "openai"}, 20), adaptive(model, 10),
		Limit{Scope: model, Kind: Requests, Max: 1000, Period: time.Second, Burst: 1000})
	a.end(a.begin(10), func(e *Lease) { e.Settle(Settlement{Refused: true, Exceeded: Requests}) })
	a.allows(20, 10, 1000)
	a.end(a.begin(10), func(e *Lease) { e.Settle(Settlement{Refused: true, Exceeded: Tokens}) })
	a.allows(20, 7, 1000)
	a.end(a.begin(7), func(e *Lease) { e.Settle(Settlement{Refused: true, Exceeded: Concurrency}) })
	a.allows(20, 4, 1000)
}

// TestClosedIsNotCut: a limit of none admits none, also when what it admitted before
// is refused; what it was cut to before it was closed holds afterwards.
func TestClosedIsNotCut(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		scope := Scope{Evaluation: openai.Evaluation}
		a := adapt(t, connect, 1, adaptive(scope, 10))
		before := a.begin(10)
		a.end(before[:1], refused)
		a.allows(7)
		now := before[4:7]
		a.end(before[1:4], answered)
		a.end(before[7:], answered)
		now = append(now, a.begin(3)...) // of after the cut
		if err := tools(a.client).Close(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		callers := load(ctx, t, a.processes[0], 4, openai, func() time.Duration {
			t.Error("a closed limit has admitted a call")
			return 0
		})
		testrun.Eventually(t, "the process knows that the limit is closed", func() bool { return waiting(t, a.processes[0].Limiter) == 1 })
		a.end(now, refused)
		cancel()
		callers.Wait()
		a.allows(0)
		if err := openAll(t.Context(), tools(a.client), scope); err != nil {
			t.Fatal(err)
		}
		a.allows(7)
	})
}

// TestCutIsShown: with the cap, and since when.
func TestCutIsShown(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := adapt(t, func() *redis.Client { return server.Client() }, 1, adaptive(Scope{Provider: "openai"}, 10))
	began := time.Now()
	calls := a.begin(10)
	a.end(calls[:1], refused)
	usage, err := tools(a.client).Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := usage[0]
	if u.Limit.Max != 7 || u.Allowed != 7 || u.Cap != 10 || u.InUse != 9 {
		t.Errorf("%d in use of %d, cap %d, limit %s; want 9 of 7, cap 10", u.InUse, u.Allowed, u.Cap, u.Limit)
	}
	if u.Cut.Before(began.Add(-time.Second)) || u.Cut.After(time.Now().Add(time.Second)) {
		t.Errorf("cut at %s, want now, %s", u.Cut, began)
	}
	a.end(calls[1:], failed)
}

// TestCutEnds: a cut that no worker renews is forgotten, and never applies to workers that did
// not ask for it.
func TestCutEnds(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	a := adapt(t, func() *redis.Client {
		client := redis.NewClient(redistest.Patient(&redis.Options{Addr: server.Addr()}))
		t.Cleanup(func() { _ = client.Close() })
		return client
	}, 1, adaptive(Scope{Provider: "openai"}, 10))
	a.end(a.begin(10), refused)
	a.allows(7)

	register(t, a.client, "fleet", inFlight(Scope{Provider: "openai"}, 10))
	a.allows(10)
	a.end(a.begin(10), failed)
	register(t, a.client, "ev-a", adaptive(Scope{Provider: "openai"}, 30))
	a.allows(7)

	key := newKeys("ef").cut("provider/openai/concurrency")
	for _, way := range []func(*Lease){answered, refused} {
		server.SetTTL(key, time.Minute)
		a.end(a.begin(7), way)
		if left := server.TTL(key); left != time.Hour {
			t.Errorf("a cut is forgotten in %s, want an hour", left)
		}
	}
	server.SetTTL(key, time.Minute)
	server.FastForward(time.Minute)
	a.allows(10)
	a.end(a.begin(10), answered)
	a.allows(10)
}
