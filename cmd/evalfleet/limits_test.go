package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// limiting runs a limiter until the test ends. ctx ends before it.
func limiting(t *testing.T, redis *redistest.Server) (limiter *ratelimit.Limiter, ctx context.Context) {
	t.Helper()
	limiter = ratelimit.New(redis.Client(), ratelimit.Config{Worker: "w"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- limiter.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return limiter, ctx
}

// TestLimitsOfBatches: how much is enqueued is in the text and in JSON, also when the limit was lowered below it.
func TestLimitsOfBatches(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	limiter, ctx := limiting(t, redis)
	admin := ratelimit.NewAdmin(redis.Client(), ratelimit.Config{})
	if err := admin.Begin(ctx, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	shows := func(most int64, inUse int, debt int64, hasRoom bool, texts ...string) {
		t.Helper()
		limit := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.EnqueuedTokens, Max: most}
		if err := admin.Register(ctx, "fleet", []ratelimit.Limit{limit}); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := evalfleet(t, nil, "limits", "--json", "--redis", redis.URL())
		var got view.Limits
		if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got.Limits) != 1 {
			t.Fatalf("limits ended with %d, %v: %s%s", code, err, stdout, stderr)
		}
		if l := got.Limits[0]; *l.InUse != inUse || l.Allowed != most || l.Debt != debt || (l.NextS != nil) != hasRoom {
			t.Errorf("limits: %+v with %d in use; want %d of %d, %d above it, room: %t", l, *l.InUse, inUse, most, debt, hasRoom)
		}
		code, stdout, stderr = evalfleet(t, nil, "limits", "--redis", redis.URL())
		for _, text := range texts {
			if code != 0 || !strings.Contains(stdout, text) {
				t.Errorf("limits ended with %d: %s%s; want %q in it", code, stdout, stderr, text)
			}
		}
	}

	shows(2_000_000, 0, 0, true, "provider openai: 2 M tokens enqueued in batches")
	for _, id := range []string{"a", "b"} {
		batch := ratelimit.Scope{Provider: "openai", Model: "m", Evaluation: "ev", Tier: ratelimit.TierBatch}
		if _, err := limiter.Acquire(ctx, ratelimit.Request{ID: id, Call: batch, Input: 600_000}); err != nil {
			t.Fatal(err)
		}
	}
	shows(2_000_000, 1_200_000, 0, true, "1,200,000")
	shows(900_000, 1_200_000, 300_000, false, "as 1 ends", "300,000 above the limit, which was higher when batches started")
}

// TestLimitsOfTokensAndDays: two calls that used more than they reserved, and
// what of each limit is in use then.
func TestLimitsOfTokensAndDays(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	limiter, ctx := limiting(t, redis)
	account := ratelimit.Scope{Provider: "p"}
	hour := ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Hour}
	admin := ratelimit.NewAdmin(redis.Client(), ratelimit.Config{})
	if err := admin.Begin(ctx, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := admin.Register(ctx, "fleet", []ratelimit.Limit{
		{Scope: account, Kind: ratelimit.InputTokens, Max: 100, Period: time.Minute, Window: hour}, // 6000 an hour
		{Scope: account, Kind: ratelimit.OutputTokens, Max: 1000, Period: time.Hour, Window: hour},
		{Scope: account, Kind: ratelimit.Requests, Max: 3, Resets: "Asia/Tokyo"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		lease, err := limiter.Acquire(ctx, ratelimit.Request{
			ID: id, Call: ratelimit.Scope{Provider: "p", Model: "m", Evaluation: "ev"}, Input: 200, Output: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		lease.Settle(ratelimit.Settlement{Used: &ratelimit.Used{Input: 150, Output: 600}})
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := evalfleet(t, nil, "limits", "--json", "--redis", redis.URL())
	var got view.Limits
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got.Limits) != 3 {
		t.Fatalf("limits ended with %d, %v: %s%s", code, err, stdout, stderr)
	}
	input, output, quota := got.Limits[0], got.Limits[1], got.Limits[2]
	if *input.InUse != 300 || input.Allowed != 6000 || input.PeriodS != 3600 || input.Debt != 0 || input.NextS == nil {
		t.Errorf("input: %+v with %d in use; want 300 of 6000 an hour, and room", input, *input.InUse)
	}
	if *output.InUse != 1200 || output.Allowed != 1000 || output.Debt != 200 || output.NextS != nil {
		t.Errorf("output: %+v with %d in use; want 1200 of 1000, a debt of 200, and no room", output, *output.InUse)
	}
	tokyo := time.FixedZone("Asia/Tokyo", 9*60*60)
	if *quota.InUse != 2 || quota.Allowed != 3 || quota.ResetsAt == nil || quota.ResetsAt.In(tokyo).Hour() != 0 || !quota.ResetsAt.After(time.Now()) {
		t.Errorf("quota: %+v with %d in use; want 2 of 3, until the next midnight in Tokyo", quota, *quota.InUse)
	}
}
