package worker

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// account is a provider that takes fewer calls at once than it is said to, until it
// is relieved. Its two sides count for themselves, and it counts what arrives.
type account struct {
	narrow, wide *simulator.Simulator
	relieved     atomic.Bool

	mu                   sync.Mutex // guards all below
	inFlight, most, ever int
}

// newAccount is an account whose calls take so long before it is relieved, and half as much more.
func newAccount(takes int, latency time.Duration) *account {
	behaviour := simulator.Behaviour{
		Latency:    simulator.Span{Min: 200 * time.Millisecond, Max: 300 * time.Millisecond},
		RetryAfter: simulator.Span{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond},
	}
	a := &account{wide: simulator.New(simulator.Config{Behaviour: behaviour})}
	behaviour.Latency = simulator.Span{Min: latency, Max: latency * 3 / 2}
	a.narrow = simulator.New(simulator.Config{Limits: simulator.Limits{MaxInFlight: takes}, Behaviour: behaviour})
	return a
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.count(1)
	defer a.count(-1)
	if a.relieved.Load() {
		a.wide.ServeHTTP(w, r)
		return
	}
	a.narrow.ServeHTTP(w, r)
}

func (a *account) count(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight += by
	a.most, a.ever = max(a.most, a.inFlight), max(a.ever, a.inFlight)
}

// seen is the greatest number of calls that were in flight, since it was asked last
// and ever.
func (a *account) seen() (most, ever int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	most, a.most = a.most, a.inFlight
	return most, a.ever
}

// TestAdaptiveConcurrency: two workers find out how much an account takes that is
// said to take more, and use all that they may when it takes more. Beside them two
// others meet the same with a limit that does not adapt. With -full they must use all
// that they may, and be refused less often than those others: a busy machine makes too
// few calls at once for either.
func TestAdaptiveConcurrency(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const limit, takes = 24, 8
	// On a slow machine, too, the other calls are still in flight when a worker hears of a refusal.
	latency, answers := 2*time.Second, int64(50)
	if *full {
		latency, answers = 200*time.Millisecond, 100
	}
	start := func(adaptive bool) (*account, *bench) {
		a := newAccount(takes, latency)
		server := httptest.NewServer(a)
		t.Cleanup(server.Close)
		p, err := chat.New(chat.Config{Config: transport.Config{BaseURL: server.URL + "/v1", HTTPClient: server.Client()}})
		if err != nil {
			t.Fatal(err)
		}
		b := setup(t, nil)
		b.submit(27, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
			e.Judges = []eval.Judge{{Name: "p:careful", Provider: "p", Model: "careful"}}
			s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: limit, Adaptive: adaptive}}
		})
		cfg := b.config()
		cfg.Endpoints = map[string]providers.Endpoint{"p": {Provider: p, Key: "k"}}
		for range 2 {
			t.Cleanup(b.start(cfg))
		}
		return a, b
	}
	fixed, other := start(false)
	a, b := start(true)

	b.waitFor("the limit is found", func(store.Standing) bool { return b.allowed() <= takes })
	found := a.narrow.Stats()
	a.seen()
	least, most := int64(limit), int64(0)
	b.waitFor("calls were answered", func(store.Standing) bool {
		allowed := b.allowed()
		least, most = min(least, allowed), max(most, allowed)
		return a.narrow.Stats().All.Answered >= answers
	})
	last := a.narrow.Stats()
	inFlight, _ := a.seen()
	a.relieved.Store(true)
	t.Logf("found by %d refusals; then %d until %d calls were answered, %d to %d allowed, at most %d in flight, %.1f on average",
		found.All.Rejected, last.All.Rejected-found.All.Rejected, last.All.Answered, least, most, inFlight,
		(last.All.InFlightSeconds-found.All.InFlightSeconds)/last.At.Sub(found.At).Seconds())
	above := 2 * int64(takes) // on a busy machine, on which refusals are heard of late
	if *full {
		above = takes + 1
	}
	if least < takes/2 || most > above {
		t.Errorf("%d to %d calls allowed, want them near the %d that are taken", least, most, takes)
	}
	if inFlight > int(above) || *full && inFlight < takes-1 {
		t.Errorf("at most %d calls in flight, want about the %d that are taken", inFlight, takes)
	}

	s := b.wait()
	if got := s.Total(eval.StateSucceeded); got != b.runs {
		t.Errorf("%d of %d runs succeeded", got, b.runs)
	}
	used := a.wide.Stats().All.MaxInFlight
	if used > limit {
		t.Errorf("%d calls were in flight at most, want at most %d", used, limit)
	}
	if *full { // else the limits of the evaluation, which has ended, may be removed by now
		if allowed := b.allowed(); allowed != limit || used != limit {
			t.Errorf("in the end %d calls are allowed and %d were in flight at most, want %d", allowed, used, limit)
		}
	}

	other.waitFor("calls were answered", func(store.Standing) bool { return fixed.narrow.Stats().All.Answered >= answers })
	without := fixed.narrow.Stats().All
	t.Logf("without adapting: %d refusals for %d answers", without.Rejected, without.Answered)
	if *full && 2*last.All.Rejected*without.Answered > without.Rejected*last.All.Answered {
		t.Errorf("%d refusals for %d answers, and %d for %d without adapting; want at most half of the share",
			last.All.Rejected, last.All.Answered, without.Rejected, without.Answered)
	}
	for _, account := range []*account{a, fixed} {
		if _, ever := account.seen(); ever > limit {
			t.Errorf("%d calls in flight, want at most %d", ever, limit)
		}
	}
}

// allowed is how many calls of the provider may be in flight now.
func (b *bench) allowed() int64 {
	b.t.Helper()
	limits, err := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}).InForce(b.t.Context())
	if err != nil || len(limits) != 1 {
		b.t.Fatal(limits, err)
	}
	return limits[0].Max
}
