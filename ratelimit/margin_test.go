package ratelimit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// FuzzMarginsKeepTheWindow paces calls while the margin changes. Each is sent as late as its
// margin allows, or less, and its path is as long as the margin of the time says, or less. The
// provider counts every window.
func FuzzMarginsKeepTheWindow(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(uint16(600), uint16(10_000), uint8(2), seed)
		f.Add(uint16(20), uint16(1000), uint8(seed), seed)
	}
	f.Fuzz(func(t *testing.T, most, window uint16, burst uint8, seed uint64) {
		length := time.Duration(window) * time.Millisecond
		limit := Limit{Scope: Scope{Provider: "p"}, Kind: Requests, Max: int64(most), Period: length, Burst: int64(burst), Jitter: Measured,
			Window: Window{Sliding, length}}
		if limit.Validate() != nil || window < 500 {
			t.Skip()
		}
		random := rand.New(rand.NewPCG(seed, 1))
		draw := func() Margin {
			return spare(time.Duration(random.IntN(400))*time.Millisecond, time.Duration(random.IntN(300))*time.Millisecond)
		}
		margin := draw()
		with := func() *rule {
			kept, _ := margins{"p": margin}.settled(limit)
			return newRule(keys{}, limit.ID(), kept)
		}
		r, now, arrival := with(), int64(0), int64(0)
		var arrivals []int64
		for range 3*int(most) + 50 {
			if random.IntN(max(2, int(most)/3)) == 0 {
				was := margin
				margin = draw()
				r = with()
				arrival += r.pauses().shift(was, margin)
			}
			if random.IntN(int(most)+1) == 0 {
				now += random.Int64N(2 * length.Microseconds()) // no call for a while
			}
			now = max(now, arrival-int64(float64(r.burst-1)*r.interval))
			arrival = max(arrival, now) + int64(r.interval)
			late := margin.Send.Microseconds()
			path := margin.Path.Microseconds()
			if random.IntN(2) == 0 {
				late, path = random.Int64N(late+1), random.Int64N(path+1)
			}
			arrivals = append(arrivals, now+late+path)
		}
		slices.Sort(arrivals)
		for i := int(most); i < len(arrivals); i++ {
			if spread := arrivals[i] - arrivals[i-int(most)]; spread < length.Microseconds() {
				t.Fatalf("%d calls in %d µs, want at most %d in %d", most+1, spread, most, length.Microseconds())
			}
		}
	})
}

// The margin falls to what calls need, and rises when one is too late, which is then void.
func TestMarginIsMeasured(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := Limit{Scope: openai, Kind: Requests, Max: 600, Period: 10 * time.Second, Jitter: Measured, Window: Window{Sliding, 10 * time.Second}}
		register(t, client, "fleet", limit)
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		margin := func() Margin {
			usage, err := tools(client).Usage(t.Context())
			if err != nil || len(usage) != 1 {
				t.Fatalf("Usage = %v, %v", usage, err)
			}
			return usage[0].Margin
		}
		if got := margin(); got != unmeasured {
			t.Errorf("margin before anything was measured: %v, want %v", got, unmeasured)
		}
		testrun.Eventually(t, "the margin is the least", func() bool {
			for _, p := range []*process{a, b} {
				lease := mustAcquire(t, p, newID(), openai)
				lease.Connected(30 * time.Millisecond)
				if err := lease.Check(); err != nil {
					t.Fatal(err)
				}
				mustRelease(t, lease)
			}
			time.Sleep(100 * time.Millisecond)
			return margin() == Margin{leastSend, leastPath}
		})
		late := mustAcquire(t, a, newID(), openai)
		time.Sleep(60 * time.Millisecond)
		if late.Check() == nil {
			t.Error("a call that is later than the margin may be sent, want it void")
		}
		mustRelease(t, late)
		testrun.Eventually(t, "the margin rises for the late call", func() bool { return margin() == Margin{75 * time.Millisecond, leastPath} })
		// What another process sees of the path counts as well.
		lease := mustAcquire(t, b, newID(), openai)
		lease.Connected(130 * time.Millisecond)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
		mustRelease(t, lease)
		testrun.Eventually(t, "the path's variation is kept free", func() bool { return margin() == Margin{75 * time.Millisecond, 100 * time.Millisecond} })
	})
}
