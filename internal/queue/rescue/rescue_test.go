package rescue

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler)) }

// While Redis may have forgotten heartbeats, a worker without one may be alive: its
// tasks and its limits stay. Afterwards it is dead.
func TestNoWorkerIsDeadWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), redistest.New(t).Client()
	do := func(args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limiter := ratelimit.NewAdmin(client, ratelimit.Config{})
	r := New(store.New(client, ""), limiter, zerolog.Nop())
	limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 4}
	if err := limiter.Register(ctx, ratelimit.WorkerHolder("w1"), []ratelimit.Limit{limit}); err != nil {
		t.Fatal(err)
	}
	do("LPUSH", "asynq:{p}:active", "x")
	do("HSET", "asynq:{p}:t:x", "state", "active", "owner", "w1", "pull", 1)
	once := func() {
		t.Helper()
		if err := r.Once(ctx, []string{"p"}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, pending, limits int) {
		t.Helper()
		inForce, err := limiter.InForce(ctx)
		if got := client.LLen(ctx, "asynq:{p}:pending").Val(); err != nil || int(got) != pending || len(inForce) != limits {
			t.Errorf("%s: %d tasks are returned and %d limits in force, %v; want %d and %d", when, got, len(inForce), err, pending, limits)
		}
	}
	do("HSET", "{ef}:limits", "blind", time.Now().Add(time.Hour).UnixMicro())
	once()
	want("within the grace period", 0, 1)
	do("HSET", "{ef}:limits", "blind", time.Now().Add(-time.Hour).UnixMicro())
	once()
	want("when it is seen dead", 0, 0)
	r.dead["w1"] = r.dead["w1"].Add(-lastWords)
	once()
	want("a while later", 1, 0)

	// A registration that arrives after its worker is gone is taken out of force, too.
	if err := limiter.Register(ctx, ratelimit.WorkerHolder("w1"), []ratelimit.Limit{limit}); err != nil {
		t.Fatal(err)
	}
	r.swept = r.swept.Add(-pinsSweep)
	once()
	want("after a late registration", 1, 0)
}

// A worker could not renew, because Redis was away, and continues under another ID: its runs have met
// no death. Those of a worker that is gone have.
func TestOnlyDeathsAreCounted(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), redistest.New(t).Client()
	s := store.New(client, "")
	r := New(s, ratelimit.NewAdmin(client, ratelimit.Config{}), zerolog.Nop())
	const evaluation = "ev-aaaaaaaaaaaa"
	if err := client.HSet(ctx, s.Keys().Record(evaluation), "status", "active").Err(); err != nil {
		t.Fatal(err)
	}
	for i, owner := range []string{"gone", "lives-on"} {
		task := record.Task{Evaluation: evaluation, Index: i}.ID()
		if err := client.LPush(ctx, "asynq:{p}:active", task).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.HSet(ctx, "asynq:{p}:t:"+task, "state", "active", "owner", owner, "pull", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Tell(ctx, "lives-on", record.Worker{V: record.WorkerVersion, LivesOn: true}, time.Hour); err != nil {
		t.Fatal(err)
	}
	r.dead["gone"], r.dead["lives-on"] = time.Now().Add(-lastWords), time.Now().Add(-lastWords)
	if err := r.Once(ctx, []string{"p"}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if n := client.LLen(ctx, "asynq:{p}:pending").Val(); n != 2 {
		t.Errorf("%d tasks are returned, want 2", n)
	}
	for i, want := range []string{"1", ""} {
		id := eval.RunID{Evaluation: evaluation, Index: i}
		if got := client.HGet(ctx, s.Keys().Progress(id), "deaths").Val(); got != want {
			t.Errorf("run %d has %q deaths, want %q", i, got, want)
		}
	}
}
