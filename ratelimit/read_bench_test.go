package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// BenchmarkRegistry is what a process reads after one of 1,000 evaluations has changed its
// limits: the whole registry, as a process does that starts, or what changed.
func BenchmarkRegistry(b *testing.B) {
	const evaluations = 1000
	server := redistest.New(b)
	client := server.Client()
	pin := func(n, most int) {
		b.Helper()
		id := fmt.Sprintf("ev-%012d", n)
		of := Scope{Evaluation: id}
		register(b, client, id, inFlight(of, int64(most)),
			Limit{Scope: of, Kind: Requests, Max: 600, Period: time.Minute, Burst: 10}, Budget(id, 5*Dollar))
	}
	for n := range evaluations {
		pin(n, 4)
	}
	reader := server.Client() // alone on the network while it reads
	admin := tools(reader)
	if _, err := admin.load(b.Context()); err != nil {
		b.Fatal(err)
	}
	sent := map[bool]float64{}
	for _, whole := range []bool{true, false} {
		b.Run(map[bool]string{true: "whole", false: "part"}[whole], func(b *testing.B) {
			var bytes, micros float64
			changes := 0
			for b.Loop() {
				b.StopTimer()
				changes++
				pin(changes%evaluations, 5+changes/evaluations%2)
				before, own, used := served(b, client)
				b.StartTimer()
				from := admin
				if whole {
					from = tools(reader)
				}
				now, err := from.load(b.Context())
				if err != nil || len(now.rules) != 3*evaluations {
					b.Fatalf("%d limits, %v; want %d", len(now.rules), err, 3*evaluations)
				}
				b.StopTimer()
				after, _, by := served(b, client)
				bytes, micros = bytes+after-before-own, micros+by-used
				b.StartTimer()
			}
			sent[whole] = bytes / float64(changes)
			b.ReportMetric(sent[whole], "bytes/change")
			b.ReportMetric(micros/float64(changes), "redis-µs/change")
			if !whole && sent[true] > 0 {
				b.ReportMetric(sent[true]/sent[false], "whole:part")
			}
		})
	}
	b.Logf("%d evaluations of 3 limits", evaluations)
}

// served is what Redis has sent, without this answer, how long that is, and how long its read
// scripts took.
func served(b *testing.B, client *redis.Client) (bytes, own, micros float64) {
	b.Helper()
	info, err := client.Info(b.Context(), "stats", "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	number := func(before, after string) float64 {
		_, rest, _ := strings.Cut(info, before)
		_, rest, _ = strings.Cut(rest, after)
		digits, _, _ := strings.Cut(strings.ReplaceAll(rest, "\r", ","), ",")
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			b.Fatalf("INFO: %s: %v", before, err)
		}
		return n
	}
	return number("total_net_output_bytes", ":"), float64(len(info)), number("cmdstat_evalsha_ro", "usec=")
}
