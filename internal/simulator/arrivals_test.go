package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestArrivalsAreKept(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		KeepArrivals: 5,
		Limits:       Limits{Requests: Rates{{N: 6, Window: time.Hour}}},
	})
	if got := s.Arrivals(); got == nil || len(got) != 0 {
		t.Errorf("before any: got %v, want an empty list", got)
	}
	for i := range 8 {
		before := time.Now()
		c := s.mustAsk(t, prompt([]string{"careful", "average"}[i%2], fmt.Sprint(i)))
		all := s.Arrivals()
		last := all[len(all)-1]
		if last.At.Before(before) || last.At.After(time.Now()) {
			t.Errorf("arrival %d: at %v, asked after %v", i, last.At, before)
		}
		if (last.RejectedBy != "") != (i >= 6) || (c.status == http.StatusOK && last.OutputTokens != c.usage["completion_tokens"]) || last.InputTokens != 5 {
			t.Errorf("arrival %d: got %+v, answered %+v", i, last, c)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/stats/arrivals", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []Arrival
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got) != 5 {
		t.Fatalf("got %+v, %v, want the last 5", got, err)
	}
	if !slices.IsSortedFunc(got, func(a, b Arrival) int { return a.At.Compare(b.At) }) || got[0].Model != "average" || got[2].RejectedBy != "" || got[3].RejectedBy == "" {
		t.Errorf("got %+v", got)
	}
	s.Reset()
	if got := s.Arrivals(); len(got) != 0 {
		t.Errorf("after a reset: got %+v", got)
	}
}

func TestAnswersOfKnownLength(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits:    Limits{OutputTokens: Rates{{N: 1_000_000, Window: time.Hour}}},
		Behaviour: Behaviour{AnswerTokens: Range{200, 400}},
		Models:    map[string]Model{"terse": {Behaviour: &Behaviour{AnswerTokens: Range{3, 3}}}},
	})
	low, high, total := 1000, 0, 0
	for i := range 60 {
		c := s.mustAsk(t, prompt("careful", fmt.Sprint(i)))
		used := c.usage["completion_tokens"]
		low, high, total = min(low, used), max(high, used), total+used
		if reasoning := used - tokens(len(c.text)); c.reasoning != reasoning || c.text == "" || c.finish != "stop" {
			t.Fatalf("got %+v, want %d of reasoning", c, reasoning)
		}
	}
	if low < 200 || low > 230 || high > 400 || high < 370 {
		t.Errorf("output tokens: got %d to %d, want about 200 to 400", low, high)
	}
	if got := s.Stats().All; got.OutputTokens != int64(total) || got.Limits[0].Charged != int64(total) {
		t.Errorf("counted: got %+v, want %d", got, total)
	}
	if c := s.mustAsk(t, prompt("terse", "x")); c.usage["completion_tokens"] != 3 || c.text == "" || c.finish != "stop" || c.reasoning != 0 {
		t.Errorf("fewer than the text: got %+v", c)
	}
	if c := s.mustAsk(t, bounded("x", 100)); c.usage["completion_tokens"] != 100 || c.text != "" || c.finish != "length" || c.reasoning != 100 {
		t.Errorf("a bound within the reasoning: got %+v", c)
	}
}

// TestNoWindowHoldsMoreThanItsLimit has many clients send more than there is room
// for at once, and counts what was admitted in every window.
func TestNoWindowHoldsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	const requests, each, input = 20, 8, 300
	s := start(t, Config{
		KeepArrivals: 1_000_000,
		Limits: Limits{
			Requests:    Rates{{N: requests, Window: 3 * time.Second}, {N: each, Window: time.Second, Shape: Fixed}},
			InputTokens: Rates{{N: input, Window: 2 * time.Second}},
		},
	})
	began, end := time.Now(), testrun.Deadline(t)
	enough := func() bool {
		return time.Since(began) > 4*time.Second && len(s.Stats().All.RejectedBy) == 3 || time.Now().After(end)
	}
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for i := 0; !enough(); i++ {
				if _, err := s.ask(t.Context(), prompt("careful", strings.Repeat("x", 4*(i%40))+fmt.Sprint(client))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	all := s.Arrivals()
	admitted := slices.DeleteFunc(slices.Clone(all), func(a Arrival) bool { return a.RejectedBy != "" })
	if len(all) != int(s.Stats().All.Arrived) || len(s.Stats().All.RejectedBy) != 3 {
		t.Fatalf("admitted %d of %d; rejected by %v, want by each of 3 limits", len(admitted), len(all), s.Stats().All.RejectedBy)
	}
	for i, last := range admitted {
		inLong, inFixed, tokens := 0, 0, 0
		for _, a := range admitted[:i+1] {
			if last.At.Sub(a.At) < 3*time.Second {
				inLong++
			}
			if a.At.Unix() == last.At.Unix() {
				inFixed++
			}
			if last.At.Sub(a.At) < 2*time.Second {
				tokens += a.InputTokens
			}
		}
		if inLong > requests || inFixed > each || tokens > input {
			t.Fatalf("windows that end with request %d hold %d and %d requests and %d tokens", i, inLong, inFixed, tokens)
		}
	}
}
