// Package simulator simulates a provider. It is an HTTP endpoint in the dialects of several
// providers that judges texts, enforces limits strictly, and delays, fails and hangs as configured.
// It counts the requests that really arrive.
//
// It is the only proof that a limit was kept, so it deliberately shares no code with ratelimit,
// with providers or with eval/prompt. Its seed and the prompt determine every answer; the order in
// which calls arrive does not.
//
// # How it judges
//
// A judge sees only the fenced texts. It counts slips that show without knowing the language: words
// and sentences written twice, missing capitals, misplaced marks, paragraphs without an end.
// Quality is 100 for a text without slips, and halves with two slips per 100 words. Because it is a
// rate, it does not grow with length. The models careful, average and careless see that quality
// with a growing error, which depends only on the model and the texts. careless also prefers the
// text shown first.
package simulator

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

// Simulator is the endpoint. It is safe for concurrent use.
type Simulator struct {
	config Config
	mux    *http.ServeMux
	began  time.Time

	mu       sync.Mutex // guards the fields below, with everything in them
	all      *scope
	models   map[string]*scope
	tiers    map[string]*scope // those with a bound
	arrivals arrivals
	keys     KeyCounts
	lastKey  lastKey
	jobs     jobs
	batches  batches
	caches   caches
}

// New returns an endpoint with a valid Config (see Config.Validate). In addition to the dialects,
// it serves GET /stats, GET /stats/arrivals, POST /stats/reset and GET /healthz.
func New(config Config) *Simulator {
	now := time.Now()
	s := &Simulator{
		config:   config,
		mux:      http.NewServeMux(),
		began:    now,
		all:      newScope(config.Limits, now),
		models:   map[string]*scope{},
		tiers:    map[string]*scope{},
		arrivals: arrivals{keep: config.KeepArrivals},
		jobs:     jobs{byID: map[string]*job{}},
		batches:  batches{files: map[string]*file{}},
		caches:   caches{used: map[uint64]time.Time{}, routes: map[uint64]*route{}},
	}

	for name, capacity := range config.Tiers {
		s.tiers[name] = newScope(Limits{MaxInFlight: capacity}, now)
		s.tiers[name].tier = name
	}
	for name := range judges {
		s.addModel(name)
	}
	for name := range config.Models {
		s.addModel(name)
	}
	s.speak("POST /v1/chat/completions", chat{})
	s.speak("POST /v1/responses", responses{})
	s.mux.HandleFunc("GET /v1/responses/{id}", s.poll)
	s.mux.HandleFunc("POST /v1/responses/{id}/cancel", s.cancel)
	s.serveFiles()
	s.speak("POST /v1/messages", messages{})
	s.serveMessageBatches()
	s.speak("POST /api/chat", ollama{})
	s.serveGenerateBatches()
	s.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		reply{status: http.StatusOK, body: []byte(encode(s.Stats()))}.send(w)
	})
	s.mux.HandleFunc("GET /stats/arrivals", func(w http.ResponseWriter, _ *http.Request) {
		reply{status: http.StatusOK, body: []byte(encode(s.Arrivals()))}.send(w)
	})
	s.mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) { s.Reset() })
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return s
}

// speak serves requests for completions at one pattern in one dialect.
func (s *Simulator) speak(pattern string, d dialect) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(d, w, r) })
}

func (s *Simulator) addModel(name string) {
	if s.models[name] == nil {
		limits := s.config.Models[name].Limits
		limits.Charge = cmp.Or(limits.Charge, s.config.Charge)
		s.models[name] = newScope(limits, s.began)
		s.models[name].prompts = map[uint64]*promptCount{}
	}
}

// ServeHTTP answers one request. A call that hangs ends when its client leaves.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Simulator) behaviour(model string) Behaviour {
	if own := s.config.Models[model].Behaviour; own != nil {
		return *own
	}
	return s.config.Behaviour
}

// serve answers a request for a completion in one dialect.
func (s *Simulator) serve(d dialect, w http.ResponseWriter, r *http.Request) {
	req, err := receive(d, w, r)
	b := s.behaviour(req.model)
	stray := &call{req: req, behaviour: b}
	d.head(w.Header(), stray)
	if wrong := s.checkKey(d, r.Header); wrong != "" {
		fail(d, w.Header(), stray, problem{failure: wrong}).send(w)
		return
	}
	if err != nil {
		fail(d, w.Header(), stray, problem{failure: BadRequest, message: err.Error()}).send(w)
		return
	}

	c, refused := s.admit(req, answer(cmp.Or(b.Serves, req.model), req.messages, req.schema), b)
	d.head(w.Header(), c)
	if refused != nil {
		fail(d, w.Header(), c, refused.problem(b.RetryAfter.at(c.draw("retry after")))).send(w)
		return
	}
	if c.isJob() {
		s.submit(w, r, c)
		return
	}
	answer := c.reply(r.Context(), d, w.Header())
	withheld := 1
	if answer.outcome == cut {
		withheld = len(answer.body) / 2
	}
	if answer.outcome != abandoned && (answer.begin(r.Context(), w, withheld) != nil || r.Context().Err() != nil) {
		answer.outcome = abandoned
	}
	// The call ends just before its last byte is sent: a client that has the whole answer may send
	// its next request at once, and must find room.
	s.leave(c, answer.outcome)
	switch answer.outcome {
	case answered, failed:
		answer.end(w, withheld)
	case cut:
		panic(http.ErrAbortHandler) // the body ends before its announced length
	}
}

// reply returns the planned reply for an accepted call. It blocks for the call's latency or until
// the client has left.
func (c *call) reply(ctx context.Context, d dialect, h http.Header) reply {
	b := c.behaviour
	delay := time.NewTimer(b.Latency.at(c.draw("latency")))
	defer delay.Stop()
	select {
	case <-ctx.Done():
		return reply{outcome: abandoned}
	case <-delay.C:
	}
	switch c.plan.fate {
	case hanging:
		<-ctx.Done()
		return reply{outcome: abandoned}
	case failing:
		return fail(d, h, c, c.plan.problem)
	}
	r := reply{status: http.StatusOK, body: []byte(encode(d.answer(c))), outcome: answered, trickle: b.Trickle.at(c.draw("trickle"))}
	if c.plan.fate == halved {
		r.outcome = cut
	}
	return r
}

// fail returns the reply for a problem in the dialect's words, and sets the hint headers.
func fail(d dialect, h http.Header, c *call, p problem) reply {
	if p.failure == Garbage {
		h.Set("Content-Type", "text/html")
		return reply{status: http.StatusOK, body: []byte(wreck), outcome: failed}
	}
	if c.behaviour.Hints == HintNone {
		p.wait = 0
	}
	if p.wait > 0 {
		d.hint(h, c, p)
	}
	status, body := d.problem(c, p)
	return reply{status: status, body: []byte(encode(body)), outcome: failed}
}

// Reset clears everything counted so far. Calls in flight stay in flight, and limits keep their
// state.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.arrivals = arrivals{keep: s.config.KeepArrivals}
	s.keys = KeyCounts{}
	s.all.reset(now)
	for _, of := range []map[string]*scope{s.models, s.tiers} {
		for _, scope := range of {
			scope.reset(now)
		}
	}
}
