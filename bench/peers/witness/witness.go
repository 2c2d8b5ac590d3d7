// Package witness is the provider that the comparison of peers calls. It answers chat
// completions, enforces limits of its own and counts what arrives.
//
// It shares no code with evalfleet's limiter or with its simulated provider, so that a mistake
// in either cannot hide in the count. It deliberately knows no tokens, no keys and no errors
// other than 429.
package witness

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Model describes one model of the provider. A limit of 0 is no limit.
type Model struct {
	Name    string        `json:"name"`
	Latency time.Duration `json:"latency"` // from the arrival of a call to its answer

	// Delay is the longest time that a call spends in a simulated network before it arrives.
	// Each call spends a random part of it there.
	Delay time.Duration `json:"delay,omitempty"`

	MaxInFlight int           `json:"max_in_flight,omitempty"` // calls at once
	WindowMax   int           `json:"window_max,omitempty"`    // accepted calls in any Window
	Window      time.Duration `json:"window,omitempty"`        // a strict sliding window
	Rate        float64       `json:"rate,omitempty"`          // tokens a second of a bucket
	Burst       int           `json:"burst,omitempty"`         // size of the bucket
}

// Stats is what the provider saw of one model.
type Stats struct {
	Accepted int `json:"accepted"` // calls that were answered or are in flight
	Refused  int `json:"refused"`  // calls answered with 429
	Answered int `json:"answered"`
	Distinct int `json:"distinct"` // different requests that were answered
	InFlight int `json:"in_flight"`
	Peak     int `json:"peak"` // most calls in flight at once

	Now time.Duration `json:"now"` // since the provider started

	// Arrivals and Ends are the times of accepted calls and of their answers, since the
	// provider started, in order.
	Arrivals []time.Duration `json:"arrivals"`
	Ends     []time.Duration `json:"ends"`
}

// Provider counts calls of its models. It implements http.Handler.
type Provider struct {
	start time.Time
	mux   http.ServeMux

	mu     sync.Mutex // guards models
	models map[string]*model
}

type model struct {
	Model
	Stats
	seen   map[[sha256.Size]byte]bool
	tokens float64
	filled time.Duration
}

// New returns a provider of models.
func New(models []Model) *Provider {
	p := &Provider{start: time.Now(), models: map[string]*model{}}
	for _, m := range models {
		p.models[m.Name] = &model{Model: m, seen: map[[sha256.Size]byte]bool{}, tokens: float64(m.Burst)}
	}
	p.mux.HandleFunc("POST /v1/chat/completions", p.complete)
	p.mux.HandleFunc("GET /stats", p.stats)
	return p
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// verdict is the content of every answer. The first label of a blind pair wins.
const verdict = `{"winner_doc_id":"A","reason":"-"}`

var answer = func() []byte {
	body, err := json.Marshal(map[string]any{
		"id": "1", "object": "chat.completion", "model": "m",
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": verdict},
		}},
		"usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
	})
	if err != nil {
		panic(err)
	}
	return body
}()

// complete admits or refuses a call at its arrival, when its body has been read.
func (p *Provider) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	var request struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := p.models[request.Model] // the map itself never changes
	if m == nil {
		http.Error(w, "unknown model "+strconv.Quote(request.Model), http.StatusNotFound)
		return
	}
	if m.Delay > 0 && !sleep(r.Context(), rand.N(m.Delay)) {
		return
	}

	if wait, ok := p.admit(m); !ok {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds()+1, 10))
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		http.Error(w, `{"error":{"message":"rate limit","type":"rate_limit_error"}}`, http.StatusTooManyRequests)
		return
	}

	delivered := false
	defer func() { p.end(m, sha256.Sum256(body), delivered) }()
	if m.Latency > 0 && !sleep(r.Context(), m.Latency) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(answer)
	delivered = err == nil
}

// sleep blocks for d and returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// admit counts a call as accepted or refused. For a refused call, wait is the time until there is room.
func (p *Provider) admit(m *model) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.start)
	if m.Burst > 0 {
		m.tokens = math.Min(float64(m.Burst), m.tokens+(now-m.filled).Seconds()*m.Rate)
		m.filled = now
	}

	switch n := len(m.Arrivals) - m.WindowMax; {
	case m.MaxInFlight > 0 && m.InFlight >= m.MaxInFlight:
		wait = m.Latency
	case m.WindowMax > 0 && n >= 0 && now-m.Arrivals[n] < m.Window:
		wait = m.Arrivals[n] + m.Window - now
	case m.Burst > 0 && m.tokens < 1:
		wait = time.Duration((1 - m.tokens) / m.Rate * float64(time.Second))
	default:
		m.tokens--
		m.Accepted++
		m.InFlight++
		m.Peak = max(m.Peak, m.InFlight)
		m.Arrivals = append(m.Arrivals, now)
		return 0, true
	}

	m.Refused++
	return wait, false
}

func (p *Provider) end(m *model, request [sha256.Size]byte, delivered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.InFlight--
	m.Ends = append(m.Ends, time.Since(p.start))
	if !delivered {
		return
	}
	m.Answered++
	if !m.seen[request] {
		m.seen[request] = true
		m.Distinct++
	}
}

// stats answers with the Stats of every model. With ?brief=1 it leaves the times out.
func (p *Provider) stats(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	all := make(map[string]Stats, len(p.models))
	for name, m := range p.models {
		s := m.Stats
		s.Now = time.Since(p.start)
		if r.URL.Query().Get("brief") != "" {
			s.Arrivals, s.Ends = nil, nil
		} else {
			s.Arrivals, s.Ends = slices.Clone(s.Arrivals), slices.Clone(s.Ends)
		}
		all[name] = s
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}
