package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestMain(m *testing.M) {
	testrun.Parallel(8) // they wait for redis-server
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

// bench is one test's Redis with a controller of it.
type bench struct {
	*Controller
	t      *testing.T
	client redis.UniversalClient
}

func setup(t *testing.T) *bench {
	t.Helper()
	client := redistest.New(t).Client()
	b := &bench{New(Config{Store: store.New(client, ""), Log: zerolog.New(zerolog.NewTestWriter(t))}), t, client}
	b.scrapeTime = time.Hour
	return b
}

// run starts the controller; the test's end stops it.
func (b *bench) run() {
	ctx, stop := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

// submit submits an evaluation of n·(n−1) runs for one judge, provider:model.
func (b *bench) submit(name, provider string, n int, limits ...ratelimit.Limit) record.Evaluation {
	b.t.Helper()
	e := &eval.Evaluation{
		Name: name, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: provider + ":m", Provider: provider, Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for i := range n {
		text := fmt.Sprintf("text %d of %s", i, name)
		hash := eval.TextHash(text)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("d%03d.md", i), Candidate: fmt.Sprint(i), Hash: hash, Bytes: len(text)})
		texts[hash] = text
	}
	e.Normalize()
	for i, limit := range limits {
		if limit.Evaluation != "" {
			limits[i].Evaluation = string(e.ID())
		}
	}
	enqueuer := &enqueue.Enqueuer{Store: b.store, Limits: b.limiter, Log: zerolog.Nop()}
	receipt, err := enqueuer.Submit(b.t.Context(), enqueue.Submission{
		Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: limits},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.store.Evaluation(b.t.Context(), receipt.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func inFlight(provider string, most int64) ratelimit.Limit {
	return ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider}, Kind: ratelimit.Concurrency, Max: most}
}

// ofEvaluation bounds the evaluation that it is submitted with.
func ofEvaluation(most int64) ratelimit.Limit {
	return ratelimit.Limit{Scope: ratelimit.Scope{Evaluation: "its own"}, Kind: ratelimit.Concurrency, Max: most}
}

func (b *bench) scale() Scale {
	b.t.Helper()
	scale, err := b.Scale(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return scale
}

// delay makes all pending tasks of a queue wait to be retried at a time, as tasks that
// went back do.
func (b *bench) delay(queue string, at time.Time) (n int) {
	b.t.Helper()
	ctx, prefix := b.t.Context(), "asynq:{"+queue+"}:"
	ids, err := b.client.LRange(ctx, prefix+"pending", 0, -1).Result()
	if err != nil {
		b.t.Fatal(err)
	}
	pipe := b.client.TxPipeline()
	pipe.Del(ctx, prefix+"pending")
	for _, id := range ids {
		pipe.ZAdd(ctx, prefix+"retry", redis.Z{Score: float64(at.Unix()), Member: id})
		pipe.HSet(ctx, prefix+"t:"+id, "state", "retry")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		b.t.Fatal(err)
	}
	return len(ids)
}

func (b *bench) depth(queue string) gate.Depth {
	b.t.Helper()
	depth, err := gate.DepthOf(b.t.Context(), b.client, queue, time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return depth
}

func (b *bench) until(what string, reached func() bool) {
	b.t.Helper()
	testrun.Eventually(b.t, what, reached)
}

// With no worker up, runs whose time has come are pending again, and asked for.
func TestDueRunsComeBackWithoutWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("due", "p", 15) // 210 runs
	b.run()
	b.until("the whole evaluation is in its queue", func() bool { return b.depth("p").Pending == 210 })
	if n := b.delay("p", time.Now().Add(-time.Second)); n < 200 {
		t.Fatalf("%d tasks delayed, want at least 200", n)
	}
	if got := b.scale(); got.Desired != 210 || got.Queues[0].Parked != 0 {
		t.Errorf("with all of them due the scale is %+v, want 210 calls at once", got)
	}
	b.until("they are pending", func() bool { return b.depth("p").Pending == 210 })
	b.delay("p", time.Now().Add(time.Hour))
	want := Queue{Name: "p", Planned: 210, Parked: 210, LatencySeconds: 10}
	if diff := cmp.Diff(Scale{Queues: []Queue{want}, Limits: []Limit{}}, b.scale()); diff != "" {
		t.Errorf("with all of them due in an hour (-want +got):\n%s", diff)
	}
}

// What a dead worker held comes back without another worker, as do what its
// configuration pinned and its place among the living.
func TestTasksOfTheDeadComeBackWithoutWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.submit("dead", "p", 4)
	b.until("the runs are in their queue", func() bool { return b.depth("p").Pending == 12 })
	ctx, prefix := t.Context(), "asynq:{p}:"
	for range 3 { // as a worker takes them
		id, err := b.client.LMove(ctx, prefix+"pending", prefix+"active", "RIGHT", "LEFT").Result()
		if err != nil {
			t.Fatal(err)
		}
		b.client.ZAdd(ctx, prefix+"lease", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: id})
		b.client.HSet(ctx, prefix+"t:"+id, "state", "active", "owner", "gone", "pull", 1)
	}
	if got := b.scale(); got.Queues[0].InFlight != 3 {
		t.Errorf("%+v, want 3 in flight", got)
	}
	limit := inFlight("p", 3)
	if err := b.limiter.Register(ctx, ratelimit.WorkerHolder("gone"), []ratelimit.Limit{limit}); err != nil {
		t.Fatal(err)
	}
	b.run() // without a heartbeat, so that it is dead at the first look
	b.until("its tasks are pending again", func() bool { return b.depth("p").Pending == 12 })
	b.until("its limit is no longer in force", func() bool {
		limits, err := b.limiter.InForce(ctx)
		return err == nil && len(limits) == 0
	})
	counted := func() (deaths int) {
		for i := range 12 {
			n, err := b.client.HGet(ctx, b.store.Keys().Progress(eval.RunID{Evaluation: r.ID, Index: i}), record.ProgressDeaths).Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			deaths += n
		}
		return deaths
	}
	b.until("its deaths are counted", func() bool { return counted() >= 3 }) // after the tasks were returned
	if deaths := counted(); deaths != 3 {
		t.Errorf("%d deaths counted, want 3", deaths)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	t.Run("two fleets in one Redis", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		client := redis.NewClient(b.client.(*redis.Client).Options())
		defer client.Close()
		other := &bench{New(Config{Store: store.New(client, "other"), Log: zerolog.Nop()}), t, client}
		client.AddHook(gate.Prefixed(other.store.Keys().Asynq()))
		b.submit("ours", "p", 5)       // 20 runs
		other.submit("theirs", "p", 3) // 6 runs
		for fleet, want := range map[*bench]int{b: 20, other: 6} {
			if got := fleet.scale(); got.Desired != want || len(got.Queues) != 1 || got.Queues[0].Runnable != want {
				t.Errorf("%+v, want %d calls at once", got, want)
			}
			if got := fleet.depth("p").Pending; got != want {
				t.Errorf("%d pending, want %d", got, want)
			}
		}
	})
	t.Run("two evaluations, one without anything to do", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.submit("narrow", "p", 101, ofEvaluation(5)) // 10,100 runs
		idle := b.submit("wide", "p", 2, ofEvaluation(500))
		for i := range 2 {
			run := record.Run{Phase: 0, Index: i, Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Queue: idle.Phases[0].JudgeQueues[0]}
			if _, err := b.store.Record(t.Context(), idle.ID, eval.StateSucceeded, run, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.scale(); got.Desired != 5 {
			t.Errorf("%+v, want 5 calls at once", got)
		}
	})
	t.Run("a provider allows less than could run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.submit("many", "p", 9, inFlight("p", 35)) // 72 runs
		allowed := 35
		want := Scale{
			Desired: 35,
			Queues:  []Queue{{Name: "p", Planned: 72, Runnable: 72, Allowed: &allowed, BoundBy: "provider/p/concurrency", Desired: 35, LatencySeconds: 10}},
			Limits:  []Limit{{ID: "provider/p/concurrency", Allowed: 35, Wanted: 72, Desired: 35}},
		}
		if diff := cmp.Diff(want, b.scale()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("a rate keeps rate times latency busy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.submit("rated", "p", 20, ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: 600, Period: time.Minute})
		if got := b.scale(); got.Desired != 120 { // 10/s × 10 s × 1.2
			t.Errorf("without any call: %+v, want 120", got)
		}
		b.committed([]record.Entry{{Calls: []record.Call{{
			Model: "p:m", Started: time.Unix(100, 0), Ended: time.Unix(103, 0), Usage: providers.Usage{Reported: true, Input: 900, Output: 100},
		}}}})
		if got := b.scale(); got.Desired != 36 || !got.Queues[0].Measured || got.Queues[0].LatencySeconds != 3 {
			t.Errorf("with calls of 3 s: %+v, want 36", got)
		}
	})
	t.Run("nothing can run and nothing is in flight", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.submit("paused", "p", 9, inFlight("p", 35))
		if _, err := b.store.Pause(t.Context(), r.ID, ""); err != nil {
			t.Fatal(err)
		}
		if got := b.scale(); got.Desired != 0 {
			t.Errorf("paused: %+v, want 0", got)
		}
	})
	t.Run("calls in flight keep their workers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.submit("paused", "p", 9, inFlight("p", 35))
		ctx, stop := context.WithCancel(t.Context())
		limiter := ratelimit.New(b.client, ratelimit.Config{Worker: "w", Lease: time.Hour})
		ended := make(chan error, 1)
		go func() { ended <- limiter.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for i := range 7 {
			lease, err := limiter.Acquire(t.Context(), ratelimit.Request{
				ID: fmt.Sprint(i), Call: ratelimit.Scope{Provider: "p", Model: "m", Evaluation: string(r.ID)}, LatestEnd: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer lease.End()
		}
		if _, err := b.store.Pause(t.Context(), r.ID, ""); err != nil {
			t.Fatal(err)
		}
		if got := b.scale(); got.Desired != 7 {
			t.Errorf("paused with 7 calls in flight: %+v, want 7", got)
		}
	})
}

// Whatever the limits, none is passed, and what they leave is not less than the
// tightest of them would alone, where they contain each other.
func TestDivideKeepsEveryLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		queues := map[string]*Queue{}
		var demands []*demand
		var limits []capacity
		for p := range 1 + random.IntN(3) {
			provider := fmt.Sprint("p", p)
			if random.IntN(2) == 0 {
				limits = append(limits, capacity{limit: inFlight(provider, 1), id: provider, allowed: random.IntN(60)})
			}
			for m := range 1 + random.IntN(3) {
				model := fmt.Sprint("m", m)
				if random.IntN(2) == 0 {
					limits = append(limits, capacity{
						limit: ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider, Model: model}}, id: provider + model, allowed: random.IntN(40),
					})
				}
				name := provider + "-" + model
				queues[name] = &Queue{Name: name}
				for range random.IntN(3) {
					demands = append(demands, &demand{queue: name, wanted: random.IntN(50), scopes: []ratelimit.Scope{{Provider: provider, Model: model}}})
				}
			}
		}
		if random.IntN(2) == 0 {
			limits = append(limits, capacity{id: "fleet", allowed: random.IntN(100)})
		}
		narrowestFirst(limits, demands)
		got := divide(queues, demands, limits)
		sum := func(l ratelimit.Limit, of func(*demand) int) (n int) {
			for _, d := range demands {
				if d.under(l) {
					n += of(d)
				}
			}
			return n
		}
		given := func(d *demand) int { return d.given }
		for _, of := range limits {
			if n := sum(of.limit, given); n > of.allowed {
				t.Fatalf("seed %d: %d calls under %s, which allows %d", seed, n, of.id, of.allowed)
			}
		}
		for _, d := range demands { // as much as can be: one more would pass a limit
			full := d.given == d.wanted
			for _, of := range limits {
				full = full || d.under(of.limit) && sum(of.limit, given) == of.allowed
			}
			if !full {
				t.Fatalf("seed %d: %s has %d of %d, and no limit on it is used up", seed, d.queue, d.given, d.wanted)
			}
		}
		if want := sum(ratelimit.Limit{}, given); got.Desired != want {
			t.Fatalf("seed %d: %d calls in all, want %d", seed, got.Desired, want)
		}
	}
}

func TestScaleIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("one", "p", 5)
	b.submit("other", "q", 3, ofEvaluation(2))
	get := func(query string) (code int, answer map[string]any) {
		t.Helper()
		recorder := httptest.NewRecorder()
		b.ServeScale(recorder, httptest.NewRequest(http.MethodGet, "/scale"+query, nil))
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); recorder.Code == http.StatusOK && err != nil {
			t.Fatal(err)
		}
		return recorder.Code, answer
	}
	for query, want := range map[string]float64{"": 22, "?queue=p": 20, "?queue=q": 2, "?queue=p&queue=q": 22, "?queue=none": 0} {
		if code, answer := get(query); code != http.StatusOK || answer["desired_concurrency"] != want {
			t.Errorf("/scale%s: %d %v, want %v", query, code, answer["desired_concurrency"], want)
		}
	}
	// What scales on the answer must not take silence for nothing to do.
	if err := b.client.Close(); err != nil {
		t.Fatal(err)
	}
	testrun.Eventually(t, "without Redis it answers 503", func() bool {
		code, _ := get("")
		return code == http.StatusServiceUnavailable
	})
}

// However many ask for the scale, it is found out once a moment.
func TestScaleIsFoundOutOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var found atomic.Int64
	if b.scales.Keep != time.Second || b.scales.AtOnce != 1 {
		t.Errorf("the answer is kept %s and found out %d times at once, want 1s and once", b.scales.Keep, b.scales.AtOnce)
	}
	find := b.scales.Make
	b.scales.Keep = time.Hour
	b.scales.Make = func(ctx context.Context, key struct{}) (Scale, error) {
		found.Add(1)
		return find(ctx, key)
	}
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			w := httptest.NewRecorder()
			if b.ServeScale(w, httptest.NewRequest(http.MethodGet, "/scale", nil)); w.Code != http.StatusOK {
				t.Errorf("answered with %d", w.Code)
			}
		})
	}
	all.Wait()
	if n := found.Load(); n != 1 {
		t.Errorf("found out %d times for 30 requests, want once", n)
	}
}

// Where no worker serves a queue, a controller removes the completed tasks whose time is
// over, and tasks of evaluations that have ended, also those that dead workers held.
func TestLeftoversAreRemovedWithoutAnyWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sweepEvery = 100 * time.Millisecond // the second sweep removes what the first one has seen
	r := b.submit("ended", "p", 3)        // 6 runs
	ctx, prefix := t.Context(), "asynq:{p}:"
	for i, state := range []string{"completed", "active"} {
		id := record.Task{Evaluation: r.ID, Index: i}.ID()
		b.client.LRem(ctx, prefix+"pending", 0, id)
		b.client.HSet(ctx, prefix+"t:"+id, "state", state)
		if state == "completed" {
			b.client.ZAdd(ctx, prefix+state, redis.Z{Score: 1, Member: id})
		} else {
			b.client.LPush(ctx, prefix+state, id)
			b.client.HSet(ctx, prefix+"t:"+id, "owner", "dead")
		}
	}
	b.client.HSet(ctx, b.store.Keys().Record(r.ID), "status", "done")
	if err := b.store.Deactivate(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	b.run()
	testrun.EventuallyGot(t, "no task is left", func() (string, bool) {
		left := b.client.Keys(ctx, prefix+"t:*").Val()
		return fmt.Sprint(left), len(left) == 0
	})
}
