package ratelimit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// mate is a worker of the fleet.
type mate struct {
	*Limiter
	name      string
	rules     *registry
	epoch     string
	until     int64 // when it fences itself
	flights   []*flight
	listening bool
	paused    bool // it does not fence itself
}

type sentBatch struct {
	by      *mate
	at      int64
	b       *batch
	keys    []string
	arg     string
	starts  map[string]int64 // of the calls that were admitted
	outcome outcome
	// When it may be executed.
	earliest, latest int64
	resets           [][]int64 // of its quotas
}

// otherDays reports whether the resets of a quota in a script do not enclose a time.
func (s *sentBatch) otherDays(now int64) bool {
	return slices.ContainsFunc(s.resets, func(resets []int64) bool { return now < resets[0] || now >= resets[len(resets)-1] })
}

// expects is what a worker expects Redis's clock to show: seldom something else.
func (h *history) expects() (earliest, latest int64) {
	switch now := h.model.now; h.n(16) {
	case 0:
		return now + 1, now + second
	case 1:
		return now - second, now - 1
	default:
		return now, now
	}
}

// goesOn hands a call over to its provider, or ends one that was.
func (h *history) goesOn(w *mate) error {
	if h.once(2) {
		b := &batch{}
		if b.end(h.releases(h.background)); b.empty() {
			return nil
		}
		return h.send(h.message(h.background, b, 0))
	}
	if len(w.flights) == 0 {
		return nil
	}
	f := pick(h.dice, w.flights...)
	ends := pick(h.dice, time.Second, time.Minute, 3*time.Hour).Microseconds()
	keys := []string{h.keys.ledger(w.name), h.keys.ledger(backgroundCalls), h.keys.background()}
	args := []any{f.id, "of " + f.id, ends, "{}"}
	var limits []leasedBy
	for _, r := range f.rules {
		if r.leased() {
			keys, limits = append(keys, r.state), append(limits, leasedBy{r.id, r.ending(f.reserved)})
			args = append(args, r.ending(f.reserved))
		}
	}
	lease, call := f.id, "of "+f.id
	keys = append(keys, h.keys.over(call))
	over := h.n(8) == 0 // another process has found the call, and seen its end
	h.note("%s hands %s over for %d; it has ended: %t", w.name, lease, ends, over)
	if over {
		if err := h.client.Set(context.Background(), h.keys.over(call), "", 0).Err(); err != nil {
			return err
		}
		defer h.client.Del(context.Background(), h.keys.over(call))
	}

	for range 1 + h.n(2) {
		want := !over && h.model.handOver(w.name, lease, call, ends, limits)
		got, err := h.stage.run(backgroundScript, keys, args...).Int64()
		if err != nil {
			return err
		}
		if (got == 1) != want {
			return fmt.Errorf("background answers %d, want %t", got, want)
		}
		if want && f.worker == w {
			w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
			h.background.flights = append(h.background.flights, f)
			f.id, f.worker, f.until, f.counts = call, h.background, h.model.now+ends, 0
		}
	}
	return nil
}

// batch sends what a worker could send.
func (h *history) batch(w *mate) error {
	if w.rules == nil || h.once(3) {
		if err := h.loads(w); err != nil {
			return err
		}
		if w.rules.epoch == "" {
			if err := h.begin(0); err != nil {
				return err
			}
			if err := h.loads(w); err != nil {
				return err
			}
		}
		if w.rules.epoch != w.epoch {
			if err := h.renews(w); err != nil {
				return err
			}
		}
	}
	b := &batch{}
	b.end(h.releases(w))
	for range h.n(4) {
		scope := pick(h.dice, historyScopes...)
		if h.also == batches && h.once(2) {
			scope.Tier = TierBatch
		}
		var calls []*call
		for range 1 + h.n(5) {
			calls = append(calls, h.call(w, scope))
		}
		for _, calls := range h.atAccounts(calls) {
			at := calls[0].Call
			rules, _ := w.rules.match(at)
			b.ask(newQueue(rules, cooldownsOf(at)...), calls)
			b.groups[len(b.groups)-1].aged = h.once(3)
		}
		b.version = w.rules.version
	}
	if h.once(3) {
		b.touch(w.rules.rules...)
	}
	if b.empty() {
		return nil
	}
	for i := range b.rules {
		r := &b.rules[i]
		if now := w.rules.byID[r.id]; now != nil {
			r.rule = now
		}
		for _, f := range w.flights {
			if f.inFlight(h.model.now) && includes(f.rules, r.id) {
				r.held++
			}
		}
		r.waits, r.aged, r.woken, r.stays = h.once(6), h.once(2), h.once(4), r.way == byLeases && h.once(2)
	}
	// It expects another time of Redis's clock, or computes the days of quotas from one.
	ahead := pick(h.dice, 0, 0, -2*time.Second, 2*time.Second)
	if h.once(16) {
		ahead = pick(h.dice, -72*time.Hour, 72*time.Hour)
	}
	if err := h.send(h.message(w, b, ahead)); err != nil {
		return err
	}
	// Those who wait for their start give up before.
	if slices.ContainsFunc(w.flights, func(f *flight) bool { return f.start > h.model.now && f.release == nil }) && !h.once(3) {
		if err := h.compare(); err != nil {
			return err
		}
		return h.batch(w)
	}
	return nil
}

// atAccounts returns the calls, or what is asked for in their place at two accounts. Some of them may be made at one only.
func (h *history) atAccounts(calls []*call) [][]*call {
	if h.also != accounts || calls[0].Call.Provider != "p" || h.once(4) {
		return [][]*call{calls}
	}
	at := make([][]*call, 2)
	for _, c := range calls {
		r := c.Request
		r.Accounts = pick(h.dice, []string{"p/a", "p/b"}, []string{"p/a", "p/b"}, []string{"p/b"})
		for _, c := range newCaller(r, time.Time{}).calls {
			i := strings.Index("ab", c.Call.Provider[2:])
			at[i] = append(at[i], c)
		}
	}
	return slices.DeleteFunc(at, func(calls []*call) bool { return len(calls) == 0 })
}

// message is a batch of a worker whose clock is ahead.
func (h *history) message(w *mate, b *batch, ahead time.Duration) *sentBatch {
	clock := time.UnixMicro(h.model.now).Add(ahead)
	asked := b.request(w.Limiter, instant{wall: time.Duration(clock.UnixNano())})
	s := &sentBatch{by: w, at: h.model.now, b: b, keys: b.keys(w.Limiter), starts: map[string]int64{}, latest: math.MaxInt64}
	if h.once(4) {
		s.earliest, s.latest = h.expects()
		asked.Earliest, asked.Latest = s.earliest, s.latest
	}
	for _, limit := range asked.Limits {
		if len(limit.Resets) > 0 {
			s.resets = append(s.resets, limit.Resets)
		}
	}
	s.arg = asked.encode()
	return s
}

func (h *history) call(w *mate, scope Scope) *call {
	if f := pick(h.dice, append(slices.Clone(w.flights), nil)...); f != nil && f.release == nil && h.once(12) {
		return &call{Request: Request{ID: f.id, Call: scope, Input: f.used.Input, Output: f.used.Output, Cost: f.used.Cost}}
	}
	h.calls++
	c := &call{Request: Request{ID: fmt.Sprintf("c%d", h.calls), Call: scope,
		Input: pick[int64](h.dice, 0, 1, 10, 40, 100, 300, 990, 5000), Output: pick[int64](h.dice, 0, 5, 70, 500), Cost: pick[int64](h.dice, 0, 1, 90, 400, 2500)}}
	if h.once(6) {
		c.LatestEnd, c.Hold = pick(h.dice, 3*time.Second, 30*time.Second, 3*time.Hour), true
	}
	return c
}

func (h *history) releases(w *mate) (releases []*release) {
	for range h.n(4) {
		flights := w.flights
		if len(flights) == 0 {
			return releases
		}
		if ahead := slices.DeleteFunc(slices.Clone(flights), func(f *flight) bool { return f.start <= h.model.now }); len(ahead) > 0 && h.once(2) {
			flights = ahead
		}
		f := pick(h.dice, flights...)
		if f.release != nil { // its answer was lost
			releases = append(releases, f.release)
			continue
		}
		r := &release{id: f.id, rules: f.rules, start: f.start, reserved: f.used, epoch: f.epoch}
		if w == h.background || h.once(8) {
			r.epoch = ""
		}
		switch h.n(4) {
		case 0, 1:
			r.answered = true
		case 2:
			if adaptive := slices.DeleteFunc(slices.Clone(f.rules), func(r *rule) bool { return !r.Adaptive }); len(adaptive) > 0 {
				r.refused = pick(h.dice, adaptive...)
			}
		}
		kind := h.n(6)
		if f.start > h.model.now && !h.once(3) {
			kind = 1
		}
		switch kind {
		case 0:
			r.keep = 300 * time.Millisecond
		case 1, 2:
			if f.start > h.model.now || h.once(4) {
				r.unused = true
			}
		case 3:
			r.more = Used{-f.used.Input / int64(1+h.n(3)), -f.used.Output / 2, -f.used.Cost / int64(1+h.n(3))}
		case 4:
			r.more = Used{pick[int64](h.dice, 1, 300, 9000), int64(h.n(40)), pick[int64](h.dice, 0, 1, 700)}
		}
		for _, rule := range f.rules {
			if h.once(4) && (rule.way == byRate || rule.way == byWindow) {
				r.remaining = append(r.remaining, remaining{rule, int64(h.n(2)) * 90})
			}
		}
		f.release = r
		releases = append(releases, r)
	}
	return releases
}

// again sends a script that was sent before, at once or late.
func (h *history) again() error {
	if len(h.sent) == 0 {
		return nil
	}
	s := h.sent[len(h.sent)-1]
	if h.once(3) {
		s = pick(h.dice, h.sent...)
	}
	if h.model.now-s.at > hour {
		return nil
	}
	return h.send(s)
}

func (h *history) send(s *sentBatch) error {
	first := !slices.Contains(h.sent, s)
	twice := h.delivered == s // with none in between
	h.delivered = s
	h.noteBatch(s, first)
	var before []string
	if !first {
		var err error
		if before, err = h.remembers(); err != nil {
			return err
		}
	}
	reply, err := integers(h.stage.run(admitScript, s.keys, s.arg).Slice())
	if err != nil {
		return err
	}
	stale := s.b.version != "" && s.b.version != h.model.versionString()
	if unexpected := h.model.now < s.earliest || h.model.now > s.latest || s.otherDays(h.model.now); unexpected && !stale {
		h.note("  at an unexpected time")
		if !slices.Equal(reply, []int64{-2}) {
			return fmt.Errorf("admit answers %v at an unexpected time", reply)
		}
		return nil
	}
	want, ok := h.model.admit(s.by.name, s.b)
	if stale := len(reply) == 1 && reply[0] == -1; stale || !ok {
		if stale == ok {
			return fmt.Errorf("admit answers %v; is the registry as it was? %t", reply, ok)
		}
		h.note("  stale")
		s.by.rules = nil
		return nil
	}
	got, fits := s.b.decode(reply)
	if !fits {
		return fmt.Errorf("admit answers %v, which does not fit", reply)
	}
	h.note("  %s", words(got))
	s.outcome = got
	for i, r := range s.b.rules {
		if (r.way == byQuota || r.way == byBudget) && s.b.version != "" {
			s.by.cfg.Notes.note(r.rule, h.model.epoch, got.inUse[i], got.now)
		}
	}
	if g, w := words(got), words(want); g != w {
		return fmt.Errorf("admit answers\n  %s, want\n  %s", g, w)
	}
	if err := h.allOrNone(s, got); err != nil {
		return err
	}
	if first {
		h.sent = append(h.sent, s)
		if len(h.sent) > 6 {
			h.sent = h.sent[1:]
		}
		return h.use(s, got)
	}
	return h.sameAgain(s, got, twice, before)
}

func (h *history) noteBatch(s *sentBatch, first bool) {
	text := fmt.Sprintf("%s sends", s.by.name)
	if !first {
		text = fmt.Sprintf("%s's script arrives again:", s.by.name)
	}
	for _, r := range s.b.releases {
		text += fmt.Sprintf(" end %s (start %d, keep %s, unused %t, more %v, answered %t, refused %v, epoch %s)", r.id,
			r.start-historyBegins.UnixMicro(), r.keep, r.unused, r.more, r.answered, r.refused != nil, r.epoch)
	}
	for _, g := range s.b.groups {
		text += " ask"
		for _, c := range g.calls {
			text += fmt.Sprintf(" %s %v", c.ID, c.reserves())
		}
		text += " under"
		for _, r := range g.queue.rules {
			text += " " + r.id
		}
		text += ";"
	}
	for _, r := range s.b.rules {
		text += fmt.Sprintf("\n    %s: %s %v held %d waits %t aged %t woken %t stays %t", r.id, r.way, r.Max, r.held, r.waits, r.aged, r.woken, r.stays)
	}
	h.note("%s", text)
}

// words are an outcome in words.
func words(o outcome) string {
	id := func(r *rule) string {
		if r == nil {
			return "-"
		}
		return r.id
	}
	text := fmt.Sprintf("lines %v in use %v", o.waits, o.inUse)
	for _, g := range o.groups {
		text += "; admitted"
		for _, granted := range g.grants {
			if granted.taken {
				text += " elsewhere"
				continue
			}
			text += fmt.Sprintf(" in %d by %s", granted.start.Microseconds(), id(granted.bound))
		}
		if g.bound != nil {
			text += fmt.Sprintf(", next asks in %d, exactly %d, alone %d, first %t, for %s",
				g.wait.Microseconds(), g.known.Microseconds(), g.own.Microseconds(), g.first, id(g.bound))
		}
	}
	return text
}

// use notes the leases that a worker was granted and gave up.
func (h *history) use(s *sentBatch, o outcome) error {
	now := h.model.now
	for _, r := range s.b.releases {
		for _, f := range s.by.flights {
			if f.id == r.id && !f.released {
				f.end(r, now)
			}
		}
	}
	served := map[*caller]string{}
	// In the order of their admission: the groups take turns.
	for n := range callsPerScript {
		for i, g := range s.b.groups {
			if n >= len(o.groups[i].grants) {
				continue
			}
			c, granted := g.calls[n], o.groups[i].grants[n]
			if granted.taken {
				continue
			}
			if other := served[c.caller]; other != "" && c.elsewhere() {
				return fmt.Errorf("%s and %s are calls of the same caller, and both are admitted", other, c.ID)
			}
			served[c.caller] = c.ID
			s.starts[c.ID] = now + granted.start.Microseconds()
			if slices.ContainsFunc(s.by.flights, func(f *flight) bool { return f.id == c.ID && !f.released }) {
				continue
			}
			f := &flight{
				id: c.ID, worker: s.by, rules: g.queue.rules, used: c.reserves(), reserved: c.reserves(),
				start: s.starts[c.ID], counts: c.counts().Microseconds(), sure: true, epoch: h.model.epoch,
			}
			f.until = f.start + h.model.lease*4/5
			s.by.flights = append(s.by.flights, f)
			if err := h.audit.admitted(f, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameAgain checks the answer to a script that was sent before: calls that are
// still held have the starts that they had, and if it came twice in a row, and
// no other call was admitted, nothing was charged.
func (h *history) sameAgain(s *sentBatch, o outcome, twice bool, before []string) error {
	granted, anew := 0, false
	for i, g := range s.b.groups {
		for n, again := range o.groups[i].grants {
			c := g.calls[n]
			if again.taken {
				continue
			}
			granted++
			start, was := s.starts[c.ID]
			f := s.by.flightOf(c.ID)
			if !was || f == nil || f.released || f.until <= h.model.now {
				anew = true
				continue
			}
			if got := h.model.now + again.start.Microseconds(); got != start && f.until == start+h.model.lease*4/5 {
				return fmt.Errorf("%s is admitted again, to start at %d instead of %d", c.ID, got, start)
			}
		}
	}
	if anew || !twice {
		return nil
	}
	after, err := h.remembers()
	if err != nil {
		return err
	}
	charges := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
			// What is reported of the time before a memory may overlap with what Redis remembers of
			// it: the line of what is used has the greater of the two.
			return strings.HasPrefix(l, "quota") && strings.Contains(l, " before ") ||
				!slices.ContainsFunc([]string{"rate", "window", "quota", "budget", "cut"}, func(kind string) bool { return strings.HasPrefix(l, kind) })
		})
	}
	if d := difference(charges(after), charges(before)); d != "" {
		return fmt.Errorf("a script that came twice was charged twice:\n%s", d)
	}
	return nil
}

func (w *mate) flightOf(id string) *flight {
	for _, f := range slices.Backward(w.flights) {
		if f.id == id {
			return f
		}
	}
	return nil
}
