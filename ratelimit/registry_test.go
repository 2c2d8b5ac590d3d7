package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestTightestOfAllHoldersIsInForce(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		l := tools(client)
		account, minute := Scope{Provider: "openai"}, rate(60, time.Minute, 1)
		register(t, client, "fleet", inFlight(account, 16), minute)
		register(t, client, "ev-a", inFlight(account, 8), inFlight(Scope{Evaluation: "ev-a"}, 2))
		want := []Limit{inFlight(Scope{Evaluation: "ev-a"}, 2), inFlight(account, 8), minute}
		inForce := func() []Limit {
			t.Helper()
			limits, err := l.InForce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return limits
		}
		if diff := cmp.Diff(want, inForce()); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}

		version := client.HGet(t.Context(), "{ef}:limits", "version").Val()
		register(t, client, "fleet", minute, inFlight(account, 16)) // in another order
		if again := client.HGet(t.Context(), "{ef}:limits", "version").Val(); again != version {
			t.Errorf("pinning the same again made version %s of %s", again, version)
		}

		for range 2 {
			if err := l.Unregister(t.Context(), "ev-a"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]Limit{inFlight(account, 16), minute}, inForce()); diff != "" {
			t.Errorf("in force without the evaluation (-want +got):\n%s", diff)
		}
		register(t, client, "fleet")
		if left := inForce(); len(left) != 0 {
			t.Errorf("in force at the end: %v, want none", left)
		}
	})
}

func TestRegisterRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	l := tools(redistest.New(t).Client())
	for _, holder := range []string{"", "version"} {
		if err := l.Register(t.Context(), holder, []Limit{inFlight(Scope{}, 1)}); err == nil {
			t.Errorf("Register(%q) went through", holder)
		}
	}
	err := l.Register(t.Context(), "fleet", []Limit{inFlight(Scope{}, 0), inFlight(openai, -1)})
	if err == nil || strings.Count(err.Error(), "max") != 2 {
		t.Errorf("Register of two wrong limits = %v, want both named", err)
	}
}

func TestWaitingCallsSeeChangedLimits(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1), rate(1, time.Hour, 1))
		p := start(t, connect(), "w")
		mustAcquire(t, p, newID(), openai)
		got := make(chan *Lease)
		for range 2 {
			go func() { got <- mustAcquire(t, p, newID(), openai) }()
		}
		testrun.Eventually(t, "a call waits for the rate", func() bool { return waiting(t, p.Limiter) == 1 })
		register(t, client, "fleet", inFlight(Scope{}, 2))
		first := <-got
		testrun.Eventually(t, "the other waits for a slot", func() bool { return waiting(t, p.Limiter) == 1 })
		register(t, client, "fleet", inFlight(Scope{}, 3))
		mustRelease(t, <-got)
		// A limit that is new to calls in flight holds for those after them.
		register(t, client, "ev-a", inFlight(Scope{Evaluation: "ev-a"}, 1))
		next := mustAcquire(t, p, newID(), openai)
		waits := make(chan *Lease)
		go func() { waits <- mustAcquire(t, p, newID(), openai) }()
		testrun.Eventually(t, "the evaluation waits", func() bool { return waiting(t, p.Limiter) == 1 })
		mustRelease(t, next)
		mustRelease(t, <-waits)
		mustRelease(t, first)
	})
}

func TestCallsOfOneProcessAreAdmittedInOrder(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		p := start(t, client, "w")
		held := mustAcquire(t, p, newID(), openai)
		var callers sync.WaitGroup
		order := make(chan int, 20)
		for i := range 20 {
			callers.Go(func() {
				lease := mustAcquire(t, p, newID(), openai)
				order <- i
				mustRelease(t, lease)
			})
			testrun.Eventually(t, "the call waits", func() bool { return p.Waiting() == i+1 })
		}
		mustRelease(t, held)
		callers.Wait()
		for want := range 20 {
			if got := <-order; got != want {
				t.Fatalf("call %d came in place %d", got, want)
			}
		}
	})
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	register(t, server.Client(), "fleet", inFlight(Scope{}, 2))
	var log lockedBuffer
	p := start(t, server.Client(), "w", func(c *Config) { c.Lease, c.Log = time.Minute, zerolog.New(&log) })
	held := mustAcquire(t, p, "held", openai)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := p.Acquire(ctx, Request{ID: "too early", Call: openai}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire without Redis = %v, want %v", err, context.DeadlineExceeded)
	}
	if err := held.Check(); err != nil {
		t.Errorf("Check of a running lease without Redis: %v", err)
	}
	got := make(chan *Lease)
	go func() { got <- mustAcquire(t, p, "later", openai) }()
	testrun.Eventually(t, "the outage is logged", func() bool { return log.lines() > 0 })
	server.Start()
	mustRelease(t, <-got)
	mustRelease(t, held)
	if n := log.lines(); n != 1 {
		t.Errorf("%d log lines about one outage, want 1:\n%s", n, log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) lines() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.Bytes(), []byte("\n"))
}

func TestCallsWithoutLimitsHoldLeases(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		p := start(t, client, "w")
		lease := mustAcquire(t, p, "free", openai)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
		if n := client.ZCard(t.Context(), "{ef}:l:w").Val(); n != 1 {
			t.Errorf("the ledger holds %d leases, want 1", n)
		}
		mustRelease(t, lease)
		if n := client.ZCard(t.Context(), "{ef}:l:w").Val(); n != 0 {
			t.Errorf("the ledger holds %d leases after the release, want 0", n)
		}
	})
}
