package ratelimit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	sliding := func(d time.Duration) Window { return Window{Shape: Sliding, Length: d} }
	for _, test := range []struct {
		name     string
		limit    Limit
		interval time.Duration
		burst    int64
	}{
		{"bucket", Limit{Max: 8, Period: time.Second, Burst: 16}, 125 * time.Millisecond, 16},
		{"bucket with a margin in its burst", Limit{Max: 50, Period: time.Second, Burst: 50, Jitter: 70 * time.Millisecond}, 20 * time.Millisecond, 46},
		{"bucket too small for a margin", Limit{Max: 50, Period: time.Second, Burst: 2, Jitter: 70 * time.Millisecond}, 20 * time.Millisecond, 1},
		{"bucket of unknown size", Limit{Max: 600, Period: 10 * time.Second, Jitter: time.Second}, 16667 * time.Microsecond, 6},
		{"window without a burst", Limit{Max: 600, Period: 10 * time.Second, Window: sliding(10 * time.Second)}, 16695 * time.Microsecond, 2},
		{"bucket of a fraction a second", Limit{Max: 1, Period: 5 * time.Second, Burst: 1}, 5 * time.Second, 1},
		{"burst of a tenth of a second", Limit{Max: 600, Period: 10 * time.Second}, 16667 * time.Microsecond, 6},
		{"burst rounded up", Limit{Max: 61, Period: time.Second}, 16394 * time.Microsecond, 7},
		{"burst at least one", Limit{Max: 60, Period: time.Minute}, time.Second, 1},
		{"minute window", Limit{Max: 600, Period: time.Minute, Burst: 5, Jitter: 500 * time.Millisecond, Window: sliding(time.Minute)},
			101511 * time.Microsecond, 5},
		{"second window", Limit{Max: 600, Period: time.Minute, Burst: 1, Jitter: 500 * time.Millisecond, Window: sliding(time.Second)},
			150 * time.Millisecond, 1},
		{"fixed is kept as sliding", Limit{Max: 600, Period: time.Minute, Burst: 1, Jitter: 500 * time.Millisecond, Window: Window{Fixed, time.Second}},
			150 * time.Millisecond, 1},
		{"burst larger than the window's worth", Limit{Max: 60, Period: time.Minute, Burst: 100, Window: sliding(10 * time.Second)},
			10 * time.Second, 10},
		{"window shorter than an interval", Limit{Max: 5, Period: time.Minute, Window: sliding(time.Second), Jitter: time.Second},
			13 * time.Second, 1},
		{"window of a call and a half", Limit{Max: 90, Period: time.Minute, Window: sliding(time.Second)}, time.Second, 1},
	} {
		test.limit.Kind = Requests
		if err := test.limit.Validate(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		interval, burst := test.limit.pace()
		if interval != test.interval || burst != test.burst {
			t.Errorf("%s: interval %s, burst %d; want %s, %d", test.name, interval, burst, test.interval, test.burst)
		}
	}
}

// FuzzPaceKeepsTheWindow sends calls as early as GCRA lets them, late by any
// part of the jitter (all, or only the first window's), and counts every window.
func FuzzPaceKeepsTheWindow(f *testing.F) {
	f.Add(uint16(600), uint16(60000), uint16(10000), uint16(100), uint8(6), uint64(1))
	f.Add(uint16(10), uint16(1000), uint16(1000), uint16(500), uint8(0), uint64(2))
	f.Fuzz(func(t *testing.T, most, period, window, jitter uint16, burst uint8, seed uint64) {
		limit := Limit{
			Kind: Requests, Max: int64(most), Period: time.Duration(period) * time.Millisecond, Burst: int64(burst),
			Jitter: time.Duration(jitter) * time.Millisecond,
			Window: Window{Sliding, time.Duration(window) * time.Millisecond},
		}
		if limit.Validate() != nil {
			t.Skip()
		}
		interval, b := limit.pace()
		random := rand.New(rand.NewPCG(seed, 0))
		allowed := int(scaled(limit.Max, limit.Window.Length, limit.Period))
		if allowed == 0 || allowed > 2000 {
			t.Skip()
		}
		var arrivals []time.Duration
		for i := range int64(3*allowed) + b {
			start := max(0, i-b+1) * int64(interval)
			late := time.Duration(0)
			if limit.Jitter > 0 && (seed%2 == 0 || i < int64(allowed)) {
				late = time.Duration(random.Int64N(int64(limit.Jitter)))
			}
			arrivals = append(arrivals, time.Duration(start)+late)
		}
		for _, end := range arrivals {
			n := 0
			for _, a := range arrivals {
				if a > end-limit.Window.Length && a <= end {
					n++
				}
			}
			if n > allowed {
				t.Fatalf("%d arrivals within %s, want at most %d (%+v: interval %s, burst %d)",
					n, limit.Window.Length, allowed, limit, interval, b)
			}
		}
	})
}

func TestTightest(t *testing.T) {
	t.Parallel()
	bucket := Limit{Kind: Requests, Max: 60, Period: time.Minute, Burst: 10}
	window := Limit{Kind: Requests, Max: 70, Period: time.Minute, Burst: 20, Jitter: time.Second, Window: Window{Sliding, 2 * time.Second}}
	for _, test := range []struct {
		name     string
		limits   []Limit
		max      int64
		interval time.Duration
		burst    int64
	}{
		{"concurrency", []Limit{{Kind: Concurrency, Max: 5}, {Kind: Concurrency, Max: 3}, {Kind: Concurrency, Max: 4}}, 3, 0, 0},
		{"one", []Limit{bucket}, 60, time.Second, 10},
		{"least rate and least burst", []Limit{bucket, {Kind: Requests, Max: 30, Period: time.Minute, Burst: 20}}, 30, 2 * time.Second, 10},
		{"a strict window beats a lower rate", []Limit{bucket, window}, 70, 3 * time.Second, 2},
	} {
		got := tightest(test.limits)
		if got.Max != test.max {
			t.Errorf("%s: max %d, want %d", test.name, got.Max, test.max)
		}
		if got.Kind == Concurrency {
			continue
		}
		if interval, burst := got.pace(); interval != test.interval || burst != test.burst {
			t.Errorf("%s: interval %s, burst %d; want %s, %d", test.name, interval, burst, test.interval, test.burst)
		}
	}
}

// Whichever comes first, the least quota holds, and what one holder says is
// charged as reserved is.
func TestTightestOfQuotasAndCharges(t *testing.T) {
	t.Parallel()
	few := Limit{Kind: Requests, Max: 5, Resets: "UTC"}
	many := Limit{Kind: Requests, Max: 100, Resets: "Asia/Tokyo"}
	tokens := Limit{Kind: Tokens, Max: 1000, Period: time.Minute, Window: Window{Sliding, time.Minute}}
	charged := tokens
	charged.Charged = true
	for _, c := range []struct {
		limits []Limit
		want   Limit
	}{
		{[]Limit{few, many}, Limit{Kind: Requests, Max: 5, Resets: "Asia/Tokyo"}},
		{[]Limit{many, few}, Limit{Kind: Requests, Max: 5, Resets: "Asia/Tokyo"}},
		{[]Limit{tokens, charged}, charged},
		{[]Limit{charged, tokens}, charged},
	} {
		if got := tightest(c.limits); got.Max != c.want.Max || got.Resets != c.want.Resets || got.Charged != c.want.Charged {
			t.Errorf("of %v: got %+v, want %+v", c.limits, got, c.want)
		}
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit Limit
		want  []string
	}{
		{Limit{Kind: Concurrency, Max: 1}, nil},
		{Limit{Kind: Concurrency}, []string{"max 0"}},
		{Limit{Kind: "words", Max: 1}, []string{`unknown kind "words"`}},
		{Limit{Kind: Requests, Max: 5, Resets: "Europe/Berlin"}, nil},
		{Limit{Kind: Requests, Max: 5, Resets: "Mars/Olympus"}, []string{"time zone"}},
		{Limit{Kind: Tokens, Max: 5, Resets: "UTC", Period: time.Second}, []string{"only requests", "no period"}},
		{Limit{Kind: Tokens, Max: 5, Period: time.Minute, Window: Window{Shape: Sliding, Length: time.Second}}, []string{"leaves nothing"}},
		{Limit{Kind: Tokens, Max: 5000, Period: time.Second, Window: Window{Shape: Sliding, Length: 5 * time.Millisecond}, Jitter: 500 * time.Millisecond}, []string{"too long for a window"}},
		{Limit{Kind: Requests, Burst: -1, Jitter: -1, Window: Window{Shape: "round"}},
			[]string{"max 0", "period 0s", "burst -1", "jitter -1ns", `shape "round"`}},
		{Limit{Kind: Requests, Max: 1, Period: time.Second, Window: Window{Shape: Sliding}}, []string{"window of 0s"}},
		{Limit{Kind: Requests, Max: 1, Period: time.Second, Window: Window{Length: time.Second}}, []string{"no length"}},
		{Limit{Kind: Requests, Max: 1, Period: 24 * time.Hour, Burst: 1000}, []string{"more than a year"}},
	} {
		err := test.limit.Validate()
		if (err == nil) != (test.want == nil) {
			t.Errorf("Validate(%+v) = %v, want %q", test.limit, err, test.want)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Validate(%+v) = %v, want it to say %q", test.limit, err, want)
			}
		}
	}
}
