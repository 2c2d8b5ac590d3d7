package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestLimitsOfTokensAndDays: two calls that used more than they reserved, and
// what of each limit is in use then.
func TestLimitsOfTokensAndDays(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	limiter := ratelimit.New(redis.Client(), ratelimit.Config{Worker: "w"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- limiter.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
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
