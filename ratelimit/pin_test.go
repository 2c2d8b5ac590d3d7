package ratelimit

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A worker's own limits end with it, at a stop and after a death. Its registration, sent before and
// delivered afterwards, is refused.
func TestLateRegistrationPinsNothing(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		admin := tools(client)
		limits := []Limit{inFlight(Scope{Provider: "p"}, 2)}
		inForce := func(when string, want ...string) {
			t.Helper()
			holders, err := admin.Holders(t.Context())
			if err != nil || !slices.Equal(holders, want) {
				t.Errorf("%s: holders %v, %v; want %v", when, holders, err, want)
			}
		}
		pin := func(p *process, want bool) {
			t.Helper()
			if pinned, err := p.Pin(t.Context(), limits); err != nil || pinned != want {
				t.Errorf("Pin = %t, %v; want %t", pinned, err, want)
			}
		}
		stops, dies := start(t, connect(), "stops"), start(t, connect(), "dies")
		mustRelease(t, mustAcquire(t, stops, "a", openai)) // both have heartbeats
		mustRelease(t, mustAcquire(t, dies, "b", openai))
		pin(stops, true)
		pin(stops, true)
		pin(dies, true)
		inForce("while both live", WorkerHolder("dies"), WorkerHolder("stops"))

		if err := stops.stop(); err != nil {
			t.Fatal(err)
		}
		inForce("after a stop", WorkerHolder("dies"))
		pin(stops, false)
		inForce("after a registration that arrived after the stop", WorkerHolder("dies"))

		if err := admin.Forget(t.Context(), "dies"); err != nil {
			t.Fatal(err)
		}
		inForce("while its heartbeat is valid", WorkerHolder("dies"))
		late := New(connect(), Config{Worker: "dead"})
		if err := client.ZAdd(t.Context(), "{ef}:alive", redis.Z{Member: "dead", Score: 1}).Err(); err != nil {
			t.Fatal(err)
		}
		register(t, client, WorkerHolder("dead"), limits...) // by an earlier release
		if err := admin.Forget(t.Context(), "dead"); err != nil {
			t.Fatal(err)
		}
		inForce("after a dead worker was forgotten", WorkerHolder("dies"))
		if pinned, err := late.Pin(t.Context(), limits); pinned || err != nil {
			t.Errorf("Pin of a dead worker = %t, %v; want false", pinned, err)
		}
		inForce("after the registration of a dead worker", WorkerHolder("dies"))
	})
}

// A deletion forgets what was spent. Delivered again after the evaluation was submitted again and
// has spent something, it forgets nothing.
func TestLateDeletionForgetsNoSpending(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		admin, p := tools(client), start(t, connect(), "a")
		register(t, client, "ev-a", Budget("ev-a", 10*costly))
		tell := func(nano int64) {
			t.Helper()
			if err := admin.TellSpent(t.Context(), "ev-a", "", nano); err != nil {
				t.Fatal(err)
			}
		}
		spent := func(when string, want int64) {
			t.Helper()
			usage, err := admin.Usage(t.Context())
			if err != nil || len(usage) != 1 || usage[0].Spent != want {
				t.Errorf("%s: Usage = %+v, %v; want %d spent", when, usage, err, want)
			}
		}
		tell(2 * costly)
		saved, err := client.HMGet(t.Context(), admin.keys.money(Budget("ev-a", 0).ID()), "used", "told", "base").Result()
		if err != nil {
			t.Fatal(err)
		}
		if done, err := admin.ForgetSpent(t.Context(), "ev-a"); !done || err != nil {
			t.Fatalf("ForgetSpent = %t, %v", done, err)
		}
		spent("after the deletion", 0)

		tell(0)
		lease, err := acquireCosting(t, p, costly)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, lease)
		for i, value := range saved {
			if value == nil {
				saved[i] = "0"
			}
		}
		id := Budget("ev-a", 0).ID()
		done, err := unspendScript.Run(t.Context(), client, []string{admin.keys.money(id), admin.keys.leases(id)}, saved...).Bool()
		if done || err != nil {
			t.Errorf("the late deletion has forgotten: %t, %v", done, err)
		}
		spent("after the late deletion", costly)
	})
}

// What a process has summed in one memory of Redis opens no budget and no quota in the next, which
// may lack more.
func TestToldInAnotherMemory(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		admin := tools(client)
		quota := Limit{Scope: Scope{Provider: "p"}, Kind: Requests, Max: 10, Resets: "UTC"}
		register(t, client, "ev-a", Budget("ev-a", 10*costly), quota)
		if err := admin.Remember(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, _, err := admin.Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := client.HSet(t.Context(), "{ef}:limits", "epoch", "another", "since", time.Now().UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}

		if err := admin.TellSpent(t.Context(), "ev-a", before, 0); !errors.Is(err, ErrMemory) {
			t.Errorf("TellSpent = %v, want ErrMemory", err)
		}
		if untold, _, err := admin.Untold(t.Context(), "ev-a"); err != nil || !untold {
			t.Errorf("the budget is closed: %t, %v", untold, err)
		}
		asked := 0
		used := func(Scope, time.Time, time.Time, []string) (int64, bool, error) { asked++; return 3, true, nil }
		if err := admin.Reseed(t.Context(), "store", before, used); !errors.Is(err, ErrMemory) || asked == 0 {
			t.Errorf("Reseed = %v after %d questions, want ErrMemory", err, asked)
		}
		if err := admin.TellSpent(t.Context(), "ev-a", "another", 0); err != nil {
			t.Error(err)
		}
		if err := admin.Reseed(t.Context(), "store", "another", used); err != nil {
			t.Error(err)
		}
	})
}
