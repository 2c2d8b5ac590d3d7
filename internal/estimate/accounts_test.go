package estimate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Accounts with limits allow their sum. If one has no limit, the provider has none.
func TestLimitsOfAccounts(t *testing.T) {
	t.Parallel()
	inFlight := func(provider string, most int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider}, Kind: ratelimit.Concurrency, Max: most}
	}
	perMinute := func(provider string, most int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: ratelimit.Scope{Provider: provider}, Kind: ratelimit.Requests, Max: most, Period: time.Minute}
	}
	q := Question{Accounts: map[string]int{"p": 2, "q": 0}, Settings: record.Settings{Limits: []ratelimit.Limit{
		inFlight("q", 3), inFlight("p/a", 4), perMinute("p/a", 60), inFlight("p/b", 5), inFlight("p", 7),
	}}}
	want := []ratelimit.Limit{inFlight("q", 3), inFlight("p", 9), inFlight("p", 7)}
	if diff := cmp.Diff(want, q.pooled()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
