package simulator

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestAnotherClientTakesItsPart sends no other requests, and asks now and then for the
// remainder.
func TestAnotherClientTakesItsPart(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		rate Rate
		want []int // left after 1s, 20s, 21s, 90s
	}{
		"sliding":    {Rate{N: 60, Window: time.Minute}, []int{58, 20, 18, 0}},
		"fixed":      {Rate{N: 150, Window: time.Minute, Shape: Fixed}, []int{148, 110, 108, 89}},
		"bucket":     {Rate{N: 30, Window: time.Minute, Shape: Bucket, Burst: 60}, []int{58, 29, 28, 0}},
		"their size": {Rate{N: 300, Window: time.Minute}, []int{298, 260, 258, 180}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScope(Limits{
				Requests:      Rates{test.rate},
				Tokens:        Rates{{N: 10_000, Window: time.Hour}},
				OutputTokens:  Rates{{N: 10_000, Window: time.Hour}},
				OtherRequests: Rate{N: 2, Window: time.Second},
				OtherTokens:   11,
			}, began)
			for i, seconds := range []int{1, 20, 21, 90} {
				now := began.Add(time.Duration(seconds) * time.Second)
				s.other.until(now, s)
				if got := s.limits[0].window.left(now); got != test.want[i] {
					t.Errorf("left after %ds: got %d, want %d", seconds, got, test.want[i])
				}
				sent := int(s.counts.other)
				if got, want := s.limits[1].window.left(now), 10_000-11*sent; got != want || sent > 2*seconds || sent == 0 {
					t.Errorf("tokens left after %ds and %d requests: got %d, want %d", seconds, sent, got, want)
				}
				if got, want := s.limits[2].window.left(now), 10_000-5*sent; got != want {
					t.Errorf("output tokens left after %d requests: got %d, want %d", sent, got, want)
				}
			}
		})
	}
}

func TestAnotherClientShowsInTheHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Limits: Limits{Requests: Rates{{N: 50, Window: time.Hour}}, OtherRequests: Rate{N: 200, Window: time.Second}}})
	last := 50
	var c completion
	for deadline := testrun.Deadline(t); c.status != http.StatusTooManyRequests && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		c = s.mustAsk(t, prompt("careful", "x"))
		left, err := strconv.Atoi(c.header.Get("X-Ratelimit-Remaining-Requests"))
		if err != nil || left >= last && last > 0 {
			t.Errorf("remaining: got %d, %v, after %d", left, err, last)
		}
		last = left
	}
	got := s.Stats().All
	if limit := got.Limits[0]; c.status != http.StatusTooManyRequests || got.OtherRequests+limit.Charged != 50 || got.Arrived > 40 {
		t.Errorf("got %+v, then %+v; want 50 taken together", got, c)
	}
}

func TestThrottledWithoutALimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behaviour Behaviour
		low, high int // refused of 60
	}{
		"a share":    {Behaviour{ThrottleRate: 0.3}, 8, 28},
		"every":      {Behaviour{ThrottleEvery: 3}, 20, 20},
		"a time off": {Behaviour{ThrottleBetween: Span{time.Hour, 2 * time.Hour}}, 0, 0},
		"a time":     {Behaviour{ThrottleBetween: Span{0, time.Hour}}, 60, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Behaviour: test.behaviour, Limits: Limits{Requests: Rates{{N: 100, Window: time.Hour}}}})
			refused := 0
			for range 60 {
				c := s.mustAsk(t, prompt("careful", "the same")) // what is refused is not refused for ever
				if c.status != http.StatusTooManyRequests {
					continue
				}
				refused++
				if c.header.Get("Retry-After") == "" || !strings.HasPrefix(c.error, "rate_limit_exceeded") {
					t.Errorf("got %+v", c)
				}
			}
			if refused < test.low || refused > test.high {
				t.Errorf("refused: got %d of 60, want %d to %d", refused, test.low, test.high)
			}
			got := s.Stats().All
			if got.RejectedBy["throttled"] != int64(refused) || got.Limits[0].Charged != int64(60-refused) || got.Arrived != 60 {
				t.Errorf("counted: got %+v", got)
			}
		})
	}
}

func TestAThrottleEnds(t *testing.T) {
	t.Parallel()
	const length = 400 * time.Millisecond
	var s *Server
	var c completion
	testrun.Eventually(t, "a first request before the throttle ends", func() bool {
		s = start(t, Config{Behaviour: Behaviour{ThrottleBetween: Span{0, length}}})
		c = s.mustAsk(t, prompt("careful", "x"))
		return c.status != http.StatusOK
	})
	after, err := strconv.Atoi(c.header.Get("Retry-After-Ms"))
	if c.status != http.StatusTooManyRequests || err != nil || after < 1 || after > 400 {
		t.Fatalf("got %+v, want a hint of 400ms at most", c)
	}
	time.Sleep(time.Duration(after) * time.Millisecond)
	if c := s.mustAsk(t, prompt("careful", "x")); c.status != http.StatusOK {
		t.Errorf("after %dms: got %+v", after, c)
	}
}

func TestHintsAndHeadersCanBeKeptBack(t *testing.T) {
	t.Parallel()
	const exact = 1300 * time.Millisecond
	for how, want := range map[Hint]string{"": "2 1300", HintBoth: "2 1300", HintSeconds: "2 ", HintNone: " "} {
		for _, without := range []bool{false, true} {
			for status, b := range map[int]Behaviour{429: {ThrottleRate: 1}, 500: {FailRate: 1}} {
				b.RetryAfter, b.Hints, b.WithoutLimitHeaders = Span{exact, exact}, how, without
				s := start(t, Config{Behaviour: b, Limits: Limits{Requests: Rates{{N: 9, Window: time.Hour}}}})
				c := s.mustAsk(t, prompt("careful", "x"))
				if got := fmt.Sprint(c.header.Get("Retry-After"), " ", c.header.Get("Retry-After-Ms")); got != want || c.status != status {
					t.Errorf("hints %q: got %q with status %d, want %q with %d", how, got, c.status, want, status)
				}
				if told := c.header.Get("X-Ratelimit-Limit-Requests") != ""; told == without {
					t.Errorf("limit headers: got %v, without_limit_headers is %v", told, without)
				}
			}
		}
	}
}
