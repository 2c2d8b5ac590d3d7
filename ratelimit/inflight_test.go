package ratelimit

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// A lease knows how many calls of all processes are in flight beside its own, under
// the evaluation's bound where there is one.
func TestInFlight(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{Provider: "openai"}, 3), inFlight(Scope{Evaluation: "ev-a"}, 20),
			inFlight(Scope{Provider: "google"}, 9), inFlight(Scope{}, 30))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		acquire := func(p *process, call Scope) *Lease { return mustAcquire(t, p, newID(), call) }
		is := func(what string, e *Lease, want int64) {
			t.Helper()
			if got := e.InFlight(); got != want {
				t.Errorf("%s: %d in flight, want %d", what, got, want)
			}
		}
		first := acquire(a, openai)
		is("the first", first, 1)
		second := acquire(b, openai)
		is("one of another process", second, 2)
		third := acquire(b, Scope{Provider: "google", Model: "m", Evaluation: "ev-a"})
		is("one of another provider", third, 3)
		is("with what the process was told last", first, 1)
		mustRelease(t, second)
		is("after one of its own was released", second, 2)
		is("and of what is left", third, 2)
		fourth := acquire(a, Scope{Provider: "google", Model: "m", Evaluation: "ev-b"})
		is("of an evaluation without a bound, of the tightest", fourth, 2)
		mustRelease(t, first)
		is("when all of its own are released", first, 1)
		mustRelease(t, third)
		mustRelease(t, fourth)
		free := acquire(a, Scope{Provider: "other", Model: "m"})
		is("under the fleet's bound alone", free, 1)
		mustRelease(t, free)
	})
}
