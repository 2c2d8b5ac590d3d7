package ratelimit

import (
	"testing"
	"time"
)

// teller tells a history step by step.
type teller struct {
	*history
	t *testing.T
}

func (h *teller) must(err error) {
	h.t.Helper()
	if err == nil {
		err = h.compare()
	}
	if err != nil {
		for _, line := range h.log {
			h.t.Log(line)
		}
		h.t.Fatal(err)
	}
}

func (h *teller) limit(limits ...Limit) {
	h.t.Helper()
	h.must(h.pins("fleet", limitsJSON(limits), ""))
}

func (h *teller) wait(d time.Duration) {
	h.t.Helper()
	h.must(h.pass(d))
}

// flush forgets everything, and begins an epoch under the same limits.
func (h *teller) restart(flush bool, limits ...Limit) {
	h.t.Helper()
	if flush {
		h.must(h.flush())
		h.limit(limits...)
	}
	h.run = "server-1"
	h.must(h.begin(0))
}

// ask asks for calls by a worker whose clock is ahead, and says how many are
// admitted, and how long the next waits, or the last until its start.
func (h *teller) ask(ahead time.Duration, calls ...*call) (admitted int, wait time.Duration) {
	h.t.Helper()
	w := h.workers[0]
	h.must(h.renews(w))
	h.must(h.loads(w))
	rules, _ := w.rules.match(openai)
	b := &batch{version: w.rules.version}
	b.ask(newQueue(rules), calls)
	b.groups[0].aged = false
	m := h.message(w, b, ahead)
	h.must(h.send(m))
	o := m.outcome.groups[0]
	if o.bound == nil {
		return len(o.grants), o.grants[len(o.grants)-1].start
	}
	return len(o.grants), o.known
}

func (h *teller) end(id string, change func(*release)) {
	h.t.Helper()
	f := h.workers[0].flightOf(id)
	b := &batch{}
	r := &release{id: id, rules: f.rules, start: f.start, reserved: f.used}
	change(r)
	b.end([]*release{r})
	h.must(h.send(h.message(h.workers[0], b, 0)))
}

func tokensCall(id string, input int64) *call {
	return &call{Request: Request{ID: id, Call: openai, Input: input}}
}

// TestHistories are the shortest histories in which a script was once other than
// what is promised.
func TestHistories(t *testing.T) {
	t.Parallel()
	quota := Limit{Kind: Requests, Max: 2, Resets: "UTC"}
	untilMidnight := 3 * time.Hour
	histories := []struct {
		name string
		tell func(h *teller) (admitted int, wait time.Duration)

		admitted int
		wait     time.Duration
	}{
		{"a rate that was saved is used up when another server takes over", func(h *teller) (int, time.Duration) {
			h.limit(rate(1, time.Minute, 3))
			h.ask(0, tokensCall("a", 0))
			h.restart(false)
			h.wait(7 * time.Second)
			h.must(h.renews(h.workers[0]))
			h.wait(5 * time.Second)
			return h.ask(0, tokensCall("b", 0))
		}, 0, 48*time.Second + horizon},
		{"a window waits for starts that were granted ahead of a flush", func(h *teller) (int, time.Duration) {
			limit := tokens(1000, 600*time.Second, 0)
			h.limit(limit)
			h.restart(true, limit)
			h.wait(7 * time.Second)
			h.must(h.renews(h.workers[0]))
			h.wait(5 * time.Second)
			return h.ask(0, tokensCall("a", 1))
		}, 0, 598*time.Second + horizon},
		{"a quota lets nothing start ahead of its reset", func(h *teller) (int, time.Duration) {
			h.limit(quota)
			h.ask(0, tokensCall("a", 0), tokensCall("b", 0))
			h.wait(untilMidnight - horizon/2)
			return h.ask(0, tokensCall("c", 0), tokensCall("d", 0), tokensCall("e", 0))
		}, 0, horizon / 2},
		{"a quota lets nothing start that may arrive after its reset", func(h *teller) (int, time.Duration) {
			h.limit(quota)
			h.wait(untilMidnight - quotaSpread)
			return h.ask(0, tokensCall("a", 0))
		}, 0, quotaSpread},
		{"a quota's day is that of Redis's clock, not of a worker whose clock is ahead", func(h *teller) (int, time.Duration) {
			h.limit(quota)
			h.ask(0, tokensCall("a", 0))
			h.wait(untilMidnight - time.Second)
			h.ask(2*time.Second, tokensCall("b", 0))
			h.wait(time.Second)
			return h.ask(0, tokensCall("c", 0), tokensCall("d", 0), tokensCall("e", 0))
		}, 2, 24 * time.Hour},
		{"what was told of a quota's day goes with the day", func(h *teller) (int, time.Duration) {
			h.limit(quota)
			told := func(units, want int64) {
				h.must(h.tells("ev-a", h.limits[quota.ID()], units))
				if got := h.model.account(quota.ID()).used; got != want {
					h.t.Errorf("%d used, want %d", got, want)
				}
			}
			told(2, 2)
			h.wait(untilMidnight)
			h.ask(0, tokensCall("a", 0))
			told(2, 1)
			return h.ask(0, tokensCall("b", 0), tokensCall("c", 0))
		}, 1, 24 * time.Hour},
		{"a held call counts longer than an hour although no other call uses the limit", func(h *teller) (int, time.Duration) {
			h.limit(inFlight(Scope{}, 1))
			held := tokensCall("a", 0)
			held.LatestEnd, held.Hold = 3*time.Hour, true
			h.ask(0, held)
			h.wait(2 * time.Hour)
			return h.ask(0, tokensCall("b", 0))
		}, 0, 0},
		{"a debt counts from its call's start although the rate lay idle", func(h *teller) (int, time.Duration) {
			h.limit(Limit{Kind: Tokens, Max: 1000, Period: time.Second, Burst: 100})
			h.ask(0, tokensCall("a", 100))
			h.wait(5 * time.Second)
			h.end("a", func(r *release) { r.more.Input = 5900 })
			return h.ask(0, tokensCall("b", 100))
		}, 0, time.Second},
		{"a short window with as much jitter as there may be", func(h *teller) (int, time.Duration) {
			limit := tokens(100, 5*time.Millisecond, 270*time.Millisecond)
			if err := limit.Validate(); err != nil {
				h.t.Fatal(err)
			}
			h.limit(limit)
			h.ask(0, tokensCall("a", 100))
			h.wait(324 * time.Millisecond) // most slots leave at once
			h.ask(0, tokensCall("b", 100))
			return h.ask(0, tokensCall("c", 1))
		}, 0, 275*time.Millisecond + 37*time.Microsecond}, // and the rest of a slot of 83 µs
		{"a start granted ahead stays in a short window", func(h *teller) (int, time.Duration) {
			h.limit(tokens(100, 300*time.Millisecond, 0), rate(1, time.Second, 1))
			h.ask(0, tokensCall("a", 1))
			h.wait(time.Second - 45*time.Millisecond)
			h.ask(0, tokensCall("b", 100)) // in 45 ms
			h.wait(330 * time.Millisecond)
			h.limit(tokens(100, 300*time.Millisecond, 0))
			return h.ask(0, tokensCall("c", 100))
		}, 1, 20 * time.Millisecond}, // 300 ms after a slot of 5 ms
	}
	for _, make := range []func(testing.TB) *stage{embeddedStage, realStage} {
		s := make(t)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range histories {
				t.Run(c.name, func(t *testing.T) {
					history, err := newHistory(s)
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if err := history.close(); err != nil {
							t.Error(err)
						}
					}()
					admitted, wait := c.tell(&teller{history, t})
					if admitted != c.admitted || wait != c.wait {
						t.Errorf("%d admitted, the next in %s; want %d, %s", admitted, wait, c.admitted, c.wait)
					}
				})
			}
		})
	}
}
