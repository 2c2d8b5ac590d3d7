package ratelimit

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// openAll takes back every closure of an evaluation, or of a provider for it.
func openAll(ctx context.Context, a *Admin, of Scope) error {
	closures, err := a.Closures(ctx, of.Evaluation)
	if err != nil {
		return err
	}
	return a.Open(ctx, slices.DeleteFunc(closures, func(c Closure) bool { return c.Scope != of })...)
}

func mustOpen(t testing.TB, l *process, of Scope) {
	t.Helper()
	if err := openAll(t.Context(), tools(l.client), of); err != nil {
		t.Fatal(err)
	}
}

func TestClosedEvaluationBeginsNoCall(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "ev-a", inFlight(Scope{Evaluation: "ev-a"}, 1))
		a := start(t, connect(), "a")
		held := mustAcquire(t, a, newID(), openai)
		waits := make(chan *Lease, 1)
		go func() { waits <- mustAcquire(t, a, newID(), openai) }()
		testrun.Eventually(t, "a call waits", func() bool { return a.Waiting() == 1 })
		for range 2 {
			if err := tools(a.client).Close(t.Context(), Scope{Evaluation: "ev-a"}); err != nil {
				t.Fatal(err)
			}
		}
		mustRelease(t, held)
		other := Scope{Provider: "openai", Model: "gpt-5", Evaluation: "ev-b"}
		mustRelease(t, mustAcquire(t, a, newID(), other))
		select {
		case <-waits:
			t.Fatal("a call of a closed evaluation was admitted")
		case <-time.After(2 * patience):
		}
		mustOpen(t, a, Scope{Evaluation: "ev-a"})
		mustRelease(t, <-waits)
	})
}

// A provider that is closed for an evaluation begins no call of it; its other providers, and
// other evaluations' calls to the same one, continue.
func TestClosedProviderBeginsNoCallOfTheEvaluation(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		a := start(t, connect(), "a")
		scope := func(evaluation, provider string) Scope {
			return Scope{Provider: provider, Model: "m", Evaluation: evaluation}
		}
		for _, evaluation := range []string{"ev-a", "ev-a2"} { // a holder is not found by how it begins
			if err := tools(a.client).Close(t.Context(), Scope{Evaluation: evaluation, Provider: "openai"}); err != nil {
				t.Fatal(err)
			}
		}
		waits := func(call Scope) chan *Lease {
			admitted := make(chan *Lease, 1)
			before := a.Waiting()
			go func() { admitted <- mustAcquire(t, a, newID(), call) }()
			testrun.Eventually(t, "a call waits", func() bool { return a.Waiting() > before })
			return admitted
		}
		closed, other := waits(scope("ev-a", "openai")), waits(scope("ev-a2", "openai"))
		for _, call := range []Scope{scope("ev-a", "google"), scope("ev-b", "openai")} {
			mustRelease(t, mustAcquire(t, a, newID(), call))
		}
		mustOpen(t, a, Scope{Evaluation: "ev-a"}) // the evaluation is, and its provider not
		select {
		case <-closed:
			t.Fatal("a call of a closed provider was admitted")
		case <-time.After(2 * patience):
		}
		mustOpen(t, a, Scope{Evaluation: "ev-a", Provider: "openai"})
		mustRelease(t, <-closed)
		select {
		case <-other:
			t.Fatal("opening an evaluation opened another, whose id begins with its")
		case <-time.After(2 * patience):
		}
		mustOpen(t, a, Scope{Evaluation: "ev-a2", Provider: "openai"})
		mustRelease(t, <-other)
	})
}

// A provider's headers tighten a limit and never loosen it.
func TestHeadersTighten(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		window := tokens(1000, time.Minute, 0)
		pace := Limit{Scope: Scope{Provider: "openai"}, Kind: Requests, Max: 60, Period: time.Minute, Burst: 10}
		register(t, client, "fleet", window, pace)
		p := start(t, connect(), "w")
		call := func(tokens, leftTokens, leftCalls int64) (wait time.Duration) {
			lease, err := p.Acquire(t.Context(), Request{ID: newID(), Call: openai, Input: tokens, MaxWait: 10 * time.Millisecond})
			if refused := refusal(err); refused != nil {
				return refused.Wait
			}
			if err != nil {
				t.Fatal(err)
			}
			lease.Settle(Settlement{Left: []Left{{Tokens, leftTokens}, {Requests, leftCalls}}})
			mustRelease(t, lease)
			return 0
		}
		call(100, 5000, 50) // more than there is: nothing changes
		if wait := call(800, 100, 50); wait != 0 {
			t.Errorf("800 of 900 tokens wait %s, want none", wait)
		}
		if wait := call(0, 40, 50); wait != 0 {
			t.Errorf("a call of no tokens waits %s, want none", wait)
		}
		if wait := call(60, 40, 50); wait < 30*time.Second {
			t.Errorf("60 tokens of 40 that are left wait %s, want about a minute", wait)
		}
		if wait := call(40, 0, 0); wait != 0 {
			t.Errorf("40 tokens of 40 wait %s, want none", wait)
		}
		if wait := call(0, 0, 0); wait > time.Second || exact(t) && wait < 900*time.Millisecond {
			t.Errorf("a call after none was left waits %s, want one interval of a second", wait)
		}
	})
}
