package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// started is a process of a service that was started with a short lease. Redis has not forgotten
// any call of the service.
func started(t testing.TB, client *redis.Client, name string, limits ...Limit) (l *Limiter, stop func()) {
	t.Helper()
	if err := NewAdmin(client, Config{Namespace: "service/" + name}).Begin(t.Context(), longAgo); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := startService(ctx, client, Service{Name: name, Limits: limits}, shortLease)
	if err != nil {
		t.Fatal(err)
	}
	stop = func() { cancel(); <-l.Ended() }
	t.Cleanup(stop)
	return l, stop
}

// pinned returns the limits that are in force in a service.
func pinned(t testing.TB, client *redis.Client, name string) (limits []string) {
	t.Helper()
	inForce, err := NewAdmin(client, Config{Namespace: "service/" + name}).InForce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range inForce {
		limits = append(limits, limit.String())
	}
	slices.Sort(limits)
	return limits
}

// A service keeps its own limits and no other's: neither another service's of the same scope nor
// those of a fleet in the same Redis.
func TestServicesShareNothing(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		strict, _ := started(t, connect(), "strict", inFlight(Scope{}, 1))
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		lenient, _ := started(t, connect(), "lenient", inFlight(Scope{}, 3))
		acquire := func(l *Limiter) *Lease {
			t.Helper()
			lease, err := l.Acquire(t.Context(), Request{})
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}

		held := []*Lease{acquire(strict), acquire(lenient), acquire(lenient), acquire(lenient)}
		second := make(chan *Lease)
		go func() {
			lease, _ := strict.Acquire(t.Context(), Request{})
			second <- lease
		}()
		testrun.Eventually(t, "a second call of the strict service waits", func() bool { return strict.Waiting() == 1 })
		for _, lease := range held {
			mustRelease(t, lease)
		}
		mustRelease(t, <-second)
	})
}

// A service's limits hold while one process that asks for them lives, and end with the last one,
// also when it dies.
func TestLimitsOfAServiceEndWithIt(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		want := func(when string, limits ...Limit) {
			t.Helper()
			var words []string
			for _, limit := range limits {
				words = append(words, limit.String())
			}
			slices.Sort(words)
			testrun.EventuallyGot(t, when, func() (string, bool) {
				got := pinned(t, client, "s")
				return strings.Join(got, "; "), slices.Equal(got, words)
			})
		}
		two, three := inFlight(Scope{}, 2), inFlight(Scope{Provider: "p"}, 3)
		_, stopFirst := started(t, connect(), "s", two)
		want("with one process", two)
		_, stopSecond := started(t, connect(), "s", two, three)
		want("with two", two, three)
		stopFirst()
		want("the first one has stopped", two, three)
		stopSecond()
		want("both have stopped")

		// One that dies leaves its limits and a heartbeat, which lapses.
		dead := NewAdmin(client, Config{Namespace: "service/s"})
		if err := dead.Register(t.Context(), WorkerHolder("dead"), []Limit{two}); err != nil {
			t.Fatal(err)
		}
		if err := client.ZAdd(t.Context(), "{service/s}:alive", redis.Z{Member: "dead", Score: 1}).Err(); err != nil {
			t.Fatal(err)
		}
		_, stop := started(t, connect(), "s", three)
		want("of one that died and one that lives", three)
		stop()
	})
}

// A Redis that is flushed admits no call beyond a service's limits, and knows them again.
func TestServiceOutlivesAFlush(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		attempt := 0
		testrun.Eventually(t, "a flush outlived by the lease of a call", func() bool {
			attempt++
			return serviceOutlivesAFlush(t, connect, fmt.Sprint("s", attempt))
		})
	})
}

// serviceOutlivesAFlush flushes Redis while a call of a service is in flight. It returns false if the process stood
// still for longer than its lease, so that the call's slot was free.
func serviceOutlivesAFlush(t testing.TB, connect func() *redis.Client, name string) bool {
	client := connect()
	l, stop := started(t, connect(), name, inFlight(Scope{}, 1))
	defer stop()
	held, err := l.Acquire(t.Context(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	stalled := func() bool { return !exact(t) && held.Check() != nil }
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	second := make(chan *Lease, 1)
	go func() {
		lease, _ := l.Acquire(t.Context(), Request{})
		second <- lease
	}()
	testrun.Eventually(t, "the limit is in force again", func() bool {
		return len(pinned(t, client, name)) == 1 || stalled()
	})
	testrun.Eventually(t, "no call is unknown any more", func() bool {
		grace, err := NewAdmin(client, Config{Namespace: "service/" + name}).Grace(t.Context())
		return err == nil && grace <= 0
	})

	longer := shortLease
	if !exact(t) {
		longer = 3 * time.Second // a call that may begin begins at once
	}
	select {
	case lease := <-second:
		if stalled() {
			return false
		}
		t.Fatalf("a second call was admitted beside the first one: %v", lease)
	case <-time.After(longer):
	}
	if stalled() {
		return false
	}

	mustRelease(t, held)
	if lease := <-second; lease == nil {
		t.Error("the second call was not admitted after the first one")
	} else {
		mustRelease(t, lease)
	}
	return true
}

// What cannot be a service is refused at once.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Service{
		`start service "": want a name`:    {},
		`start service "a b": want a name`: {Name: "a b"},
		`start service "{x}": want a name`: {Name: "{x}"},
		"start service s: limit fleet":     {Name: "s", Limits: []Limit{{Kind: Requests, Max: 1}}},
	} {
		if _, err := Start(t.Context(), nil, s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
