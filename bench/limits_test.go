package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

var account = ratelimit.Scope{Provider: "p"}

// BenchmarkSlots says how much of a limit on calls in flight is in use while
// calls wait, by the provider's own count, and how many scripts a call costs.
// The provider refuses what is over the limit.
func BenchmarkSlots(b *testing.B) {
	const processes, each, limit = 4, 250, 64
	for _, latency := range []time.Duration{500 * time.Millisecond, 200 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			for b.Loop() {
				c := startCallers(b, processes, each, simulator.Config{
					Limits: simulator.Limits{MaxInFlight: limit}, Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: latency, Max: latency}},
				}, ratelimit.Limit{Scope: account, Kind: ratelimit.Concurrency, Max: limit})
				m := c.measure(sized(time.Second, 15*time.Second), func(s simulator.Counts) bool { return s.Answered > 2*limit })
				b.ReportMetric(100*m.inFlight/limit, "%slots")
				b.ReportMetric(float64(m.scripts)/float64(m.arrived), "scripts/call")
				b.ReportMetric(float64(m.rejected), "429s")
				b.Logf("%d processes of %d callers, limit %d, calls of %s, measured for %s", processes, each, limit, latency, m.took.Round(time.Millisecond))
				if !*full {
					continue
				}
				rivals(b, c.redis)
			}
		})
	}
}

// BenchmarkRates says how much of a rate is used while calls wait, against
// providers that count strictly in each of their ways.
func BenchmarkRates(b *testing.B) {
	const processes, each = 4, 50
	n, window := sized(60, 600), sized(time.Second, 10*time.Second)
	sliding := simulator.Rate{N: n, Window: window, Shape: simulator.Sliding}
	measured := ratelimit.Limit{Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: window}, Jitter: ratelimit.Measured}
	for name, of := range map[string]struct {
		provider simulator.Rate
		limit    ratelimit.Limit
		path     network
	}{
		// The margin falls after 5 s, and the calls of before leave the window after 10.
		"measured":       {provider: sliding, limit: measured},
		"measured, 50ms": {sliding, measured, network{50 * time.Millisecond}},
		"burst of the same": {
			provider: simulator.Rate{N: n, Window: window, Shape: simulator.Bucket, Burst: n / 12},
			limit:    ratelimit.Limit{Burst: int64(n / 12), Jitter: ratelimit.Measured},
		},
		"burst of the same, 50ms": {
			simulator.Rate{N: n, Window: window, Shape: simulator.Bucket, Burst: n / 12},
			ratelimit.Limit{Burst: int64(n / 12), Jitter: ratelimit.Measured}, network{50 * time.Millisecond},
		},
		"sliding": {
			provider: sliding,
			limit:    ratelimit.Limit{Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: window}, Jitter: 100 * time.Millisecond},
		},
		"bucket": {
			provider: simulator.Rate{N: n, Window: window, Shape: simulator.Bucket, Burst: n / 20},
			limit:    ratelimit.Limit{Burst: max(1, int64(n/100))},
		},
	} {
		b.Run(name, func(b *testing.B) {
			limit := of.limit
			limit.Scope, limit.Kind, limit.Max, limit.Period = account, ratelimit.Requests, int64(n), window
			for b.Loop() {
				c := of.path.startCallers(b, processes, each, simulator.Config{
					Limits: simulator.Limits{Requests: simulator.Rates{of.provider}}, Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}},
				}, limit)
				m := c.measure(3*window, func(s simulator.Counts) bool {
					if limit.Jitter == ratelimit.Measured && *full {
						return s.Arrived > int64(2*n)
					}
					return s.Arrived > int64(n/10)
				})
				b.ReportMetric(100*float64(m.arrived)/(float64(n)*m.took.Seconds()/window.Seconds()), "%rate")
				b.ReportMetric(float64(m.scripts)/float64(m.arrived), "scripts/call")
				b.ReportMetric(float64(m.rejected), "429s")
				b.Logf("%d processes of %d callers, %d per %s, %s; burst %d, jitter %s; measured for %s",
					processes, each, n, window, name, limit.Burst, limit.Jitter, m.took.Round(time.Millisecond))
			}
		})
	}
}

// begin starts a limiter of its own client, and ends it with the benchmark.
func begin(b *testing.B, client *redis.Client, name string) *ratelimit.Limiter {
	b.Helper()
	limiter := ratelimit.New(client, ratelimit.Config{Worker: name, Lease: lease})
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- limiter.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return limiter
}

// BenchmarkAdmission is the CPU of Redis that a call costs from asking to
// released, under three limits on calls in flight and three rates, and none of these
// holds it up: with 64 callers, which share scripts.
func BenchmarkAdmission(b *testing.B) {
	const among = 64
	client := redistest.New(b).Client()
	machine(b, client)
	var limits []ratelimit.Limit
	for _, s := range []ratelimit.Scope{{}, account, {Evaluation: "ev-a"}} {
		limits = append(limits,
			ratelimit.Limit{Scope: s, Kind: ratelimit.Concurrency, Max: 1000},
			ratelimit.Limit{Scope: s, Kind: ratelimit.Requests, Max: 1_000_000, Period: time.Second, Burst: 1_000_000})
	}
	if err := ratelimit.NewAdmin(client, ratelimit.Config{}).Register(b.Context(), "bench", limits); err != nil {
		b.Fatal(err)
	}
	limiter := begin(b, client, "w")
	var ids atomic.Int64
	cycle := func() {
		held, err := limiter.Acquire(b.Context(), ratelimit.Request{
			ID: fmt.Sprint(ids.Add(1)), Call: ratelimit.Scope{Provider: "p", Model: model, Evaluation: "ev-a"},
		})
		if err == nil {
			err = held.Release(b.Context())
		}
		if err != nil {
			b.Error(err)
		}
	}
	cycle() // once Redis is known
	var calls, sent int64
	var took, redisCPU time.Duration
	for b.Loop() {
		before, sentBefore, began := cpu(b, client), scripts(b, client), time.Now()
		each := sized(50, 2000)
		var group sync.WaitGroup
		for range among {
			group.Go(func() {
				for range each {
					cycle()
				}
			})
		}
		group.Wait()
		took += time.Since(began)
		redisCPU += cpu(b, client) - before
		sent += scripts(b, client) - sentBefore
		calls += int64(among * each)
	}
	b.ReportMetric(redisCPU.Seconds()*1e6/float64(calls), "redis-µs/call")
	b.ReportMetric(float64(calls)/took.Seconds(), "calls/s")
	b.ReportMetric(float64(sent)/float64(calls), "scripts/call")
	rivals(b, client)
	b.Logf("%d callers, 3 limits in flight and 3 rates, %d calls", among, calls)
	if left := client.ZCard(b.Context(), "{ef}:l:w").Val(); left != 0 {
		b.Errorf("%d leases left", left)
	}
}

// BenchmarkManyProcesses is what a low rate costs that many light processes
// share: scripts for each call that is admitted, while every process has a call
// that waits.
func BenchmarkManyProcesses(b *testing.B) {
	processes := sized(20, 100)
	const perSecond = 10
	server := redistest.New(b)
	client := server.Client()
	machine(b, client)
	limit := ratelimit.Limit{Scope: account, Kind: ratelimit.Requests, Max: perSecond, Period: time.Second, Burst: 1}
	if err := ratelimit.NewAdmin(client, ratelimit.Config{}).Register(b.Context(), "bench", []ratelimit.Limit{limit}); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range processes {
		limiter := begin(b, server.Client(), fmt.Sprint("w", i))
		group.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				held, err := limiter.Acquire(ctx, ratelimit.Request{ID: fmt.Sprintf("%d.%d", i, k), Call: ratelimit.Scope{Provider: "p", Model: model, Evaluation: "ev-a"}})
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				admitted.Add(1)
				if err := held.Release(context.WithoutCancel(ctx)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	defer group.Wait()
	defer stop()
	begun(b, admitted.Load)
	time.Sleep(time.Second)
	for b.Loop() {
		before, renewed, calls, began := commands(b, client), renewals(processes), admitted.Load(), time.Now()
		time.Sleep(sized(time.Second, 10*time.Second))
		after, took := commands(b, client), time.Since(began)
		calls = admitted.Load() - calls
		sent := float64(after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"])
		b.ReportMetric((sent-renewed*took.Seconds())/float64(calls), "scripts/call")
		b.ReportMetric(sent/float64(calls), "scripts+renewals/call")
		b.ReportMetric(100*float64(calls)/took.Seconds()/perSecond, "%rate")
	}
	b.Logf("%d limiters with a client each, %d calls a second for all", processes, perSecond)
}

// renewals is how many scripts a second keep heartbeats.
func renewals(processes int) float64 { return float64(processes) * 3 / lease.Seconds() }

// BenchmarkSlowRate is how far apart the calls of a rate below one a second are.
func BenchmarkSlowRate(b *testing.B) {
	period := sized(500*time.Millisecond, 5*time.Second)
	client := redistest.New(b).Client()
	limit := ratelimit.Limit{Scope: account, Kind: ratelimit.Requests, Max: 1, Period: period, Burst: 1}
	if err := ratelimit.NewAdmin(client, ratelimit.Config{}).Register(b.Context(), "bench", []ratelimit.Limit{limit}); err != nil {
		b.Fatal(err)
	}
	limiter := begin(b, client, "w")
	calls := 0
	next := func() time.Time {
		calls++
		held, err := limiter.Acquire(b.Context(), ratelimit.Request{ID: fmt.Sprint(calls), Call: ratelimit.Scope{Provider: "p", Model: model, Evaluation: "ev-a"}})
		if err != nil {
			b.Fatal(err)
		}
		at := time.Now()
		if err := held.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
		return at
	}
	least, most := time.Hour, time.Duration(0)
	before := next()
	for b.Loop() {
		for range 3 {
			at := next()
			least, most = min(least, at.Sub(before)), max(most, at.Sub(before))
			before = at
		}
	}
	b.ReportMetric(least.Seconds(), "s-apart-least")
	b.ReportMetric(most.Seconds(), "s-apart-most")
	b.Logf("1 call in %s, burst 1", period)
}
