package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// pricedAt sets what a million tokens of input cost.
func pricedAt(usd float64) map[string]providers.Price {
	return map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: usd, Output: usd}}}
}

// A worker that hears no announcement takes the prices that the evaluation was
// submitted with last: with the next task that it checks, and for runs that it holds
// since before within a few seconds.
func TestMissedAnnouncementKeepsNoOldPrices(t *testing.T) {
	t.Parallel()
	again := make(chan struct{}) // closed once it was submitted with other prices
	b := setup(t, &fakeProvider{answer: after(20*time.Millisecond, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n > 40 {
			<-again
		}
		return firstWins(ctx, n, request)
	})})
	b.submit(12, atMost(2), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Prices = pricedAt(1) })
	client := store.Universal(b.store)
	deaf := []any{"ACL", "SETUSER", "deaf", "on", ">deaf", "~*", "+@all", "resetchannels", "&{ef}:*", "&asynq:*"}
	if err := client.Do(t.Context(), deaf...).Err(); err != nil {
		t.Fatal(err)
	}
	config := b.config()
	config.Client = b.server.Client(func(o *redis.Options) { o.Username, o.Password = "deaf", "deaf" })
	subscription := config.Client.Subscribe(t.Context(), b.store.Keys().Announce())
	defer subscription.Close()
	if _, err := subscription.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Fatalf("the worker's user may subscribe to announcements (%v), so the test shows nothing", err)
	}
	defer b.start(config)()
	b.reach(20)
	if _, err := b.enqueuer().Pause(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	b.submission.Settings.Prices = pricedAt(3)
	if _, err := b.enqueuer().Submit(t.Context(), b.submission); err != nil {
		t.Fatal(err)
	}
	reopened := time.Now()
	close(again)
	b.wait()
	b.waitFor("it is done", func(s store.Standing) bool { return s.Status == record.StatusDone })
	_, calls := b.outcomes()
	old, late := 0, 0
	for _, call := range calls {
		if call.Price == nil {
			t.Fatalf("call %s has no price", call.ID)
		}
		if call.Asked.Before(reopened) {
			continue
		}
		if call.Price.Input == 3 {
			late++
		} else {
			old++
		}
	}
	if held := b.config().Slots; old > held || late == 0 {
		t.Errorf("after the evaluation was submitted with another price, %d calls have the old one and %d the new one; want at most the %d old ones that may have been checked before", old, late, held)
	}
	b.wantEachOnce()
}
