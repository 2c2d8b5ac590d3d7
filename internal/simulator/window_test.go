package simulator

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWindowsAgainstTheirDefinition sends random arrivals and checks each
// decision by counting all those admitted before.
func TestWindowsAgainstTheirDefinition(t *testing.T) {
	t.Parallel()
	const n, burst, length = 7, 3, time.Second
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for shape, room := range map[Shape]func(admitted []time.Time, now time.Time) bool{
		Sliding: func(admitted []time.Time, now time.Time) bool {
			recent := 0
			for _, at := range admitted {
				if now.Sub(at) < length {
					recent++
				}
			}
			return recent < n
		},
		Fixed: func(admitted []time.Time, now time.Time) bool {
			same := 0
			for _, at := range admitted {
				if at.Unix() == now.Unix() {
					same++
				}
			}
			return same < n
		},
		// Of a bucket: no stretch that ends now has more than its burst and what
		// flowed in meanwhile.
		Bucket: func(admitted []time.Time, now time.Time) bool {
			for i, at := range admitted {
				if float64(len(admitted)-i+1) > burst+now.Sub(at).Seconds()*n/length.Seconds()+1e-6 {
					return false
				}
			}
			return true
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
			var admitted []time.Time
			for now, refused := start, 0; refused < 300; now = now.Add(time.Duration(random.IntN(250)) * time.Millisecond) {
				wait, want := w.wait(now), room(admitted, now)
				if (wait == 0) != want {
					t.Fatalf("%v after the start, %d admitted: wait %v, want room: %v", now.Sub(start), len(admitted), wait, want)
				}
				if wait > 0 {
					refused++
					if w.left(now) != 0 {
						t.Fatalf("left: got %d while there is a wait", w.left(now))
					}
					now = now.Add(wait) // exactly then there is room
					if again := w.wait(now); again != 0 || !room(admitted, now) {
						t.Fatalf("after waiting %v: wait %v", wait, again)
					}
				}
				left := w.left(now)
				w.take(now)
				admitted = append(admitted, now)
				if got := w.left(now); got != left-1 {
					t.Fatalf("left: got %d after taking one of %d", got, left)
				}
			}
		})
	}
}

func TestBusiestWindow(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	arrivals := []int{600, 700, 800, 1100, 1200, 2300}
	for fixed, want := range map[bool]int{false: 5, true: 3} {
		b := busiest{fixed: fixed, length: time.Second}
		for _, ms := range arrivals {
			b.note(start.Add(time.Duration(ms) * time.Millisecond))
		}
		if b.most != want {
			t.Errorf("fixed %v: got %d, want %d", fixed, b.most, want)
		}
	}
}

func TestConfigAsJSON(t *testing.T) {
	t.Parallel()
	const written = `{"max_in_flight":16,"requests":"60/1m0s bucket:5","latency":"200ms..2s","hang_rate":0.1,"seed":7,` +
		`"models":{"slow":{"max_in_flight":2,"requests":"5/1s fixed","behaviour":{"latency":"5s"}}}}`
	var got Config
	if err := json.Unmarshal([]byte(written), &got); err != nil {
		t.Fatal(err)
	}
	want := Config{
		Limits:    Limits{MaxInFlight: 16, Requests: Rate{N: 60, Window: time.Minute, Shape: Bucket, Burst: 5}},
		Behaviour: Behaviour{Latency: Span{200 * time.Millisecond, 2 * time.Second}, HangRate: 0.1},
		Seed:      7,
		Models: map[string]Model{"slow": {
			Limits:    Limits{MaxInFlight: 2, Requests: Rate{N: 5, Window: time.Second, Shape: Fixed}},
			Behaviour: &Behaviour{Latency: Span{5 * time.Second, 5 * time.Second}},
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
		`{"requests":"6/1s round"}`, `{"requests":"6/1s fixed:3"}`, `{"requests":"6/1s bucket:0"}`, `{"requests":"0/0s"}`,
		`{"fail_rate":1.5}`, `{"fail_status":200}`, `{"fail_every":-1}`, `{"max_in_flight":-1}`, `{"models":{"m":{"behaviour":{"cut_rate":-1}}}}`,
	} {
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err == nil && c.Validate() == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}
