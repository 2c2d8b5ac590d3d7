package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A service tier without capacity holds back calls of that tier alone. A refusal under a limit that the provider names
// holds back the calls of all tiers.
func TestTierWithoutCapacity(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		pace := rate(100, time.Second, 100)
		pace.Scope = openai
		adaptive := inFlight(openai, 8)
		adaptive.Adaptive = true
		register(t, client, "fleet", pace, adaptive)
		if err := tools(client).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}

		p := start(t, connect(), "a")
		standard := Scope{Provider: "openai", Model: "gpt-5"}
		flex := standard
		flex.Tier = "flex"
		refuse := func(kind Kind) {
			t.Helper()
			lease := mustAcquire(t, p, newID(), flex)
			if err := lease.Cool(t.Context(), kind, time.Hour); err != nil {
				t.Fatal(err)
			}
			lease.Settle(Settlement{Refused: true, Exceeded: kind})
			mustRelease(t, lease)
		}
		waits := func(call Scope) bool {
			t.Helper()
			lease, err := p.Acquire(t.Context(), Request{ID: newID(), Call: call, MaxWait: time.Second})
			if err != nil {
				return true
			}
			mustRelease(t, lease)
			return false
		}

		refuse("")
		if !waits(flex) || waits(standard) {
			t.Errorf("after a refusal for want of capacity: flex waits: %t, the standard tier waits: %t", waits(flex), waits(standard))
		}
		cooling, err := tools(client).Cooldowns(t.Context())
		if err != nil || len(cooling) != 1 {
			t.Fatalf("Cooldowns = %+v, %v; want one", cooling, err)
		}
		if scope, ok := cooling[0].Scope(); !ok || scope != flex || cooling[0].String() != "model openai:gpt-5, tier flex: cooldown" {
			t.Errorf("the cooldown is %q, of %+v", cooling[0], scope)
		}
		usage, err := tools(client).Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range usage {
			if u.Limit.Adaptive && u.Limit.Max != 8 {
				t.Errorf("the adaptive limit was cut to %d", u.Limit.Max)
			}
		}

		other := standard
		other.Tier = "priority"
		if lease := mustAcquire(t, p, newID(), other); lease.Cool(t.Context(), Requests, time.Hour) != nil {
			t.Error("the lease starts no cooldown")
		} else {
			mustRelease(t, lease)
		}
		if !waits(standard) {
			t.Error("a call of another tier starts although the provider refused calls under a limit of all")
		}
	})
}
