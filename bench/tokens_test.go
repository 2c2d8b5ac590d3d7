package bench

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

// BenchmarkTokens is how much of a limit of tokens a worker uses that has to guess
// what its calls will take: the provider charges input and output when a request
// arrives, in any stretch of the window, and answers take between half and twice
// the middle. Counted from when 20 calls were settled.
func BenchmarkTokens(b *testing.B) {
	const window, latency = 10 * time.Second, 500 * time.Millisecond
	const most = 60_000 // a window
	measured := sized(3*time.Second, 40*time.Second)
	var used, seconds float64
	var rejected, calls int64
	for b.Loop() {
		server, err := simulator.Listen("127.0.0.1:0", simulator.Config{
			Limits:       simulator.Limits{Tokens: simulator.Rates{{N: most, Window: window}}},
			Behaviour:    simulator.Behaviour{Latency: simulator.Span{Min: latency, Max: latency}, AnswerTokens: simulator.Range{Min: 50, Max: 200}},
			KeepArrivals: 100_000,
		})
		if err != nil {
			b.Fatal(err)
		}
		client := redistest.New(b).Client()
		begin := tokenBound(b, client, server.URL+"/v1", ratelimit.Limit{
			Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Tokens, Max: 6 * most, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: window}, Jitter: 400 * time.Millisecond,
		})
		stop := begin()
		for server.Stats().All.Answered < 20 {
			time.Sleep(time.Millisecond)
		}
		from := time.Now()
		time.Sleep(measured)
		to := time.Now()
		stop()
		for _, a := range server.Arrivals() {
			calls++
			if a.RejectedBy != "" {
				rejected++
			} else if a.At.After(from) && a.At.Before(to) {
				used += float64(a.InputTokens + a.OutputTokens)
			}
		}
		seconds += to.Sub(from).Seconds()
		if err := server.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*used/(most*seconds/window.Seconds()), "%-of-limit")
	b.ReportMetric(float64(rejected)/float64(b.N), "429s")
	b.ReportMetric(float64(calls)/float64(b.N), "calls")
	b.Logf("%d tokens in any %s, calls of %s, %s measured after 20 were settled", most, window, latency, measured)
}

// tokenBound prepares a worker with more runs than a limit of tokens lets it make;
// begin starts it.
func tokenBound(b *testing.B, client *redis.Client, baseURL string, limit ratelimit.Limit) (begin func() (stop func())) {
	b.Helper()
	e, texts := pairs(b, 100)
	e.Judges = []eval.Judge{{Name: "p:careful", Provider: "p", Model: "careful"}}
	e.Normalize()
	limits := ratelimit.NewAdmin(client, ratelimit.Config{})
	settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{limit}}
	if _, err := (&enqueue.Enqueuer{Store: store.New(client, ""), Limits: limits, Log: zerolog.Nop()}).
		Submit(b.Context(), enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}); err != nil {
		b.Fatal(err)
	}
	provider, err := chat.New(chat.Config{Config: transport.Config{BaseURL: baseURL, HTTPClient: transport.NewClient(transport.Connections{Slots: 200})}})
	if err != nil {
		b.Fatal(err)
	}
	return func() func() {
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- worker.Run(ctx, worker.Config{
				Client: client, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}},
				Slots: 200, Log: zerolog.Nop(),
			})
		}()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
	}
}
