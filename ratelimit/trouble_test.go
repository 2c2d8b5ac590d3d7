package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// failing reports that calls of openai failed, and returns what was found.
func failing(t testing.TB, p *process, f Failing) Reported {
	t.Helper()
	f.Scope, f.Class, f.Message = Scope{Provider: openai.Provider}, "transient", "no such host"
	found, err := p.Report(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// In an outage one call at a time is tried, and the first answer ends it.
func TestSuspendedCallsAreTriedOneAtATime(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		a := start(t, connect(), "a")
		if err := a.Suspend(t.Context(), openai); err != nil {
			t.Fatal(err)
		}
		if out, err := a.Suspended(t.Context(), openai); err != nil || !out {
			t.Errorf("Suspended = %t, %v", out, err)
		}
		probe := mustAcquire(t, a, newID(), openai)
		if scope, ok := CooldownScope(probe.BoundBy()); !ok || scope.Provider != openai.Provider {
			t.Errorf("the call that tries whether the outage is over was bound by %q", probe.BoundBy())
		}
		_, err := a.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Second})
		if r := refusal(err); r == nil || !r.Cooldown || r.Wait <= time.Second || r.Wait > 10*time.Second {
			t.Errorf("another call meanwhile: %v, want a refusal that is over in at most 10s", err)
		}
		mustRelease(t, probe)
		_, err = a.Acquire(t.Context(), Request{ID: newID(), Call: openai, MaxWait: time.Second})
		if refusal(err) == nil {
			t.Error("a call starts after one that was neither answered nor reported")
		}

		if ended, err := a.Answered(t.Context(), openai); err != nil || !ended {
			t.Errorf("Answered = %t, %v; want the end of an outage", ended, err)
		}
		for range 3 {
			mustRelease(t, mustAcquire(t, a, newID(), openai))
		}
		if ended, err := a.Answered(t.Context(), openai); err != nil || ended {
			t.Errorf("Answered = %t, %v; want that nothing ended", ended, err)
		}
	})
}

// Whose trouble failed calls are depends on what the provider answered others.
func TestWhoseTroubleItIs(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		a := start(t, connect(), "a")
		<-a.Beating() // only the troubles of living workers are listed
		found := func(what string, f Failing, want Reported) {
			t.Helper()
			if got := failing(t, a, f); got != want {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
		}
		within := Failing{For: time.Second, Within: time.Minute}
		found("alone", within, Reported{First: true})
		found("again", within, Reported{})
		found("no resources", Failing{Own: true}, Reported{Own: true, First: true})

		b := start(t, connect(), "b")
		<-b.Beating()
		if _, err := b.Answered(t.Context(), openai); err != nil {
			t.Fatal(err)
		}
		found("another is answered", within, Reported{Own: true, Answered: true})
		found("another was answered since the last report", Failing{For: time.Hour, Since: time.Minute}, Reported{Own: true, Answered: true})
		found("not since the last report", Failing{For: time.Hour, Since: time.Microsecond}, Reported{First: true, Answered: true})
		cooldowns, err := tools(connect()).Cooldowns(t.Context())
		if err != nil || len(cooldowns) != 1 || cooldowns[0].Worker != "a" || !cooldowns[0].Notable() || cooldowns[0].Trouble.Message != "no such host" {
			t.Errorf("Cooldowns = %+v, %v; want a's own trouble", cooldowns, err)
		}

		failing(t, b, within)
		found("the other has it too", within, Reported{Answered: true})
	})
}
