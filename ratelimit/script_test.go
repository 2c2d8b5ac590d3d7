package ratelimit

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// worker sends single scripts, with nothing running beside.
type worker struct {
	*Limiter
	t     testing.TB
	rules *registry
	calls *redis.PubSub
	heard <-chan any // subscriptions and messages
}

// workers are alive and listen. Limits must be registered before.
func workers(t testing.TB, client *redis.Client, names ...string) []*worker {
	t.Helper()
	var all []*worker
	for _, name := range names {
		l := New(client, Config{Worker: name, Lease: time.Hour}) // nothing renews it
		registry, err := l.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := client.Subscribe(t.Context(), l.keys.wake(name))
		t.Cleanup(func() { _ = calls.Close() })
		w := &worker{Limiter: l, t: t, rules: registry, calls: calls, heard: calls.ChannelWithSubscriptions()}
		w.hears("is subscribed")
		all = append(all, w)
	}
	return all
}

// send ends leases and asks for calls under every limit that matches; it
// returns how many of them were admitted. held is what the worker holds beside.
func (w *worker) send(scope Scope, end []string, held int64, ids ...string) int {
	w.t.Helper()
	rules, _ := w.rules.match(scope)
	b := &batch{version: w.rules.version}
	for _, id := range end {
		b.end(append(b.releases, &release{id: id, rules: rules}))
	}
	if len(ids) > 0 {
		var calls []*call
		for _, id := range ids {
			calls = append(calls, &call{Request: Request{ID: id}})
		}
		b.ask(newQueue(rules), calls)
	}
	for i := range b.rules {
		b.rules[i].held = held
	}
	o := mustAdmit(w.t, w.Limiter, b)
	if len(ids) == 0 {
		return 0
	}
	return len(o.groups[0].grants)
}

// mustAdmit sends a batch, again where it did nothing because a busy machine kept it too long
// on its way.
func mustAdmit(t testing.TB, l *Limiter, b *batch) outcome {
	t.Helper()
	o, err := l.admit(t.Context(), b)
	for errors.Is(err, ErrClock) {
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err = l.admit(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// want sends and checks how many were admitted.
func (w *worker) want(want int, scope Scope, end []string, held int64, ids ...string) {
	w.t.Helper()
	if got := w.send(scope, end, held, ids...); got != want {
		w.t.Errorf("worker %s ends %v and asks for %v: %d admitted, want %d", w.cfg.Worker, end, ids, got, want)
	}
}

// called waits for the message that calls the worker.
func (w *worker) called() {
	w.t.Helper()
	if _, ok := w.hears("is called").(*redis.Message); !ok {
		w.t.Errorf("worker %s heard of a subscription, want to be called", w.cfg.Worker)
	}
}

// hears waits for the next subscription or message.
func (w *worker) hears(what string) any {
	w.t.Helper()
	select {
	case m := <-w.heard:
		return m
	case <-testrun.Context(w.t).Done():
		w.t.Fatalf("worker %s waits in vain until it %s", w.cfg.Worker, what)
		return nil
	}
}

func TestScriptOfAnOldRegistryDoesNothing(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		a := workers(t, client, "a")[0]
		register(t, client, "fleet", inFlight(Scope{}, 1))
		rules, _ := a.rules.match(Scope{})
		b := &batch{version: a.rules.version}
		b.ask(newQueue(rules), []*call{{Request: Request{ID: "x"}}})
		if _, err := a.admit(t.Context(), b); !errors.Is(err, errStale) {
			t.Errorf("admit = %v, want errStale", err)
		}
		if n := client.ZCard(t.Context(), "{ef}:s:fleet/concurrency").Val(); n != 0 {
			t.Errorf("%d leases, want 0", n)
		}
	})
}

func TestNobodyBargesBeyondItsShare(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 4))
		all := workers(t, client, "a", "b", "c")
		a, b, c := all[0], all[1], all[2]
		a.want(4, Scope{}, nil, 0, "a1", "a2", "a3", "a4")
		b.want(0, Scope{}, nil, 0, "b1", "b2")
		a.want(0, Scope{}, []string{"a1"}, 3, "a5") // its share is 1 of 4 with two others
		b.called()
		c.want(1, Scope{}, nil, 0, "c1", "c2")                  // within its share: no worker has to wait for b
		b.want(0, Scope{}, nil, 0, "b1", "b2")                  // full
		a.want(1, Scope{}, []string{"a2", "a3"}, 1, "a5", "a6") // its turn: b was called meanwhile
		b.called()
		b.want(1, Scope{}, nil, 0, "b1", "b2")
	})
}

func TestWokenWorkerThatTakesNothingPassesItsTurnOn(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		all := workers(t, client, "a", "b", "c")
		a, b, c := all[0], all[1], all[2]
		a.want(1, Scope{}, nil, 0, "a1")
		b.want(0, Scope{}, nil, 0, "b1")
		c.want(0, Scope{}, nil, 0, "c1")
		a.want(0, Scope{}, []string{"a1"}, 0)
		b.called()
		rules, _ := b.rules.match(Scope{})
		var gone batch // b's call was withdrawn
		gone.touch(rules...)
		mustAdmit(t, b.Limiter, &gone)
		c.called()
		c.want(1, Scope{}, nil, 0, "c1")
	})
}

func TestFrozenWaiterIsPassedOverByTheNext(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		all := workers(t, client, "a", "frozen", "c")
		a, frozen, c := all[0], all[1], all[2]
		a.want(1, Scope{}, nil, 0, "a1")
		frozen.want(0, Scope{}, nil, 0, "b1")
		c.want(0, Scope{}, nil, 0, "c1")
		a.want(0, Scope{}, []string{"a1"}, 0)
		frozen.called()                  // its heartbeat holds and it listens, but it does not come
		c.want(1, Scope{}, nil, 0, "c1") // by its fallback timer
	})
}

func TestDeadAndDeafWaitersArePassedOver(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		all := workers(t, client, "a", "dead", "deaf", "d")
		a, dead, deaf, d := all[0], all[1], all[2], all[3]
		a.want(1, Scope{}, nil, 0, "a1")
		for i, w := range []*worker{dead, deaf, d} {
			w.want(0, Scope{}, nil, 0, string(rune('b'+i)))
		}
		if err := client.ZAdd(t.Context(), "{ef}:alive", redis.Z{Score: 1, Member: "dead"}).Err(); err != nil {
			t.Fatal(err)
		}
		if err := deaf.calls.Unsubscribe(t.Context()); err != nil {
			t.Fatal(err)
		}
		deaf.hears("is unsubscribed")
		a.want(0, Scope{}, []string{"a1"}, 0)
		d.called()
		left := client.ZRange(t.Context(), "{ef}:w:fleet/concurrency", 0, -1).Val()
		if want := []string{"d"}; !slices.Equal(left, want) {
			t.Errorf("in line: %v, want %v", left, want)
		}
		d.want(1, Scope{}, nil, 0, "d1")
	})
}

func TestSlotThatOthersCouldNotUseIsKept(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		capped, free := Scope{Provider: "openai", Evaluation: "ev-a"}, Scope{Provider: "openai", Evaluation: "ev-b"}
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 4))
		register(t, client, "ev-a", inFlight(Scope{Evaluation: "ev-a"}, 1))
		all := workers(t, client, "a", "b")
		a, b := all[0], all[1]
		a.want(1, capped, nil, 0, "capped-1")
		a.want(1, free, nil, 1, "a-1")
		b.want(0, capped, nil, 0, "capped-2")
		b.want(2, free, nil, 0, "b-1", "b-2", "b-3")
		came := func(score float64) {
			t.Helper()
			place := redis.Z{Score: score, Member: "b"}
			if err := client.ZAdd(t.Context(), "{ef}:w:evaluation/ev-a/concurrency", place).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// b waits for both limits: the slot of the evaluation is no use to it
		// while the account is full.
		came(float64(time.Now().Add(time.Hour).UnixMicro())) // on a slow machine, too, it has not waited long
		a.want(1, capped, []string{"capped-1"}, 1, "capped-3")
		// Not for ever.
		came(1)
		a.want(0, capped, []string{"capped-3"}, 1, "capped-4")
		b.called()
	})
}

// On the exact clock: a waiter that leaves the rate idle for a while loses its turn.
func TestRateTurnsGoRound(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := rate(1, time.Hour, 1)
		register(t, client, "fleet", limit)
		all := workers(t, client, "a", "b", "c")
		a, b, c := all[0], all[1], all[2]
		a.want(1, openai, nil, 0, "a1", "a2")
		b.want(0, openai, nil, 0, "b1")
		line := newKeys("ef").waiters(limit.ID())
		if left := client.ZRange(t.Context(), line, 0, -1).Val(); !slices.Equal(left, []string{"a", "b"}) {
			t.Errorf("in line: %v, want a, b", left)
		}
		// An hour later, before anybody could find it idle: the arrival time is
		// moved instead of the clock.
		hourPasses := func() {
			t.Helper()
			now := client.Time(t.Context()).Val()
			arrival := float64(now.UnixMicro())/1e6 - rateEpoch
			if err := client.Set(t.Context(), newKeys("ef").rate(limit.ID()), arrival, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		hourPasses()
		c.want(0, openai, nil, 0, "c1")
		a.want(1, openai, nil, 0, "a2", "a3")
		b.called()
		hourPasses()
		a.want(0, openai, nil, 0, "a3")
		b.want(1, openai, nil, 0, "b1")
		c.called()
	})
}

// Leases that have ended and are still there do not make a limit look full, so
// that a worker would wait before it.
func TestEndedLeasesKeepNobodyInTheLine(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 3))
		a := workers(t, client, "a")[0]
		const leases = "{ef}:s:fleet/concurrency"
		hold := func(id string, until time.Duration) {
			end := float64(time.Now().Add(until).UnixMicro())
			if err := client.ZAdd(t.Context(), leases, redis.Z{Score: end, Member: id}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"x", "y", "z"} {
			hold(id, time.Minute)
		}
		a.want(0, Scope{}, nil, 0, "a1") // is in the wait queue now
		client.ZRem(t.Context(), leases, "y", "z")
		hold("x", -time.Second)

		rules, _ := a.rules.match(Scope{})
		b := &batch{version: a.rules.version}
		b.ask(newQueue(rules), []*call{{Request: Request{ID: "a1"}}, {Request: Request{ID: "a2"}}})
		b.rules[0].stays = true
		o := mustAdmit(t, a.Limiter, b)
		if len(o.groups[0].grants) != 2 || o.waits[0] {
			t.Errorf("%d calls admitted, place kept: %v; want 2, and none kept before a limit with room", len(o.groups[0].grants), o.waits[0])
		}
	})
}
