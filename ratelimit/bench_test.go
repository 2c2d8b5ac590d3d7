package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// BenchmarkCycle is a call from asking to released: one caller, which sees the
// latency, and 64, which share scripts. No limit ever binds.
func BenchmarkCycle(b *testing.B) {
	scope := Scope{Provider: "openai", Model: "gpt-5", Evaluation: "ev-a"}
	scopes := []Scope{{}, {Provider: "openai"}, {Evaluation: "ev-a"}}
	var limits []Limit
	for _, s := range scopes {
		limits = append(limits, inFlight(s, 1000))
	}
	for _, s := range scopes {
		limits = append(limits, Limit{Scope: s, Kind: Requests, Max: 1_000_000, Period: time.Second, Burst: 1_000_000})
	}
	for _, n := range []int{0, 1, 3, 6} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("limits=%d/callers=%d", n, callers), func(b *testing.B) {
				server := redistest.New(b)
				client := server.Client()
				register(b, client, "fleet", limits[:n]...)
				p := start(b, server.Client(), "w")
				mustRelease(b, mustAcquire(b, p, newID(), scope))
				b.SetParallelism(callers) // times GOMAXPROCS
				if callers == 1 {
					for b.Loop() {
						cycle(b, p, scope)
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							cycle(b, p, scope)
						}
					})
				}
				b.StopTimer()
				if held := client.ZCard(context.Background(), "{ef}:l:w").Val(); held != 0 {
					b.Fatalf("%d leases left", held)
				}
			})
		}
	}
}

func cycle(b *testing.B, p *process, scope Scope) {
	ctx := context.Background()
	lease, err := p.Acquire(ctx, Request{ID: newID(), Call: scope})
	if err == nil {
		err = lease.Release(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}
