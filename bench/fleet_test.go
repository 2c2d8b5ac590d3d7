package bench

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

// submit enqueues an evaluation, with the limits as its settings, and returns its receipt.
func submit(b *testing.B, client *redis.Client, s enqueue.Submission, limits ...ratelimit.Limit) enqueue.Receipt {
	b.Helper()
	s.Settings = record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: limits}
	receipt, err := (&enqueue.Enqueuer{Store: store.New(client, ""), Limits: ratelimit.NewAdmin(client, ratelimit.Config{}), Log: zerolog.Nop()}).
		Submit(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	return receipt
}

// work starts a worker in this process; stop ends it, and so does the benchmark's end,
// before its Redis goes.
func work(b *testing.B, cfg worker.Config) (stop func()) {
	b.Helper()
	cfg.Lease, cfg.Log = cmp.Or(cfg.Lease, lease), zerolog.Nop()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return stop
}

// twoSpeeds is a provider of a fast and a slow model.
type twoSpeeds struct {
	fast, slow atOnce
}

func (p *twoSpeeds) Call(ctx context.Context, request *providers.Request) (*providers.Result, error) {
	if request.Model == "slow" {
		return p.slow.Call(ctx, request)
	}
	return p.fast.Call(ctx, request)
}

// BenchmarkTwoModels says how much a slow model, which has a limit of its own,
// holds up a fast one in the same evaluation.
func BenchmarkTwoModels(b *testing.B) {
	const limit = 8
	fast, slow := 100*time.Millisecond, 2*time.Second
	for b.Loop() {
		alone := fastCalls(b, limit, fast, slow, "fast")
		beside := fastCalls(b, limit, fast, slow, "fast", "slow")
		b.ReportMetric(alone, "alone/s")
		b.ReportMetric(beside, "beside/s")
		b.ReportMetric(100*(alone/beside-1), "%slower")
		b.ReportMetric(100*beside*fast.Seconds()/limit, "%slots")
	}
	b.Logf("calls of %s beside calls of %s, %d in flight of each model", fast, slow, limit)
}

// fastCalls is how many calls of the fast model one worker makes a second.
func fastCalls(b *testing.B, limit int64, fast, slow time.Duration, models ...string) float64 {
	b.Helper()
	client := redistest.New(b).Client()
	machine(b, client)
	e, texts := pairs(b, 150)
	e.Judges = nil
	var limits []ratelimit.Limit
	for _, name := range models {
		e.Judges = append(e.Judges, eval.Judge{Name: "p:" + name, Provider: "p", Model: name})
		limits = append(limits, ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p", Model: name}, Kind: ratelimit.Concurrency, Max: limit})
	}
	e.Normalize()
	submit(b, client, enqueue.Submission{Evaluation: e, Texts: texts}, limits...)
	provider := &twoSpeeds{atOnce{latency: fast}, atOnce{latency: slow}}
	defer work(b, worker.Config{Client: client, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}}})()
	begun(b, provider.fast.calls.Load)
	time.Sleep(time.Second)
	if most := provider.slow.most.Load(); len(models) > 1 && most != limit {
		b.Errorf("%d calls of the slow model in flight at most, want %d", most, limit)
	}
	before, began := provider.fast.calls.Load(), time.Now()
	time.Sleep(sized(time.Second, 10*time.Second))
	return float64(provider.fast.calls.Load()-before) / time.Since(began).Seconds()
}
