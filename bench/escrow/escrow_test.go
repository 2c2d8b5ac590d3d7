package escrow

import "testing"

// schedules is how many random schedules each test plays.
const schedules = 100

func config(faults bool) Config {
	return Config{Shards: 4, Limit: 24, Length: 20_000, Faults: faults}
}

// TestNeverOver plays schedules in which messages are lost, late and repeated, and in which
// shards and the ledger fall back to an older memory.
func TestNeverOver(t *testing.T) {
	calls, losses := 0, 0
	for seed := range uint64(schedules) {
		r := Simulate(config(true), seed)
		if r.Violations != 0 || r.Overlent != 0 || r.Peak > 24 {
			t.Errorf("seed %d: %d calls above the limit, at most %d in flight of 24; overlent at %d looks", seed, r.Violations, r.Peak, r.Overlent)
		}
		calls, losses = calls+r.Calls, losses+r.Losses
	}
	if calls < 100_000 || losses < 2_000 {
		t.Errorf("only %d calls and %d losses: the schedules show nothing", calls, losses)
	}
	t.Logf("%d calls, %d losses of memory, none above the limit", calls, losses)
}

// TestEverySafeguardIsNeeded leaves out one safeguard after another. Each time a part of the
// limit must be lent twice, or the schedules of TestNeverOver would prove nothing about it.
func TestEverySafeguardIsNeeded(t *testing.T) {
	for _, left := range Safeguards {
		t.Run(left.String(), func(t *testing.T) {
			c := config(true)
			c.Without = left
			for seed := range uint64(20 * schedules) {
				if r := Simulate(c, seed); r.Overlent > 0 {
					t.Logf("schedule %d: too much was lent at %d looks, and %d calls began above the limit", seed+1, r.Overlent, r.Violations)
					return
				}
			}
			t.Error("no schedule lent too much")
		})
	}
}

// TestLimitIsUsed bounds what the protocol costs while some shard has work and nothing fails.
func TestLimitIsUsed(t *testing.T) {
	for seed := range uint64(20) {
		if r := Simulate(config(false), seed); r.Used < .9 || r.Violations != 0 {
			t.Errorf("seed %d: %.3f of the limit in use and %d violations, want 0.9 or more and none", seed, r.Used, r.Violations)
		}
	}
	t.Logf("%.3f of the limit in use (seed 0)", Simulate(config(false), 0).Used)
}
