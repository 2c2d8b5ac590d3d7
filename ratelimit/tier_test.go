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
		account := Scope{Provider: "openai"}
		pace.Scope = account
		adaptive := inFlight(account, 8)
		adaptive.Adaptive = true
		register(t, client, "fleet", pace, adaptive)
		if err := tools(client).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}

		p := start(t, connect(), "a")
		standard := Scope{Provider: "openai", Model: "gpt-5"}
		flex := standard
		flex.Tier = "flex"
		refuse := func(call Scope, cool time.Duration) {
			t.Helper()
			lease := mustAcquire(t, p, newID(), call)
			if err := lease.Cool(t.Context(), "", cool); err != nil {
				t.Fatal(err)
			}
			lease.Settle(Settlement{Refused: true})
			mustRelease(t, lease)
		}
		allows := func(most int64) {
			t.Helper()
			usage, err := tools(client).Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range usage {
				if u.Limit.Adaptive && u.Limit.Max != most {
					t.Fatalf("the adaptive limit allows %d, want %d", u.Limit.Max, most) // calls would wait
				}
			}
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

		var beside []*Lease // a refusal of the only call in flight cuts nothing
		for range 4 {
			beside = append(beside, mustAcquire(t, p, newID(), standard))
		}
		refuse(flex, time.Hour)
		allows(8)
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
		refuse(standard, time.Millisecond)
		allows(3) // seven tenths of five
		for _, lease := range beside {
			mustRelease(t, lease)
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
