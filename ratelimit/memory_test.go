package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Redis forgets everything while calls are in flight: they are told to it again
// before anybody else is admitted.
func TestLeasesSurviveAFlush(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	server := redistest.New(t)
	client := server.Client()
	limit := inFlight(Scope{}, 4)
	register(t, client, "fleet", limit)
	a, b := start(t, server.Client(), "a", short), start(t, server.Client(), "b", short)
	seen := &provider{most: 4}
	var calls sync.WaitGroup
	for range 3 {
		lease := mustAcquire(t, a, newID(), openai)
		calls.Go(func() { use(t, lease, 2*shortLease, seen); mustRelease(t, lease) })
	}
	flushed := time.Now()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	register(t, client, "fleet", limit)
	c := start(t, server.Client(), "c", short) // that knew nothing of before
	for _, p := range []*process{b, c, c, b} {
		calls.Go(func() {
			lease := mustAcquire(t, p, newID(), openai)
			if since := time.Since(flushed); since < shortLease-100*time.Millisecond {
				t.Errorf("a call was admitted %s after the flush, want none within a lease", since)
			}
			use(t, lease, 50*time.Millisecond, seen)
			mustRelease(t, lease)
		})
	}
	calls.Wait()
	seen.verify(t)
	if seen.calls != 7 {
		t.Errorf("%d calls, want 7: none was given up", seen.calls)
	}
	idle(t, client)
}

// A worker may renew its leases before anybody has noticed that Redis has
// forgotten them.
func TestRenewalRightAfterAFlush(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 4))
		p := start(t, connect(), "w")
		lease := mustAcquire(t, p, newID(), openai)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := lease.Check(); err != nil {
			t.Errorf("Check of a lease that was renewed right after a flush: %v", err)
		}
		if held := client.ZCard(t.Context(), "{ef}:s:fleet/concurrency").Val(); held != 1 {
			t.Errorf("%d leases in Redis, want 1", held)
		}
		mustRelease(t, lease)
	})
}

// A server that comes back as another is not trusted to know everything, though
// it kept its memory.
func TestRestartedServerBeginsAnEpoch(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	connect := func() *redis.Client {
		return server.Client(func(o *redis.Options) { o.OnConnect = OnConnect("ef", shortLease) })
	}
	client := connect()
	register(t, client, "fleet", inFlight(Scope{}, 2), Limit{Kind: Requests, Max: 1, Period: time.Second, Burst: 100})
	a := start(t, connect(), "a")
	lease := mustAcquire(t, a, newID(), openai)
	epoch := client.HGet(t.Context(), "{ef}:limits", "epoch").Val()
	server.Kill()
	began := time.Now()
	server.Start()
	// The client of the test is the first to come, and asks for something else.
	testrun.Eventually(t, "redis is back", func() bool { return client.Ping(t.Context()).Err() == nil })
	if now := client.HGet(t.Context(), "{ef}:limits", "epoch").Val(); now == epoch {
		t.Error("the epoch in force is still that of the server before")
	}
	second := mustAcquire(t, a, newID(), openai)
	if since := time.Since(began); since < shortLease-500*time.Millisecond {
		t.Errorf("a call was admitted %s after the restart, want none within a lease", since)
	}
	if err := lease.Check(); err != nil && !errors.Is(err, ErrLost) {
		t.Errorf("Check = %v", err)
	} else if err != nil {
		t.Errorf("the lease of before was lost: %v", err)
	}
	mustRelease(t, second)
	mustRelease(t, lease)
}

// Rates and windows that Redis does not remember count as used up, and a quota as closed until
// it is seeded.
func TestForgottenLimitsBeginUsedUp(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	server := redistest.New(t)
	client := server.Client()
	pace := Limit{Scope: Scope{Model: "paced"}, Kind: Requests, Max: 1, Period: time.Minute, Burst: 5}
	window := tokens(100, time.Minute, 0)
	window.Scope = Scope{Model: "windowed"}
	quota := Limit{Scope: Scope{Model: "daily"}, Kind: Requests, Max: 10, Resets: "UTC"}
	limits := []Limit{pace, window, quota}
	began := time.Now()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	register(t, client, "fleet", limits...)
	p := start(t, server.Client(), "w", short)
	lease := mustAcquire(t, p, newID(), Scope{Model: "free"})
	if since := time.Since(began); since < shortLease-200*time.Millisecond {
		t.Errorf("a call was admitted after %s, want none within a lease", since)
	}
	mustRelease(t, lease)
	refused := func(model string) time.Duration {
		lease, err := p.Acquire(t.Context(), Request{ID: newID(), Call: Scope{Model: model}, Input: 1, MaxWait: time.Millisecond})
		if err == nil {
			mustRelease(t, lease)
			return 0
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("Acquire for %s: %v", model, err)
		}
		return refusal.Wait
	}
	if wait := refused("paced"); wait < 10*time.Second || wait > time.Minute {
		t.Errorf("a rate of 1 a minute with a burst of 5 admits in %s, want the rest of one interval", wait)
	}
	if wait := refused("windowed"); wait < 10*time.Second || wait > 65*time.Second {
		t.Errorf("a window of a minute admits in %s, want its rest", wait)
	}
	if refused("daily") == 0 {
		t.Error("a quota that Redis does not remember admitted a call")
	}
	usage, err := tools(p.client).Usage(t.Context())
	if err != nil || len(usage) != 3 || usage[0].InUse != 10 || usage[0].Wait <= 0 {
		t.Errorf("Usage = %+v, %v; want the quota used up", usage, err)
	}
	tell := func(who string, used int64) {
		if err := tools(p.client).Seed(t.Context(), who, quota, used); err != nil {
			t.Fatal(err)
		}
	}
	tell("ev-a", 6)
	tell("ev-b", 2)
	tell("ev-a", 7) // replaces what it told
	if wait := refused("daily"); wait != 0 {
		t.Errorf("a quota of 10 with 9 used admits in %s, want at once", wait)
	}
	if refused("daily") == 0 {
		t.Error("a quota of 10 admitted an eleventh call")
	}
	if err := tools(p.client).Seed(t.Context(), "ev-a", pace, 1); err == nil {
		t.Error("Seed of a rate = nil, want an error")
	}
}

// A call whose process is gone counts until it has surely ended, when asked for
// so, and only until its lease ends otherwise.
func TestHeldCallsCountUntilTheirLatestEnd(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 2))
		client, wire := faulty(connect())
		a, b := start(t, client, "a", short), start(t, connect(), "b")
		const latest = 3 * shortLease
		began := time.Now()
		for id, hold := range map[string]bool{"held": true, "free": false} {
			if _, err := a.Acquire(t.Context(), Request{ID: id, Call: openai, LatestEnd: latest, Hold: hold}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(shortLease) // renewed meanwhile
		wire.set(func() { wire.cut = true })
		first := mustAcquire(t, b, newID(), openai)
		if since := time.Since(began); exact(t) && since > latest-shortLease/2 {
			t.Errorf("the free slot came back after %s, want about %s", since, 2*shortLease)
		}
		second := mustAcquire(t, b, newID(), openai)
		if since := time.Since(began); since < latest {
			t.Errorf("the held slot came back after %s, want at least %s", since, latest)
		}
		mustRelease(t, first)
		mustRelease(t, second)
	})
}

// The caller is asked what a quota's earlier calls used, and only for a quota that Redis does
// not remember.
func TestReseed(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		quota := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 3, Resets: "UTC"}
		if err := client.Del(t.Context(), "{ef}:limits").Err(); err != nil {
			t.Fatal(err)
		}
		l := tools(client)
		if err := l.Begin(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		register(t, client, "fleet", quota)
		p := start(t, connect(), "w")
		asked := 0
		reseed := func() {
			err := l.Reseed(t.Context(), "ev-a", "", func(of Scope, from, to time.Time, _ []string) (int64, bool, error) {
				asked++
				if of != quota.Scope || !from.Before(to) || to.After(time.Now()) {
					t.Errorf("asked for the calls of %+v from %s to %s", of, from, to)
				}
				return 2, true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond}); err == nil {
			t.Error("a forgotten quota admitted a call")
		}
		reseed()
		reseed()
		mustRelease(t, mustAcquire(t, p, newID(), openai))
		reseed() // what was counted since stays
		if _, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Millisecond}); err == nil {
			t.Error("a quota of 3 admitted a fourth call")
		}
		if asked != 3 {
			t.Errorf("asked %d times for what was used, want 3", asked)
		}
		if err := p.stop(); err != nil { // it would see that the registry was deleted
			t.Fatal(err)
		}
		counted := quota
		counted.Scope = Scope{Provider: "other"}
		if err := client.Del(t.Context(), "{ef}:limits").Err(); err != nil {
			t.Fatal(err)
		}
		if err := l.Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		register(t, client, "fleet", counted)
		asked = 0
		reseed()
		if asked != 0 {
			t.Error("asked for what was used of a quota that Redis remembers")
		}
	})
}

// said is a server that says so of itself.
type said string

func (s said) Info(context.Context, ...string) *redis.StringCmd {
	return redis.NewStringResult(string(s), nil)
}

// A server counts the seconds on the clock that it has seen, so that one of a
// moment ago may say 1: leases that it does not know may then be newer.
func TestServerHasBeenUpAtLeast(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"run_id:a\r\nuptime_in_seconds:0\r\n": 0, "run_id:a\r\nuptime_in_seconds:1\r\n": 0,
		"run_id:a\r\nuptime_in_seconds:9\r\n": 8 * time.Second, "run_id:a\r\n": longAgo,
	} {
		if run, up, err := server(t.Context(), said(text)); run != "a" || up != want || err != nil {
			t.Errorf("of %q: %q up %s, %v; want a up %s", text, run, up, err, want)
		}
	}
}

// A Redis that reads back an older copy of itself answers LOADING for a while. A
// connection opened then must not carry a script under the epoch of before: the copy
// lacks the leases that were granted since.
func TestConnectionOpenedWhileRedisLoads(t *testing.T) {
	t.Parallel()
	// Loading takes 25 s, unless it is hurried.
	server := redistest.New(t, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
	plain := server.Client()
	register(t, plain, "fleet", inFlight(Scope{}, 2))
	pipe := plain.Pipeline()
	for i := range 2500 {
		pipe.Set(t.Context(), fmt.Sprintf("weight-%d", i), strings.Repeat("x", 100), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	epoch := plain.HGet(t.Context(), "{ef}:limits", "epoch").Val()
	if err := plain.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	client := server.Client(func(o *redis.Options) {
		o.OnConnect, o.MaxRetries, o.PoolSize = OnConnect("ef", shortLease), -1, 1
	})
	loading := make(chan bool)
	go func() {
		defer close(loading)
		for err := errCut; err != nil && t.Context().Err() == nil; {
			if err = client.Ping(t.Context()).Err(); redis.IsLoadingError(err) {
				if err := plain.ConfigSet(t.Context(), "key-load-delay", "0").Err(); err != nil {
					t.Errorf("hurry the server: %v", err)
				}
				loading <- true
				return
			}
		}
	}()
	server.Start()
	if !<-loading {
		t.Fatal("the server was never seen loading")
	}
	testrun.Eventually(t, "the connection carries a script", func() bool {
		return tools(client).Register(t.Context(), "another", []Limit{inFlight(Scope{Provider: "p"}, 1)}) == nil
	})
	known := plain.HGetAll(t.Context(), "{ef}:limits").Val()
	since, _ := strconv.ParseInt(known["since"], 10, 64)
	blind, _ := strconv.ParseInt(known["blind"], 10, 64)
	if known["epoch"] == epoch || time.Duration(blind-since)*time.Microsecond != shortLease {
		t.Errorf("registry %v after epoch %s: want another, in which nothing is admitted for %s", known, epoch, shortLease)
	}
}

// Leases are renewed although Redis has no memory left for anything else: the calls under them continue and end.
func TestAFullRedisRenewsLeases(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	register(t, client, "fleet", inFlight(Scope{}, 4))
	p := start(t, client, "w")
	lease := mustAcquire(t, p, newID(), openai)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), "other", "x", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	if err := p.renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := lease.Check(); err != nil {
		t.Errorf("Check of a lease that was renewed: %v", err)
	}
	mustRelease(t, lease)
}

// A renewal that tells a new epoch of a lease may reach Redis after the release of the
// same lease, in the epoch before or in the new one: the lease ends all the same, and has
// cost what its call cost.
func TestRenewalThatArrivesAfterTheRelease(t *testing.T) {
	for _, released := range []string{"before the loss", "after it"} {
		t.Run("released "+released, func(t *testing.T) {
			everywhere(t, func(t testing.TB, connect func() *redis.Client) {
				client := connect()
				limits := func() {
					register(t, client, "fleet", inFlight(Scope{}, 4))
					register(t, client, "ev-a", Budget("ev-a", 10*costly))
					if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
						t.Fatal(err)
					}
				}
				limits()
				p := start(t, connect(), "w")
				lease, err := acquireCosting(t, p, costly)
				if err != nil {
					t.Fatal(err)
				}
				p.mu.Lock()
				before := p.epoch
				p.mu.Unlock()
				lease.Settle(Settlement{Used: &Used{Cost: 1}})
				if released == "before the loss" {
					mustRelease(t, lease)
				} else {
					if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
						t.Fatal(err)
					}
					limits()
				}
				blind := time.Now().Add(time.Minute).UnixMicro()
				if err := client.HSet(t.Context(), "{ef}:limits", "epoch", "another", "blind", blind).Err(); err != nil {
					t.Fatal(err)
				}
				if released == "after it" {
					mustRelease(t, lease)
				}
				if _, err := p.renewSome(t.Context(), before, false, []*Lease{lease}, nil); err != nil {
					t.Fatal(err)
				}
				testrun.EventuallyGot(t, "nothing is held or reserved", func() (string, bool) {
					usage, err := tools(client).Usage(t.Context())
					if err != nil || len(usage) != 2 {
						return fmt.Sprint(usage, err), false
					}
					held := client.ZCard(t.Context(), "{ef}:l:w").Val()
					return fmt.Sprintf("%+v, %d in the ledger", usage, held), usage[0].InUse == 0 && usage[1].InUse == 0 && usage[0].Spent+usage[1].Spent == 1 && held == 0
				})
			})
		})
	}
}

// The limiter's keys are deleted while a call is in flight, in a Redis that says that it has
// been up for long. No call is admitted beside it before it is known again, whichever worker
// notices first.
func TestLeasesSurviveDeletedKeys(t *testing.T) {
	testrun.Slow(t)
	for name, first := range map[string]int{"a process that knew of before is first": 0, "another is first": 1} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t testing.TB, connect func() *redis.Client) {
				client := connect()
				limit := inFlight(Scope{}, 1)
				register(t, client, "fleet", limit)
				if err := client.HSet(t.Context(), "{ef}:limits", "epoch", "before", "since", time.Now().UnixMicro(), "blind", 0).Err(); err != nil {
					t.Fatal(err)
				}
				a := start(t, connect(), "a", short)
				lease := mustAcquire(t, a, newID(), openai)
				deleted := time.Now() // or a little later
				if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
					t.Fatal(err)
				}
				register(t, client, "fleet", limit)
				processes := []*process{a, start(t, connect(), "b", short)}
				if first == 1 { // it believes the server
					if err := processes[1].beginWith(t.Context(), client, laterEpoch, client.HGet(t.Context(), "{ef}:limits", "run").Val(), longAgo, shortLease, ""); err != nil {
						t.Fatal(err)
					}
				}
				mustRelease(t, lease)
				for _, p := range processes {
					mustRelease(t, mustAcquire(t, p, newID(), openai))
					if since := time.Since(deleted); since < shortLease-100*time.Millisecond {
						t.Errorf("a call was admitted %s after the keys were deleted, want none within a lease", since)
					}
				}
			})
		})
	}
}
