package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// inForce waits until the registry holds a number of limits.
func (b *bench) inForce(what string, want int) []ratelimit.Limit {
	b.t.Helper()
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	var limits []ratelimit.Limit
	testrun.EventuallyGot(b.t, what, func() (string, bool) {
		var err error
		limits, err = limiter.InForce(b.t.Context())
		return fmt.Sprintf("%v in force, %v; want %d", limits, err, want), err == nil && len(limits) == want
	})
	return limits
}

// The limits of one worker's configuration hold for another that has none, and
// for as long as the one lives.
func TestConfiguredLimitsHoldForEveryWorker(t *testing.T) {
	t.Parallel()
	var once sync.Once
	three := make(chan struct{}) // closed when three calls are in flight
	provider := &fakeProvider{}
	provider.answer = func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n >= 3 {
			once.Do(func() { close(three) })
		}
		select {
		case <-three:
		case <-ctx.Done():
		}
		return after(20*time.Millisecond, firstWins)(ctx, n, request)
	}
	b := setup(t, provider)
	limited := b.brief() // it notices a flush when it renews
	limited.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 3}}
	stop := b.start(limited)
	b.inForce("the worker has pinned its limit", 1)
	defer b.start(b.config())()
	b.submit(9)
	b.wait()
	b.wantEachOnce()
	if _, most := provider.count(); most != 3 {
		t.Errorf("%d calls in flight at most, want 3", most)
	}
	if err := b.store.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b.inForce("it is pinned again after a flush", 1)
	stop()
	if limits, err := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}).InForce(t.Context()); err != nil || len(limits) != 0 {
		t.Errorf("once its worker has ended %v are in force, %v; want none", limits, err)
	}
}

// A worker whose own limits Redis has lost begins no call without them.
func TestConfiguredLimitsThatWereLost(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: after(50*time.Millisecond, firstWins)}
	b := setup(t, provider)
	b.submit(5) // 20 runs
	cfg := b.config()
	cfg.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 1}}
	defer b.start(cfg)()
	b.reach(2)
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	holders, err := limiter.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(holders, func(holder string) bool { _, ok := ratelimit.PinnedBy(holder); return ok })
	if err := limiter.Unregister(t.Context(), holders[i]); err != nil {
		t.Fatal(err)
	}
	testrun.Eventually(t, "no call is in flight", func() bool {
		provider.mu.Lock()
		defer provider.mu.Unlock()
		return provider.inFlight == 0
	})
	if err := limiter.Register(t.Context(), holders[i], cfg.Limits); err != nil {
		t.Fatal(err)
	}
	b.wait()
	if _, most := provider.count(); most != 1 {
		t.Errorf("%d calls in flight at most, want 1", most)
	}
}

// What dead workers pinned goes, whether or not a heartbeat tells of them; what
// living ones and evaluations pinned stays.
func TestLimitsOfDeadWorkersGo(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	client := store.Universal(b.store)
	limiter := ratelimit.NewAdmin(client, ratelimit.Config{})
	pin := func(holder, provider string) {
		t.Helper()
		limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider}, Kind: ratelimit.Concurrency, Max: 3}
		if err := limiter.Register(t.Context(), holder, []ratelimit.Limit{limit}); err != nil {
			t.Fatal(err)
		}
	}
	pin(ratelimit.WorkerHolder("forgotten"), "a")
	pin(ratelimit.WorkerHolder("lapsed"), "b")
	pin("ev-abcdefgh2345", "c")
	lapsed := redis.Z{Member: "lapsed", Score: float64(time.Now().Add(-time.Minute).UnixMicro())}
	if err := client.ZAdd(t.Context(), "{"+store.New(client, "").Keys().Namespace+"}:alive", lapsed).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := b.brief()
	cfg.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 3}}
	stop := b.start(cfg)
	defer stop()
	testrun.EventuallyGot(t, "those of dead workers are gone, the worker's own is there", func() (string, bool) {
		limits, err := limiter.InForce(t.Context())
		var left []string
		for _, limit := range limits {
			left = append(left, limit.Provider)
		}
		return fmt.Sprintf("limits of %v, %v", left, err), err == nil && slices.Equal(left, []string{"c", "p"})
	})
	testrun.EventuallyGot(t, "heartbeats of dead workers are gone", func() (string, bool) {
		alive, err := limiter.Alive(t.Context())
		return fmt.Sprintf("heartbeats of %v, %v", alive, err), err == nil && len(alive) == 1
	})
}

// A worker that dies with tasks leaves no limits behind, whichever worker returns its tasks,
// and however long that one has worked.
func TestLimitsOfWorkersThatDiedWithTasksGo(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(2)
	client, ctx := b.store.Client(), t.Context()
	limiter := ratelimit.NewAdmin(client, ratelimit.Config{})
	pin := func(worker string) {
		t.Helper()
		limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: worker}, Kind: ratelimit.Concurrency, Max: 3}
		if err := limiter.Register(ctx, ratelimit.WorkerHolder(worker), []ratelimit.Limit{limit}); err != nil {
			t.Fatal(err)
		}
	}
	const queue = "asynq:{p}:"
	task, err := client.RPopLPush(ctx, queue+"pending", queue+"active").Result()
	if err != nil {
		t.Fatal(err)
	}
	beats := func(until time.Duration) {
		t.Helper()
		at := redis.Z{Member: "dies", Score: float64(time.Now().Add(until).UnixMicro())}
		if err := client.ZAdd(ctx, "{ef}:alive", at).Err(); err != nil {
			t.Fatal(err)
		}
	}
	beats(time.Hour)
	pipe := client.TxPipeline()
	pipe.ZAdd(ctx, queue+"lease", redis.Z{Member: task, Score: float64(time.Now().Add(time.Hour).Unix())})
	pipe.HSet(ctx, queue+"t:"+task, "state", "active", "owner", "dies", "pull", 1)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	pin("before")
	pin("dies")
	defer b.start(b.brief())()
	b.inForce("limits of before are gone", 1)
	beats(-time.Minute)
	b.inForce("those of the worker that died are gone", 0)
	b.wait()
	b.wantEachOnce()
}

// An evaluation whose limits Redis has lost begins no call until they are registered
// again, which the workers do from its record.
func TestEvaluationWhoseLimitsWereLost(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(t *testing.T, b *bench){
		"its registration": func(t *testing.T, b *bench) {
			if err := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}).Unregister(t.Context(), string(b.id)); err != nil {
				t.Fatal(err)
			}
		},
		"the limiter's whole slot": func(t *testing.T, b *bench) {
			client := store.Universal(b.store)
			if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			provider := &fakeProvider{answer: after(20*time.Millisecond, firstWins)}
			b := setup(t, provider)
			b.submit(9, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 3}}
			})
			defer b.start(b.brief())()
			b.waitFor("a third of the runs have ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) >= b.runs/3 })
			lose(t, b)
			b.wait()
			b.wantEachOnce()
			if calls, most := provider.count(); most > 3 || calls > b.runs+3 {
				t.Errorf("%d calls, %d in flight at most, for %d runs; want at most 3 in flight", calls, most, b.runs)
			}
		})
	}
}

// An evaluation without limits is registered, too, or it could not be told from one
// whose limits were lost.
func TestEvaluationWithoutLimitsIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3)
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	if err := limiter.Unregister(t.Context(), string(b.id)); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.brief())()
	b.wait()
	b.wantEachOnce()
	testrun.Eventually(t, "nothing is registered once it is done", func() bool {
		missing, err := limiter.Unregistered(t.Context(), string(b.id))
		return err == nil && len(missing) == 1
	})
}

// A worker that could not renew in time continues under another ID: the limits of its
// configuration stay in force in between.
func TestConfiguredLimitsOutliveAFence(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	limited := b.brief()
	limited.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 3}}
	defer b.start(limited)()
	b.inForce("the worker has pinned its limit", 1)
	client := store.Universal(b.store)
	holders := func() (pinned []string) {
		for _, holder := range client.HKeys(t.Context(), "{ef}:limits").Val() {
			if _, ok := ratelimit.PinnedBy(holder); ok {
				pinned = append(pinned, holder)
			}
		}
		return pinned
	}
	first := holders()
	if err := client.Do(t.Context(), "client", "pause", 11_000, "all").Err(); err != nil {
		t.Fatal(err)
	}
	testrun.EventuallyGot(t, "another worker pins it, and the first has gone", func() (string, bool) {
		now := holders()
		if len(now) == 0 {
			t.Fatal("no worker pins the limit")
		}
		return fmt.Sprint(now), !slices.Contains(now, first[0])
	})
}
