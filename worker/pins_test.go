package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/rescue"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// inForce waits until the registry holds a number of limits.
func (b *bench) inForce(what string, want int) []ratelimit.Limit {
	b.t.Helper()
	limiter := ratelimit.New(b.store.Client(), ratelimit.Config{})
	deadline := time.Now().Add(30 * time.Second)
	for {
		limits, err := limiter.InForce(b.t.Context())
		if err == nil && len(limits) == want {
			return limits
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waited in vain until %s: %v in force, %v; want %d", what, limits, err, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The limits of one worker's configuration hold for another that has none, and
// for as long as the one lives.
func TestConfiguredLimitsHoldForEveryWorker(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: after(20*time.Millisecond, firstWins)}
	b := setup(t, provider)
	limited := b.config()
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
	if limits, err := ratelimit.New(b.store.Client(), ratelimit.Config{}).InForce(t.Context()); err != nil || len(limits) != 0 {
		t.Errorf("once its worker has ended %v are in force, %v; want none", limits, err)
	}
}

// What dead workers pinned goes, whether or not a heartbeat tells of them; what
// living ones and evaluations pinned stays.
func TestLimitsOfDeadWorkersGo(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	client := b.store.Client()
	limiter := ratelimit.New(client, ratelimit.Config{})
	pin := func(holder, provider string) {
		t.Helper()
		limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider}, Kind: ratelimit.Concurrency, Max: 3}
		if err := limiter.Register(t.Context(), holder, []ratelimit.Limit{limit}); err != nil {
			t.Fatal(err)
		}
	}
	pin(rescue.Holder("forgotten"), "a")
	pin(rescue.Holder("lapsed"), "b")
	pin("ev-abcdefgh2345", "c")
	lapsed := redis.Z{Member: "lapsed", Score: float64(time.Now().Add(-time.Minute).UnixMicro())}
	if err := client.ZAdd(t.Context(), "{"+store.New(client, "").Keys().Namespace+"}:alive", lapsed).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := b.config()
	cfg.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 3}}
	stop := b.start(cfg)
	defer stop()
	b.inForce("the worker has pinned its own", 4)
	var left []string
	for _, limit := range b.inForce("those of dead workers are gone", 2) {
		left = append(left, limit.Provider)
	}
	if want := []string{"c", "p"}; !slices.Equal(left, want) {
		t.Errorf("limits in force are those of %v, want %v", left, want)
	}
	if alive, err := limiter.Alive(t.Context()); err != nil || len(alive) != 1 {
		t.Errorf("heartbeats of %v, %v; want the living worker's alone", alive, err)
	}
}

// A worker that dies with tasks leaves no limits behind, whoever returns its
// tasks, and however long that one has worked.
func TestLimitsOfWorkersThatDiedWithTasksGo(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(2)
	client, ctx := b.store.Client(), t.Context()
	limiter := ratelimit.New(client, ratelimit.Config{})
	pin := func(worker string) {
		t.Helper()
		limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: worker}, Kind: ratelimit.Concurrency, Max: 3}
		if err := limiter.Register(ctx, rescue.Holder(worker), []ratelimit.Limit{limit}); err != nil {
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
	defer b.start(b.config())()
	b.inForce("limits of before are gone", 1)
	beats(-time.Minute)
	b.inForce("those of the worker that died are gone", 0)
	b.wait()
	b.wantEachOnce()
}
