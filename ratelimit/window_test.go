package ratelimit

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// tokenServer charges what calls use when they arrive. It knows nothing of the
// limiter.
type tokenServer struct {
	mu       sync.Mutex
	arrivals []charge
}

type charge struct {
	at    time.Time
	units int64
}

func (s *tokenServer) arrive(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, charge{time.Now(), units})
}

// most is the most that it was charged within any window.
func (s *tokenServer) most(window time.Duration) (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum int64
	first := 0
	for _, a := range s.arrivals {
		sum += a.units
		for a.at.Sub(s.arrivals[first].at) >= window {
			sum -= s.arrivals[first].units
			first++
		}
		most = max(most, sum)
	}
	return most
}

func (s *tokenServer) total() (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arrivals {
		sum += a.units
	}
	return sum
}

func tokens(most int64, window, jitter time.Duration) Limit {
	return Limit{
		Scope: Scope{Provider: "openai"}, Kind: Tokens, Max: most, Period: window,
		Window: Window{Shape: Sliding, Length: window}, Jitter: jitter,
	}
}

// spend makes one call of so many tokens, half of them output, and returns how long it waited.
func spend(t testing.TB, l *process, server *tokenServer, reserved, used int64) time.Duration {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), testrun.Deadline(t))
	defer cancel()
	asked := time.Now()
	lease, err := l.Acquire(ctx, Request{ID: newID(), Call: openai, Input: reserved / 2, Output: reserved - reserved/2})
	waited := time.Since(asked)
	if err != nil {
		t.Errorf("Acquire of %d tokens: %v", reserved, err)
		return 0
	}
	if lease.Check() == nil {
		server.arrive(used)
	}
	lease.Settle(Settlement{Used: &Used{Input: used / 2, Output: used - used/2}})
	mustRelease(t, lease)
	return waited
}

func TestTokensOfAWindowAreNeverOver(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		const most, window, jitter = 1000, 500 * time.Millisecond, 100 * time.Millisecond
		register(t, connect(), "fleet", tokens(most, window, jitter))
		server := &tokenServer{}
		began := time.Now()
		var callers sync.WaitGroup
		for i := range 3 {
			p := start(t, connect(), "w"+strconv.Itoa(i))
			for range 4 {
				callers.Go(func() {
					for time.Since(began) < 3*time.Second {
						used := 10 + rand.Int64N(140)
						// The estimate is an upper bound, up to twice what is used.
						spend(t, p, server, used+rand.Int64N(used), used)
					}
				})
			}
		}
		callers.Wait()
		if got := server.most(window); got > most {
			t.Errorf("%d tokens within %s, want at most %d", got, window, most)
		}
		used := float64(server.total()) / (most * time.Since(began).Seconds() / window.Seconds())
		t.Logf("%d calls, at most %d tokens within %s, %.1f %% of the limit used", len(server.arrivals), server.most(window), window, 100*used)
		if exact(t) && used < 0.6 { // 83 % with this jitter and slot, less what the last calls wait
			t.Errorf("%.1f %% of the limit used, want 60 %%", 100*used)
		}
		idle(t, connect())
	})
}

func TestSettlingGivesBackAndTakes(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		window := time.Hour // longer than any machine stands still
		if exact(t) {
			window = time.Minute
		}
		limit := tokens(1000, window, 0)
		register(t, client, "fleet", limit)
		p, server := start(t, connect(), "w"), &tokenServer{}
		inUse := func(limit Limit) int64 {
			usage, err := tools(client).Usage(t.Context())
			if err != nil || len(usage) != 1 {
				t.Fatalf("Usage = %v, %v", usage, err)
			}
			if usage[0].Allowed != 1000 {
				t.Errorf("%d tokens allowed, want 1000", usage[0].Allowed)
			}
			return int64(usage[0].InUse)
		}
		spend(t, p, server, 900, 100)
		if got := inUse(limit); got != 100 {
			t.Errorf("%d tokens in use after 900 were reserved and 100 used, want 100", got)
		}
		spend(t, p, server, 300, 1400)
		if got := inUse(limit); got != 1500 {
			t.Errorf("%d tokens in use after 1,400 more were used, want 1500", got)
		}
		_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: 1, MaxWait: time.Second})
		if refused := refusal(err); refused == nil || refused.Limit != limit.ID() || refused.Wait < window/6*5 {
			t.Errorf("Acquire with a debt = %v, want a refusal of about %s", err, window)
		}
	})
}

func TestChargedReservationIsNotGivenBack(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := tokens(1000, time.Minute, 0)
		limit.Charged = true
		register(t, client, "fleet", limit)
		p, server := start(t, connect(), "w"), &tokenServer{}
		spend(t, p, server, 600, 100)
		_, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: 500, MaxWait: time.Second})
		if refusal(err) == nil {
			t.Errorf("Acquire of 500 after 600 were charged = %v, want a refusal", err)
		}
		mustRelease(t, mustAcquire(t, p, newID(), openai)) // of no tokens
	})
}

// A call of more tokens than the window holds waits for an empty one, starts,
// and leaves a debt.
func TestCallLargerThanItsWindow(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		const window = time.Second
		register(t, connect(), "fleet", tokens(100, window, 0))
		p, server := start(t, connect(), "w"), &tokenServer{}
		spend(t, p, server, 10, 10)
		if waited := spend(t, p, server, 500, 500); waited < window/2 || waited > 2*window {
			t.Errorf("a call of 500 waited %s, want about %s", waited, window)
		}
		if waited := spend(t, p, server, 1, 1); waited < window/2 {
			t.Errorf("the call after it waited %s, want about %s", waited, window)
		}
	})
}

// Small calls that come one after the other do not hold up a large one for ever,
// whether they come from its own process or from another.
func TestLargeCallIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"own", "other"} {
		t.Run(from, func(t *testing.T) {
			timed(t, func(t testing.TB, connect func() *redis.Client) {
				const most, window = 1000, 500 * time.Millisecond
				register(t, connect(), "fleet", tokens(most, window, 0))
				large, server := start(t, connect(), "large"), &tokenServer{}
				small := large
				if from == "other" {
					small = start(t, connect(), "small")
				}
				ctx, cancel := context.WithCancel(t.Context())
				var callers sync.WaitGroup
				defer callers.Wait()
				defer cancel()
				for range 3 { // 600 tokens a window: there is always room for them
					callers.Go(func() {
						for sleep(ctx, 100*time.Millisecond) {
							other := Scope{Provider: "openai", Model: "mini", Evaluation: "ev-b"}
							lease, err := small.Acquire(ctx, Request{ID: newID(), Call: other, Input: 40})
							if err != nil {
								return
							}
							server.arrive(40)
							mustRelease(t, lease)
						}
					})
				}
				time.Sleep(2 * window)
				waited := spend(t, large, server, 950, 950)
				t.Logf("the large call waited %s", waited)
				if exact(t) && (waited < agedAfter/2 || waited > 2*agedAfter) {
					t.Errorf("the large call waited %s, want about %s", waited, agedAfter+window)
				}
			})
		})
	}
}

// A bucket of tokens paces: the next call starts when the one before is paid.
func TestBucketOfTokens(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		limit := Limit{Kind: Tokens, Max: 1000, Period: time.Second, Burst: 200}
		register(t, connect(), "fleet", limit)
		p, server := start(t, connect(), "w"), &tokenServer{}
		began := time.Now()
		for range 10 {
			spend(t, p, server, 200, 200)
		}
		// The first is the burst; the nine after it take 1.8 s.
		if took := time.Since(began); took < 1700*time.Millisecond || exact(t) && took > 2*time.Second {
			t.Errorf("2,000 tokens at 1,000 a second took %s, want about 1.8 s", took)
		}
		// What a call did not use is not given back: the bucket was full since.
		acquire := func() *Lease {
			lease, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: 200})
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		first := acquire()
		time.Sleep(300 * time.Millisecond)
		second := acquire()
		first.Settle(Settlement{Used: &Used{Input: 10}})
		mustRelease(t, first)
		third := acquire()
		if gap := time.Duration(third.startMicros-second.startMicros) * time.Microsecond; gap < 200*time.Millisecond {
			t.Errorf("two calls of 200 began %s apart, want 200ms", gap)
		}
		mustRelease(t, second)
		mustRelease(t, third)
		spend(t, p, server, 100, 600) // a debt of 500
		if waited := spend(t, p, server, 100, 100); exact(t) && waited < 400*time.Millisecond {
			t.Errorf("the call after a debt of 500 tokens waited %s, want about half a second", waited)
		}
	})
}
