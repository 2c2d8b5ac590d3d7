package witness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask sends a call and returns its status.
func ask(p *Provider, model string, n int) int {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%d"}]}`, model, n)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	return w.Code
}

func seen(t *testing.T, p *Provider, model string) Stats {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stats", nil))
	var all map[string]Stats
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	return all[model]
}

// TestLimits has every limit allow its last call and refuse the next one.
func TestLimits(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := New([]Model{{Name: "m", Latency: time.Second, MaxInFlight: 2}})
			for n := range 2 {
				go ask(p, "m", n)
			}
			synctest.Wait()
			if status := ask(p, "m", 3); status != http.StatusTooManyRequests {
				t.Errorf("third call: status %d, want 429", status)
			}
			time.Sleep(2 * time.Second)
			if status := ask(p, "m", 1); status != http.StatusOK {
				t.Errorf("call after the others: status %d, want 200", status)
			}
			if s := seen(t, p, "m"); s.Accepted != 3 || s.Refused != 1 || s.Answered != 3 || s.Distinct != 2 || s.Peak != 2 || s.InFlight != 0 {
				t.Errorf("got %+v, want 3 accepted, 1 refused, 3 answered, 2 distinct, at most 2 in flight, none now", s)
			}
		})
	})
	for _, c := range []struct {
		name  string
		model Model
		after time.Duration // until the next call is allowed
	}{
		{"sliding window", Model{Name: "m", WindowMax: 3, Window: 10 * time.Second}, 10 * time.Second},
		{"bucket", Model{Name: "m", Rate: 2, Burst: 3}, 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New([]Model{c.model})
				for n, want := range []int{200, 200, 200, 429} {
					if status := ask(p, "m", n); status != want {
						t.Errorf("call %d: status %d, want %d", n, status, want)
					}
				}
				time.Sleep(c.after - time.Millisecond)
				if status := ask(p, "m", 5); status != 429 {
					t.Errorf("1 ms too early: status %d, want 429", status)
				}
				time.Sleep(time.Millisecond)
				if status := ask(p, "m", 6); status != 200 {
					t.Errorf("in time: status %d, want 200", status)
				}
			})
		})
	}
}

// TestDelay has calls that are sent at once arrive one after another, within the delay.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New([]Model{{Name: "m", Delay: 50 * time.Millisecond}})
		for n := range 20 {
			go ask(p, "m", n)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		s := seen(t, p, "m")
		if len(s.Arrivals) != 20 || s.Answered != 20 {
			t.Fatalf("%d calls arrived and %d were answered within the delay, want 20", len(s.Arrivals), s.Answered)
		}
		if first, last := s.Arrivals[0], s.Arrivals[19]; first == last {
			t.Errorf("all calls arrived at %v, want different times", first)
		}
	})
}
