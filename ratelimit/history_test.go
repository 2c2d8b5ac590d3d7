package ratelimit

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A history is a list of steps of a fleet: what workers ask, how time passes,
// who dies, what Redis forgets. Every step is done by the scripts and by the
// model, and all answers, all messages and all that Redis remembers are
// compared. Besides, an auditor that knows neither counts what a provider would
// see (audit_test.go).

const (
	historyStep  = 8 // bytes that make a step
	historyLease = 10 * time.Second
)

var historyBegins = time.Date(2026, 3, 28, 21, 0, 0, 0, time.UTC)

// history is one in progress.
type history struct {
	*stage
	*dice
	keys    keys
	model   *model
	audit   *audit
	workers []*mate
	born    int
	calls   int
	epochs  int
	sent    []*sentBatch // the last scripts, to be sent again
	// delivered is the one that came last.
	delivered *sentBatch
	unspend   *unspend
	limits    map[string]*rule
	log       []string
	dead      []*mate
	// background is a pseudo-worker: it holds the calls that need none.
	background *mate
	flushed    int64 // when Redis began to remember
	run        string
	steps      int
	also       some
}

// some says what some calls of a history are.
type some string

const (
	nothing  some = ""
	batches  some = "batches"
	accounts some = "accounts" // calls that one of two accounts may answer
)

// dice are the bytes of a step, and after them what they seed.
type dice struct {
	bytes []byte
	more  *rand.Rand
}

func (d *dice) throw(record []byte) {
	d.bytes = record
	var seed [8]byte
	copy(seed[:], record)
	d.more = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), 1))
}

// n is a number from 0 to below most.
func (d *dice) n(most int) int {
	if len(d.bytes) > 0 && most <= 256 {
		b := d.bytes[0]
		d.bytes = d.bytes[1:]
		return int(b) % most
	}
	return d.more.IntN(most)
}

func (d *dice) once(in int) bool { return d.n(in) == 0 }

func pick[T any](d *dice, from ...T) T { return from[d.n(len(from))] }

var (
	historyHolders = []string{"fleet", "ev-a", "ev-b"}
	historyScopes  = []Scope{
		{Provider: "p", Model: "m", Group: "g", Evaluation: "ev-a"},
		{Provider: "p", Model: "n", Evaluation: "ev-a"},
		{Provider: "p", Model: "m", Evaluation: "ev-b"},
		{Provider: "q", Model: "m", Group: "g", Evaluation: "ev-b"},
	}
)

// someLimits are those that a holder pins.
func (h *history) someLimits(holder string) []Limit {
	scope := pick(h.dice, Scope{}, Scope{Provider: "p"}, Scope{Provider: "p", Model: "m"}, Scope{Group: "g"})
	if h.also == accounts && h.once(2) {
		scope = pick(h.dice, Scope{Provider: "p/a"}, Scope{Provider: "p/b"}, Scope{Provider: "p/a", Model: "m"})
	}
	if holder != "fleet" {
		scope = Scope{Evaluation: holder}
	}
	var limits []Limit
	add := func(l Limit) {
		if !slices.ContainsFunc(limits, func(o Limit) bool { return o.ID() == l.ID() }) {
			limits = append(limits, l)
		}
	}
	kinds := 9
	if h.also == batches {
		kinds = 12
	}
	for range 1 + h.n(3) {
		switch h.n(kinds) {
		case 9, 10, 11:
			add(Limit{Scope: scope, Kind: EnqueuedTokens, Max: pick[int64](h.dice, 40, 500, 1000, 6000)})
		case 8:
			add(Limit{Scope: scope, Kind: Cost, Max: pick[int64](h.dice, 300, 2000, 9000)})
		case 0, 1:
			add(Limit{Scope: scope, Kind: Concurrency, Max: int64(1 + h.n(6)), Adaptive: h.once(2)})
		case 2:
			add(Limit{Scope: scope, Kind: Requests, Max: pick[int64](h.dice, 1, 60, 200, 1000), Period: pick(h.dice, time.Second, time.Second, time.Second, time.Minute), Burst: int64(h.n(4)) * int64(1+9*h.n(2)),
				Jitter: pick(h.dice, 0, Measured)})
		case 3:
			l := Limit{Scope: scope, Kind: Requests, Max: pick[int64](h.dice, 3, 40, 600), Period: time.Minute,
				Window: Window{Shape: Sliding, Length: pick(h.dice, time.Second, 20*time.Second, time.Minute)}, Jitter: pick(h.dice, 300*time.Millisecond, Measured)}
			add(l)
		case 4:
			length := pick(h.dice, 300*time.Millisecond, 2*time.Second, time.Minute)
			add(Limit{Scope: scope, Kind: pick(h.dice, Tokens, InputTokens, OutputTokens), Max: 1000, Period: length,
				Window: Window{Shape: Sliding, Length: length}, Jitter: pick(h.dice, 0, 100*time.Millisecond), Charged: h.once(3)})
		case 5:
			add(Limit{Scope: scope, Kind: pick(h.dice, Tokens, InputTokens), Max: pick[int64](h.dice, 1000, 90_000), Period: pick(h.dice, time.Second, time.Minute),
				Burst: pick[int64](h.dice, 0, 200, 1500), Charged: h.once(2)})
		default:
			add(Limit{Scope: scope, Kind: Requests, Max: int64(1 + h.n(20)), Resets: pick(h.dice, "UTC", "Europe/Berlin")})
		}
		if h.once(3) {
			scope = pick(h.dice, Scope{}, Scope{Provider: "p"}, scope)
		}
	}
	return limits
}

// newHistory is one that begins: Redis has been up for long, and three workers
// are there.
func newHistory(s *stage) (*history, error) {
	h := &history{
		stage: s, dice: &dice{}, keys: newKeys("ef"), model: newModel(historyLease),
		audit: newAudit(), limits: map[string]*rule{}, run: "server-0",
	}
	h.background = &mate{name: backgroundCalls, until: math.MaxInt64}
	h.background.Limiter = New(s.client, Config{Worker: backgroundCalls, Lease: historyLease})
	h.model.keysExpire = s.keysExpire
	h.model.now = historyBegins.UnixMicro()
	h.flushed = h.model.now
	h.pending = nil
	h.throw(nil)
	if err := h.client.FlushAll(context.Background()).Err(); err != nil {
		return h, err
	}
	if err := h.set(historyBegins, 0); err != nil {
		return h, err
	}
	if err := h.begin(longAgo.Microseconds()); err != nil {
		return h, err
	}
	for range 3 {
		if err := h.birth(); err != nil {
			return h, err
		}
	}
	return h, nil
}

// close ends all subscriptions.
func (h *history) close() (err error) {
	for _, w := range append(h.workers, h.dead...) {
		if w.listening {
			err = errors.Join(err, h.hears(w, false))
		}
	}
	return err
}

// play does a history, with some calls of a kind, and returns where the scripts and the model differ.
func play(s *stage, data []byte, also some) (h *history, err error) {
	h, err = newHistory(s)
	h.also = also
	defer func() { err = errors.Join(err, h.close()) }()
	if err != nil {
		return h, err
	}
	h.throw(data[:min(historyStep, len(data))])
	for range 1 + h.n(4) {
		if err := h.register(); err != nil {
			return h, err
		}
	}
	for len(data) > 0 {
		record := data[:min(historyStep, len(data))]
		data = data[len(record):]
		h.throw(record)
		if err := h.step(); err != nil {
			return h, err
		}
	}
	h.throw(nil)
	return h, h.finish()
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%d: ", h.model.now-historyBegins.UnixMicro())+fmt.Sprintf(format, args...))
}

// step does one thing and compares.
func (h *history) step() error {
	h.steps++
	var err error
	high := 0 // bits that choose no kind of step
	if len(h.bytes) > 0 {
		high = int(h.bytes[0]) / 32
	}
	switch n := h.n(32); {
	case n < 7:
		err = h.timePasses()
	case n < 18:
		err = h.batch(pick(h.dice, h.workers...))
	case n == 18:
		err = h.again()
	case n == 19:
		err = h.goesOn(pick(h.dice, h.workers...))
	case n < 24 && high == 7:
		err = h.pauses(pick(h.dice, h.workers...))
	case n < 24:
		err = h.renews(pick(h.dice, h.workers...))
	case n == 24 && high == 7:
		err = h.pinsOften()
	case n == 24 && high >= 5:
		err = h.pinsUnlogged()
	case n == 24 && high == 4:
		err = h.pinsOwn(pick(h.dice, append(slices.Clone(h.workers), h.dead...)...))
	case n == 24:
		err = h.register()
	case n == 25:
		err = h.cool()
	case n == 26:
		err = h.spreads(pick(h.dice, h.workers...))
	case n == 27:
		err = h.dies(h.n(len(h.workers)))
	case n == 28:
		err = h.forgets()
	case n == 29:
		err = h.clockIsSet()
	case n == 30:
		w := pick(h.dice, h.workers...)
		err = h.hears(w, !w.listening)
	default:
		err = h.memoryGoes()
	}
	if err != nil {
		return err
	}
	return h.compare()
}

// timePasses: a little, much, or until just about when something happens.
func (h *history) timePasses() error {
	var passes time.Duration
	if events := h.events(); h.once(2) && len(events) > 0 {
		passes = time.Duration(events[h.n(len(events))]-h.model.now+int64(h.n(3))-1) * time.Microsecond
	} else {
		passes = pick(h.dice,
			time.Microsecond, time.Millisecond, 10*time.Millisecond, 25*time.Millisecond, 49*time.Millisecond,
			100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond, time.Second, 3300*time.Millisecond,
			3300*time.Millisecond, 6*time.Second, 10*time.Second, time.Minute, 10*time.Minute, time.Hour, 6*time.Hour, 24*time.Hour)
		passes = passes * time.Duration(1+h.n(4)) / 3
	}
	passes = max(0, passes).Truncate(time.Microsecond)
	// Leases are not renewed for long, unless the workers are to live.
	for live := h.n(4) > 0; live && passes > 3*time.Second && passes < 2*time.Minute; passes -= 3 * time.Second {
		if err := h.pass(3 * time.Second); err != nil {
			return err
		}
		for _, w := range slices.Clone(h.workers) {
			if err := h.renews(w); err != nil {
				return err
			}
		}
	}
	return h.pass(passes)
}

func (h *history) pass(passes time.Duration) error {
	h.note("%s pass", passes)
	h.model.advance(passes.Microseconds())
	for _, budget := range h.budgets() {
		if !h.model.account(budget.id).spending { // for a month
			h.audit.forgets(budget.id)
		}
	}
	if err := h.set(time.UnixMicro(h.model.now), passes); err != nil {
		return err
	}
	for {
		i := slices.IndexFunc(h.workers, func(w *mate) bool { return w.until <= h.model.now && !w.paused })
		if i < 0 {
			return nil
		}
		if err := h.dies(i); err != nil {
			return err
		}
	}
}

// events are the times at which something changes by itself.
func (h *history) events() (times []int64) {
	m := h.model
	add := func(t int64) {
		if t > m.now && t < m.now+48*hour {
			times = append(times, t)
		}
	}
	add(m.blind)
	for _, c := range m.cooldowns {
		add(c.ends)
	}
	for _, w := range slices.Sorted(maps.Keys(m.heartbeats)) {
		add(m.heartbeats[w])
	}
	for _, id := range slices.Sorted(maps.Keys(m.accounts)) {
		a := m.accounts[id]
		for _, end := range a.leases.ends {
			add(end)
		}
		add(a.arrival)
		add(a.arrival + idleGrace)
		add(a.reset)
		if len(a.line) > 0 {
			add(a.line[0].since + longWait)
		}
		if r := h.limits[id]; r != nil && r.way == byWindow {
			for slot := range a.slots {
				add((slot+1)*r.slot + r.span)
			}
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// birth is a new worker.
func (h *history) birth() error {
	h.born++
	w := &mate{name: fmt.Sprintf("w%d", h.born)}
	w.Limiter = New(h.client, Config{Worker: w.name, Lease: historyLease})
	w.cfg.Notes.own = func() instant { return instant{ran: time.Duration(h.model.now) * time.Microsecond} }
	h.workers = append(h.workers, w)
	h.note("%s is born", w.name)
	if err := h.hears(w, true); err != nil {
		return err
	}
	return h.renews(w)
}

// dies ends a worker. A process that died ends its calls with it; one that is
// frozen cannot end them before it wakes.
func (h *history) dies(i int) error {
	w := h.workers[i]
	h.note("%s dies", w.name)
	h.workers = slices.Delete(h.workers, i, i+1)
	w.until = min(w.until, h.model.now)
	h.dead = append(h.dead, w)
	if h.once(2) {
		if err := h.hears(w, false); err != nil {
			return err
		}
	}
	return h.birth()
}

func (h *history) hears(w *mate, on bool) error {
	w.listening = on
	h.model.listening[w.name] = on
	h.note("%s listens: %t", w.name, on)
	return h.listen(w.keys.wake(w.name), on)
}

// loads: a worker reads the registry, in part where the log of changes allows it. What it then
// knows is what it would know had it read everything.
func (h *history) loads(w *mate) error {
	known := w.known.Load()
	reply, err := h.stage.run(readScript, h.keys.read(), known.version).StringSlice()
	if err != nil {
		return err
	}
	now, err := known.update(h.keys, reply)
	if err != nil {
		return err
	}
	part, fields, _, err := splitReply(reply)
	if err != nil {
		return err
	}
	holders := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), reserved)
	if wantPart, want := h.model.read(known.version); part != wantPart || part && !slices.Equal(holders, want) {
		return fmt.Errorf("%s, who knows %s, reads %v, a part: %t, want %v, a part: %t", w.name, known.version, holders, part, want, wantPart)
	}
	whole, err := h.readWhole()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, whole) {
		return fmt.Errorf("%s, who knew %s, takes the registry for\n%s\nwant\n%s", w.name, known.version, spew(now), spew(whole))
	}
	w.known.Store(now)
	w.rules = now
	return nil
}

// readWhole reads the registry without a script.
func (h *history) readWhole() (*registry, error) {
	ctx := context.Background()
	reply := []string{"whole", ""}
	for _, key := range []string{h.keys.registry(), h.keys.margins()} {
		fields, err := h.client.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		for name, value := range fields {
			reply = append(reply, name, value)
		}
		reply[1] = cmp.Or(reply[1], strconv.Itoa(len(fields)))
	}
	return (&registry{}).update(h.keys, reply)
}

// spew is a registry in words, with what is behind its pointers.
func spew(r *registry) string {
	text := fmt.Sprintf("version %s, since %d, margins %v, holders %v", r.version, r.since, r.margins, r.holders)
	for _, rule := range r.rules {
		text += fmt.Sprintf("\n  %+v, also by its ID: %t", *rule, r.byID[rule.id] == rule)
	}
	return text
}

// finish lets everybody die and checks that no line keeps the dead.
func (h *history) finish() error {
	h.note("all die")
	for range 3 {
		if err := h.dies(0); err != nil {
			return err
		}
	}
	passes := 2 * historyLease
	h.model.advance(passes.Microseconds())
	if err := h.set(time.UnixMicro(h.model.now), passes); err != nil {
		return err
	}
	last := h.workers[0]
	if err := h.renews(last); err != nil {
		return err
	}
	b := &batch{}
	for _, id := range slices.Sorted(maps.Keys(h.limits)) {
		b.touch(h.limits[id])
	}
	if b.empty() {
		return h.bury()
	}
	if err := h.send(h.message(last, b, 0)); err != nil {
		return err
	}
	if err := h.compare(); err != nil {
		return err
	}
	facts, err := h.remembers()
	if err != nil {
		return err
	}
	for _, f := range facts {
		if strings.HasPrefix(f, "line") {
			return fmt.Errorf("a dead worker is in a wait queue: %s", f)
		}
	}
	return h.bury()
}

// bury removes all dead workers, and checks that what they sent before pins nothing.
func (h *history) bury() error {
	for _, w := range h.dead {
		forgotten, err := h.forget(w, false)
		if err != nil {
			return err
		}
		if err := h.pinsOwn(w); err != nil {
			return err
		}
		pins, err := h.client.HExists(context.Background(), h.keys.registry(), WorkerHolder(w.name)).Result()
		if err != nil {
			return err
		}
		if pins && forgotten { // else its heartbeat is valid on a clock that was set back
			return fmt.Errorf("limits of %s, which is forgotten, are in force", w.name)
		}
	}
	return h.compare()
}
