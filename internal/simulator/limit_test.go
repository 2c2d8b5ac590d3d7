package simulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func bounded(text string, most int) map[string]any {
	body := prompt("careful", text)
	body["max_completion_tokens"] = most
	return body
}

// admittedOf asks the same again and again, and counts the answers before the
// first 429.
func (s *Server) admittedOf(t *testing.T, body map[string]any) (admitted int, refused completion) {
	t.Helper()
	for ; admitted < 100; admitted++ {
		if refused = s.mustAsk(t, body); refused.status == http.StatusTooManyRequests {
			return admitted, refused
		}
	}
	t.Fatal("never refused")
	return
}

func TestSeveralLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	day := Rate{N: 6, Window: 24 * time.Hour, Shape: Fixed}
	s := start(t, Config{
		Limits: Limits{Requests: Rates{{N: 4, Window: 200 * time.Millisecond}, day}},
		Models: map[string]Model{"dear": {Limits: Limits{Requests: Rates{{N: 1, Window: time.Hour}}}}},
	})
	got := s.mustAsk(t, prompt("dear", "x"))
	if got.status != http.StatusOK {
		t.Fatalf("got %+v", got)
	}
	if got = s.mustAsk(t, prompt("dear", "x")); !strings.Contains(got.error, "requests per hour") {
		t.Errorf("refused: got %+v", got)
	}
	// The model's refusal took nothing from the endpoint's limits.
	admitted := 0
	testrun.EventuallyGot(t, "a refusal by requests per day", func() (string, bool) {
		if got = s.mustAsk(t, prompt("careful", "x")); got.status == http.StatusOK {
			admitted++
		}
		return got.error, strings.Contains(got.error, "requests per day")
	})
	if admitted != 5 {
		t.Errorf("admitted in a day beside one of the dear model: got %d, want 5", admitted)
	}
	if after := got.header.Get("Retry-After"); len(after) < 2 { // unless it is midnight
		t.Errorf("retry after: got %q, want what is left of the day", after)
	}
	if c := s.Stats().All; c.Limits[0].Charged != 6 || c.Limits[1].Charged != 6 || c.RejectedBy["requests 6/24h0m0s fixed"] == 0 {
		t.Errorf("counted: got %+v", c)
	}
}

func TestTokensAreCharged(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 20)
	usage := start(t, Config{}).mustAsk(t, prompt("careful", text)).usage
	in, out := usage["prompt_tokens"], usage["completion_tokens"]
	if in != 29 || out < 10 {
		t.Fatalf("usage: got %v", usage)
	}
	const most, n = 100, 450
	for name, test := range map[string]struct {
		limits   Limits
		admitted int
		charged  int // each
		kind     string
	}{
		"input":          {Limits{InputTokens: Rates{{N: n, Window: time.Hour}}}, n / in, in, "input tokens per hour"},
		"output":         {Limits{OutputTokens: Rates{{N: n, Window: time.Hour}}}, n / out, out, "output tokens per hour"},
		"both":           {Limits{Tokens: Rates{{N: n, Window: time.Hour}}}, n / (in + out), in + out, "tokens per hour"},
		"bucket":         {Limits{Tokens: Rates{{N: 1, Window: time.Hour, Shape: Bucket, Burst: n}}}, n / (in + out), in + out, "tokens per hour"},
		"fixed":          {Limits{Tokens: Rates{{N: n, Window: 1000 * time.Hour, Shape: Fixed}}}, n / (in + out), in + out, "tokens per 1000h"},
		"reserved":       {Limits{Tokens: Rates{{N: n, Window: time.Hour}}, Charge: Reserve}, n / (in + most), in + most, "tokens per hour"},
		"reserved input": {Limits{InputTokens: Rates{{N: n, Window: time.Hour}}, Charge: Reserve}, n / in, in, "input tokens per hour"},
		"settled":        {Limits{Tokens: Rates{{N: n, Window: time.Hour}}, Charge: Settle}, (n-in-most)/(in+out) + 1, in + out, "tokens per hour"},
		"settled output": {Limits{OutputTokens: Rates{{N: n, Window: time.Hour}}, Charge: Settle}, (n-most)/out + 1, out, "output tokens per hour"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Limits: test.limits})
			admitted, refused := s.admittedOf(t, bounded(text, most))
			if admitted != test.admitted || !strings.Contains(refused.error, " "+test.kind) || refused.header.Get("Retry-After") == "" {
				t.Errorf("admitted: got %d, want %d, then %+v of %s", admitted, test.admitted, refused, test.kind)
			}
			got := s.Stats().All
			limit := got.Limits[0]
			if want := int64(admitted * test.charged); limit.Charged != want || got.RejectedBy[limit.Limit] != 1 {
				t.Errorf("charged: got %+v, want %d; %v", limit, want, got.RejectedBy)
			}
			if got.InputTokens != int64(admitted*in) || got.OutputTokens != int64(admitted*out) {
				t.Errorf("used: got %d and %d, want %d times %d and %d", got.InputTokens, got.OutputTokens, admitted, in, out)
			}
		})
	}
}

func TestAModelChargesLikeTheEndpoint(t *testing.T) {
	t.Parallel()
	limits := Limits{OutputTokens: Rates{{N: 1000, Window: time.Hour}}}
	own := limits
	own.Charge = Actual
	s := start(t, Config{Limits: Limits{Charge: Reserve}, Models: map[string]Model{"careful": {Limits: limits}, "average": {Limits: own}}})
	for model, want := range map[string]string{"careful": "700", "average": ""} {
		body := bounded("x", 300)
		body["model"] = model
		c := s.mustAsk(t, body)
		if want == "" {
			want = fmt.Sprint(1000 - c.usage["completion_tokens"])
		}
		if got := c.header.Get("X-Ratelimit-Remaining-Output-Tokens"); got != want {
			t.Errorf("%s: got %s left, want %s", model, got, want)
		}
	}
}

// TestASettlementMakesRoom holds two reservations, which leave room for no more, and lets one
// client leave.
func TestASettlementMakesRoom(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits:    Limits{OutputTokens: Rates{{N: 250, Window: time.Hour}}, Charge: Settle},
		Behaviour: Behaviour{HangRate: 1},
		Models:    map[string]Model{"prompt": {Behaviour: &Behaviour{}}},
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	var leave [2]context.CancelFunc
	for i := range leave {
		ctx, cancel := context.WithCancel(t.Context())
		leave[i] = cancel
		wg.Go(func() { _, _ = s.ask(ctx, bounded(fmt.Sprint(i), 100)) })
	}
	defer leave[1]()
	s.until(t, "two in flight", func(c Counts) bool { return c.InFlight == 2 })
	third := bounded("third", 100)
	third["model"] = "prompt"
	if c := s.mustAsk(t, third); c.status != http.StatusTooManyRequests {
		t.Errorf("beside two reservations: got %+v", c)
	}
	leave[0]()
	s.until(t, "one in flight", func(c Counts) bool { return c.InFlight == 1 })
	if c := s.mustAsk(t, third); c.status != http.StatusOK {
		t.Errorf("after a settlement: got %+v", c)
	}
}

func TestARequestThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for shape, rate := range map[Shape]Rate{
		Sliding: {N: 20, Window: time.Second},
		Fixed:   {N: 20, Window: time.Second, Shape: Fixed},
		Bucket:  {N: 1000, Window: time.Second, Shape: Bucket, Burst: 20},
	} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Limits: Limits{InputTokens: Rates{rate}}})
			c := s.mustAsk(t, prompt("careful", strings.Repeat("x", 100)))
			if c.status != http.StatusTooManyRequests || !strings.Contains(c.error, "Request too large") || c.header.Get("Retry-After") != "" {
				t.Errorf("got %+v", c)
			}
			if c := s.mustAsk(t, prompt("careful", "x")); c.status != http.StatusOK {
				t.Errorf("a small one after it: got %+v", c)
			}
		})
	}
}

func TestHeadersTellTheTightestOfEachKind(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits: Limits{
			Requests:     Rates{{N: 100, Window: time.Hour}, {N: 10, Window: time.Hour, Shape: Bucket}},
			OutputTokens: Rates{{N: 1000, Window: time.Hour}},
		},
		Models: map[string]Model{"small": {Limits: Limits{
			Requests: Rates{{N: 50, Window: time.Hour}}, Tokens: Rates{{N: 500, Window: time.Hour}},
		}}},
	})
	c := s.mustAsk(t, prompt("small", "x"))
	in, out := c.usage["prompt_tokens"], c.usage["completion_tokens"]
	got := map[string]string{}
	for name := range c.header {
		if kind, ok := strings.CutPrefix(name, "X-Ratelimit-"); ok && !strings.HasPrefix(kind, "Reset") {
			got[kind] = c.header.Get(name)
		}
	}
	want := map[string]string{
		"Limit-Requests": "10", "Remaining-Requests": "9",
		"Limit-Tokens": "500", "Remaining-Tokens": fmt.Sprint(500 - in - out),
		"Limit-Output-Tokens": "1000", "Remaining-Output-Tokens": fmt.Sprint(1000 - out),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	for kind, want := range map[string]time.Duration{"Requests": 6 * time.Minute, "Tokens": time.Hour, "Output-Tokens": time.Hour} {
		reset, err := time.ParseDuration(c.header.Get("X-Ratelimit-Reset-" + kind))
		if err != nil || reset > want+time.Microsecond || reset < want-time.Minute {
			t.Errorf("reset of %s: got %v, %v, want %v", kind, reset, err, want)
		}
	}
}
