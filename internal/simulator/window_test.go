package simulator

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// event is what a brute-force count knows of a window: what was charged at which
// time, and what was settled later.
type event struct {
	at      time.Time
	cost    int // what a charge has become; what a settlement gives back, below 0
	settles bool
}

// TestWindowsAgainstTheirDefinition sends random arrivals of random cost, settles
// some of them later, and checks each decision by counting all that was before.
func TestWindowsAgainstTheirDefinition(t *testing.T) {
	t.Parallel()
	const n, burst, length = 17, 9, time.Second
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sum := func(events []event, counts func(at time.Time) bool) (total int) {
		for _, e := range events {
			if !e.settles && counts(e.at) {
				total += e.cost
			}
		}
		return total
	}
	for shape, room := range map[Shape]func(events []event, now time.Time) float64{
		Sliding: func(events []event, now time.Time) float64 {
			return float64(n - sum(events, func(at time.Time) bool { return now.Sub(at) < length }))
		},
		Fixed: func(events []event, now time.Time) float64 {
			return float64(n - sum(events, func(at time.Time) bool { return at.Unix() == now.Unix() }))
		},
		// A bucket is nowhere above its burst, neither before nor after an event,
		// and loses since then what was charged and gains what flowed in.
		Bucket: func(events []event, now time.Time) float64 {
			level, since := float64(burst), 0.0
			for i := len(events) - 1; i >= 0; i-- {
				full := burst + now.Sub(events[i].at).Seconds()*n/length.Seconds()
				level = min(level, full-since)
				since += float64(events[i].cost)
				level = min(level, full-since)
			}
			return level
		},
	} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			rate := Rate{N: n, Window: length, Shape: shape}
			if shape == Bucket {
				rate.Burst = burst
			}
			w := newWindow(rate)
			random := rand.New(rand.NewPCG(1, uint64(len(shape))))
			var events []event
			refused, settled := 0, 0
			for now := start; refused < 1000; now = now.Add(time.Duration(random.IntN(250)) * time.Millisecond) {
				cost := 1 + random.IntN(rate.largest())
				wait, free := w.wait(now, cost), room(events, now)
				if (wait == 0) != (float64(cost) <= free+grain) {
					t.Fatalf("%v after the start, cost %d: wait %v, want room for %v", now.Sub(start), cost, wait, free)
				}
				if got, want := w.left(now), max(0, int(free+grain)); got != want {
					t.Fatalf("left: got %d, want %d", got, want)
				}
				if wait > 0 {
					refused++
					if early := now.Add(wait - time.Microsecond); wait > time.Microsecond && w.wait(early, cost) == 0 {
						t.Fatalf("cost %d: room a microsecond before the end of a wait of %v", cost, wait)
					}
					now = now.Add(wait)
					if again := w.wait(now, cost); again != 0 || room(events, now)+grain < float64(cost) {
						t.Fatalf("after waiting %v: wait %v", wait, again)
					}
				}
				w.take(now, cost)
				events = append(events, event{at: now, cost: cost})
				if i := len(events) - 1 - random.IntN(4); i >= 0 && !events[i].settles && events[i].cost > 1 {
					settled++
					by := -random.IntN(events[i].cost)
					now = now.Add(time.Duration(random.IntN(700)) * time.Millisecond)
					w.settle(now, events[i].at, by)
					if shape == Bucket {
						events = append(events, event{at: now, cost: by, settles: true})
					} else {
						events[i].cost += by
					}
				}
				if random.IntN(10) == 0 {
					now = now.Add(w.reset(now))
					if got := w.left(now); got != rate.largest() {
						t.Fatalf("left after the reset: got %d, want %d", got, rate.largest())
					}
				}
			}
			if settled < 200 {
				t.Errorf("settled: got %d, want some hundreds", settled)
			}
		})
	}
}

func TestBusiestWindow(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	arrivals := []int{600, 700, 800, 1100, 1200, 2300}
	for fixed, want := range map[bool]int{false: 50, true: 30} {
		b := busiest{fixed: fixed, length: time.Second}
		for _, ms := range arrivals {
			b.note(start.Add(time.Duration(ms)*time.Millisecond), 10)
		}
		if b.most != want {
			t.Errorf("fixed %v: got %d, want %d", fixed, b.most, want)
		}
		b.change(start.Add(2300*time.Millisecond), -9)
		b.note(start.Add(2400*time.Millisecond), want)
		if b.most != want+1 {
			t.Errorf("fixed %v, after a settlement: got %d, want %d", fixed, b.most, want+1)
		}
	}
}

func TestConfigAsJSON(t *testing.T) {
	t.Parallel()
	const written = `{"max_in_flight":16,"requests":"60/1m0s bucket:5, 1000/24h0m0s fixed","tokens":"200000/1m0s bucket","charge":"settle","latency":"200ms..2s","answer_tokens":"200..800","hang_rate":0.1,"seed":7,"keep_arrivals":100,` +
		`"models":{"slow":{"max_in_flight":2,"requests":"5/1s fixed","behaviour":{"latency":"5s","answer_tokens":"3"}}}}`
	var got Config
	if err := json.Unmarshal([]byte(written), &got); err != nil {
		t.Fatal(err)
	}
	want := Config{
		Limits: Limits{
			MaxInFlight: 16,
			Requests:    Rates{{N: 60, Window: time.Minute, Shape: Bucket, Burst: 5}, {N: 1000, Window: 24 * time.Hour, Shape: Fixed}},
			Tokens:      Rates{{N: 200_000, Window: time.Minute, Shape: Bucket}},
			Charge:      Settle,
		},
		Behaviour: Behaviour{Latency: Span{200 * time.Millisecond, 2 * time.Second}, AnswerTokens: Range{200, 800}, HangRate: 0.1},
		Seed:      7,

		KeepArrivals: 100,
		Models: map[string]Model{"slow": {
			Limits:    Limits{MaxInFlight: 2, Requests: Rates{{N: 5, Window: time.Second, Shape: Fixed}}},
			Behaviour: &Behaviour{Latency: Span{5 * time.Second, 5 * time.Second}, AnswerTokens: Range{3, 3}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate: %v", err)
	}
	again, err := json.Marshal(got)
	if err != nil || string(again) != written {
		t.Errorf("written: got %s, %v, want %s", again, err, written)
	}
}

func TestBadConfigs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"latency":"5"}`, `{"latency":"2s..1s"}`, `{"latency":"-1s"}`, `{"requests":"60"}`, `{"requests":"0/1m"}`, `{"requests":"6/0s"}`,
		`{"requests":"6/1s round"}`, `{"requests":"6/1s fixed:3"}`, `{"requests":"6/1s bucket:0"}`, `{"requests":"0/0s"}`, `{"requests":""}`, `{"requests":"6/1s,"}`,
		`{"tokens":"6"}`, `{"input_tokens":"0/1m"}`, `{"output_tokens":"6/1s, 0/1m"}`, `{"charge":"later"}`, `{"answer_tokens":"0"}`, `{"answer_tokens":"9..8"}`, `{"keep_arrivals":-1}`,
		`{"other_requests":"5/1s fixed"}`, `{"other_tokens":-1}`, `{"throttle_rate":2}`, `{"throttle_every":-1}`, `{"throttle_between":"2s..1s"}`, `{"hints":"some"}`,
		`{"fail_rate":1.5}`, `{"fail_status":200}`, `{"fail_every":-1}`, `{"max_in_flight":-1}`, `{"models":{"m":{"behaviour":{"cut_rate":-1}}}}`,
	} {
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err == nil && c.Validate() == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}
