package ratelimit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// model is the algorithm of the scripts in plain Go: what Redis remembers, and
// one method for each script. Times are Redis's, in µs. It is what TestModelAgrees
// and FuzzAdmission hold the scripts against.
type model struct {
	now   int64
	lease int64
	// keysExpire says that Redis drops keys at the end of their life.
	keysExpire bool

	version            int64
	log                []change // of the version, the newest first
	logEnds            int64    // when it is forgotten
	epoch, run         string
	since, blind       int64
	clock              int64             // how often the clock was set
	pinned             map[string]string // holder → limits
	heartbeats         map[string]int64  // worker → its end
	held               map[string]*leases
	accounts           map[string]*account // by limit ID
	cooldowns          map[string]cooldown
	cooldownsForgotten int64
	margins            map[string]*marginSeen // by provider
	marginsForgotten   int64

	listening map[string]bool // by worker
	messages  []string        // sent since they were read last
}

// account is what Redis remembers of a limit.
type account struct {
	leases  leases
	arrival int64            // of a rate: the theoretical arrival time (TAT)
	idle    int64            // and when it is forgotten
	slots   map[int64]int64  // of a window: units
	used    int64            // of a quota
	reset   int64            // and until when it counts
	epoch   string           // in which the rest was written
	whole   bool             // it was counted from its reset on
	base    int64            // what was remembered of earlier epochs
	before  int64            // the sum of told
	told    map[string]int64 // by results stores and calls
	closed  bool             // until it is seeded
	// Of a budget: nano-USD spent and reserved, the least that earlier epochs remember, whether
	// there is a number at all, whether it was told what was spent before, and when all that is
	// forgotten.
	spent, least        int64
	spending, toldSpent bool
	toldAs              int64
	moneyEnds           int64
	// Of a limit that adapts: what it is cut to (0: nothing), when, how many calls
	// were answered towards its growth, and when all that is forgotten.
	cutTo, cutAt, answered, cutEnds int64
	line                            []waiter // in order
	lineEnds                        int64    // when it is forgotten
}

// leases are the ends of leases, by call.
type leases struct {
	ends      map[string]int64
	forgotten int64 // when the set is forgotten
}

// change is a version of the registry that a script made.
type change struct{ version, holder string }

type waiter struct {
	worker string
	since  int64
}

type cooldown struct {
	ends int64
	word string // "probe": one call was let through
	step int64  // the length of the last one that came without a time
}

const (
	// What the log of the registry's changes holds.
	loggedChanges = 256

	second = 1_000_000
	hour   = 3600 * second
	month  = 720 * hour

	// A waiter that leaves the rate idle this long loses its turn.
	idleGrace = 250_000
	// A worker that has waited this long goes first.
	longWait = 5 * second
	// The call after a cooldown is alone for so long.
	aloneFor = second
	// The call in an outage is alone for so long without an answer.
	proveFor = 60 * second
	// The others ask again so soon.
	soonFor = 10 * second
	// A refusal so soon after a paced cooldown shows that the pace was too fast.
	againWithin = 10 * second
	// The end of a lease that was counted when it ended is below.
	noTime = 1_000_000 * second
)

func newModel(lease time.Duration) *model {
	m := &model{lease: lease.Microseconds(), listening: map[string]bool{}}
	m.flush()
	return m
}

// flush is FLUSHALL.
func (m *model) flush() {
	m.version, m.epoch, m.run, m.since, m.blind, m.clock = 0, "", "", 0, 0, 0
	m.pinned, m.heartbeats = map[string]string{}, map[string]int64{}
	m.held, m.accounts, m.cooldowns = map[string]*leases{}, map[string]*account{}, map[string]cooldown{}
	m.cooldownsForgotten = 0
	m.margins = map[string]*marginSeen{}
	m.log = nil
}

// advance lets time pass.
func (m *model) advance(micros int64) {
	m.now += micros
	if !m.keysExpire {
		return
	}
	for _, l := range m.held {
		l.forget(m.now)
	}
	for _, a := range m.accounts {
		a.leases.forget(m.now)
		if a.idle <= m.now {
			a.arrival = 0
		}
		if a.lineEnds <= m.now {
			a.line = nil
		}
		if a.moneyEnds <= m.now {
			a.spent, a.least, a.spending, a.toldSpent, a.toldAs = 0, 0, false, false, 0
		}
		if a.cutEnds <= m.now {
			a.uncut()
		}
	}
	if m.cooldownsForgotten <= m.now {
		clear(m.cooldowns)
	}
	if m.marginsForgotten <= m.now {
		clear(m.margins)
	}
	if m.logEnds <= m.now {
		m.log = nil
	}
}

func (l *leases) forget(now int64) {
	if l.forgotten <= now {
		clear(l.ends)
	}
}

// last makes the set outlive a time by an hour.
func (l *leases) last(now, micros int64) {
	l.forgotten = max(l.forgotten, now+millis(micros)+hour)
}

// put adds a lease, or changes its end.
func (l *leases) put(id string, end int64) {
	if len(l.ends) == 0 {
		l.forgotten = 0 // an empty set is none
	}
	l.ends[id] = end
}

// millis rounds up to whole milliseconds, in which keys live.
func millis(micros int64) int64 { return (micros + 999) / 1000 * 1000 }

func (m *model) account(limit string) *account {
	a := m.accounts[limit]
	if a == nil {
		a = &account{leases: leases{ends: map[string]int64{}}, slots: map[int64]int64{}, told: map[string]int64{}}
		m.accounts[limit] = a
	}
	return a
}

func (m *model) heldBy(worker string) *leases {
	l := m.held[worker]
	if l == nil {
		l = &leases{ends: map[string]int64{}}
		m.held[worker] = l
	}
	return l
}

func (m *model) lives(worker string) bool { return m.heartbeats[worker] > m.now }

// send publishes a message to a worker and says whether anybody listened.
func (m *model) send(worker, text string) bool {
	if m.listening[worker] {
		m.messages = append(m.messages, worker+" "+text)
	}
	return m.listening[worker]
}

// versionString is how a worker names the registry that it has read.
func (m *model) versionString() string { return fmt.Sprintf("%s:%d", m.epoch, m.version) }

// register registers limits, those of a worker ("" for none) only while it lives.
func (m *model) register(holder, limits, of string) bool {
	if of != "" && !m.lives(of) {
		return false
	}
	if m.pinned[holder] != limits {
		m.pin(holder, limits)
		m.changed(holder)
	}
	return true
}

func (m *model) pin(holder, limits string) {
	if limits == "" {
		delete(m.pinned, holder)
	} else {
		m.pinned[holder] = limits
	}
}

// changed logs that a holder, "" for none, changed the registry, and tells every live worker to
// read it again.
func (m *model) changed(holder string) {
	m.version++
	m.log = append([]change{{m.versionString(), holder}}, m.log[:min(len(m.log), loggedChanges-1)]...)
	m.logEnds = m.now + 24*hour
	m.tellAll()
}

// read says what the read script answers to a process that knows a version: which holders
// changed since, or everything.
func (m *model) read(known string) (part bool, holders []string) {
	changed := map[string]bool{}
	for i := 0; m.epoch != ""; i++ {
		at := fmt.Sprintf("%s:%d", m.epoch, m.version-int64(i))
		if at == known {
			delete(changed, "")
			return true, slices.Sorted(maps.Keys(changed))
		}
		if i == len(m.log) || m.log[i].version != at {
			break
		}
		changed[m.log[i].holder] = true
	}
	return false, nil
}

func (m *model) tellAll() {
	// In the order of their ends, as the script finds them.
	live := slices.DeleteFunc(slices.Collect(maps.Keys(m.heartbeats)), func(w string) bool { return m.heartbeats[w] < m.now })
	slices.SortFunc(live, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.heartbeats[a], m.heartbeats[b]), cmp.Compare(a, b))
	})
	for _, worker := range live {
		m.send(worker, "limits")
	}
}

func (m *model) begin(epoch, run string, memory, unknown int64, sums []*rule) {
	if m.epoch != "" && m.run == run {
		return
	}
	first := m.epoch == ""
	m.epoch, m.run, m.since = epoch, run, m.now-memory
	m.blind = m.since + unknown
	if first {
		return
	}
	for _, r := range sums {
		a := m.account(r.id)
		if r.way == byBudget {
			if a.spending || a.least > 0 {
				a.least = max(a.least, a.spent)
			}
			a.spent, a.spending, a.toldSpent, a.toldAs = 0, false, false, 0
			clear(a.leases.ends)
			continue
		}
		m.enterEpoch(a)
		a.closed = a.reset > 0
		if !a.closed {
			a.epoch = ""
		}
	}
}

func (m *model) cool(name string, wait int64, word string, random int64, rates []*rule) int64 {
	c, was := m.cooldowns[name]
	probes := c.word == "probe" || c.word == provingWord
	if wait == 0 {
		if probes {
			c.step = min(60*second, 2*max(c.step, second))
		} else if c.ends <= m.now && c.word != outWord || c.step == 0 {
			c.step = second
		}
		wait = c.step
	}
	if word == outWord {
		wait += wait * random / 4000
	}
	again := c.ends <= m.now && c.ends+againWithin > m.now
	if word == pacedWord && was && (c.word != pacedWord || again) {
		word = coolWord
	}
	if left := c.ends - m.now; !probes && left > wait {
		wait, word = left, c.word
	}
	left := max(0, m.cooldownsForgotten-m.now) / 1000 * 1000
	if len(m.cooldowns) == 0 {
		left = 0 // an empty hash is none
	}
	m.cooldowns[name] = cooldown{ends: m.now + wait, word: word, step: c.step}
	m.cooldownsForgotten = m.now + max(left, millis(wait)+hour)
	if word == pacedWord {
		for _, r := range rates {
			m.account(r.id).empty(m.now, m.now+wait+r.micros(float64(r.burst-1)))
		}
	}
	return wait
}

// answered ends outages of the cooldowns that apply to an answered call.
func (m *model) answered(names []string) (ended int64) {
	for _, name := range names {
		if word := m.cooldowns[name].word; word == outWord || word == provingWord {
			delete(m.cooldowns, name)
			ended = 1
		}
	}
	return ended
}

func (m *model) forget(worker string, itself bool, limits []string) bool {
	if !itself && m.lives(worker) {
		return false
	}
	delete(m.heartbeats, worker)
	for _, id := range limits {
		m.account(id).leave(worker)
	}
	if holder := WorkerHolder(worker); m.pinned[holder] != "" {
		m.pin(holder, "")
		m.changed(holder)
	}
	return true
}

// lease that a worker renews.
type renewal struct {
	id     string
	counts int64      // µs until it ends by itself; 0: when it is not renewed
	limits []leasedBy // that keep a set of leases
	// The budgets among them, and what is reserved of each.
	budgets []string
	cost    int64
	quotas  []string
}

// leasedBy is a limit that keeps a set of leases, and with what a lease's name ends there.
type leasedBy struct{ id, ending string }

func (m *model) renew(worker, epoch string, renewals []renewal, told map[string]useNow) (inForce string, lost []int64) {
	relearns := epoch != unknownEpoch && m.epoch != epoch && (m.epoch == "" || m.blind > m.now)
	m.heartbeats[worker] = m.now + m.lease
	ledger := m.heldBy(worker)
	for i, r := range renewals {
		known := ledger.ends[r.id] > m.now
		for _, l := range r.limits {
			known = known && m.account(l.id).leases.ends[r.id+l.ending] > m.now
		}
		ended := slices.ContainsFunc(r.budgets, func(id string) bool {
			end, has := m.account(id).leases.ends[r.id]
			return has && end < noTime
		})
		if !known && (!relearns || ended) {
			lost = append(lost, int64(i+1))
			continue
		}
		for _, id := range r.budgets {
			if _, reserved := m.account(id).leases.ends[r.id]; !reserved {
				m.account(id).spend(m.now, r.cost)
			}
		}
		if relearns || ledger.ends[r.id] <= m.now {
			for _, id := range r.quotas {
				m.ranBefore(m.account(id), r.id)
			}
		}
		ledger.put(r.id, m.now+m.lease)
		ledger.last(m.now, m.lease)
		for _, of := range r.limits {
			l, member := &m.account(of.id).leases, r.id+of.ending
			l.put(member, max(l.ends[member], m.now+max(m.lease, r.counts)))
			l.last(m.now, max(m.lease, r.counts))
		}
	}
	for id, q := range told {
		switch {
		case m.epoch == "" || q.epoch == m.epoch:
		case q.reset > 0:
			m.rememberUse(m.account(id), q)
		default:
			m.rememberMoney(m.account(id), q.used)
		}
	}
	// The sets of leases that were lost live on, too.
	for _, r := range renewals {
		for _, l := range r.limits {
			m.account(l.id).leases.last(m.now, m.lease)
		}
	}
	ledger.last(m.now, m.lease)
	return m.epoch, lost
}

// handOver makes a worker's lease that of a background call.
func (m *model) handOver(worker, id, call string, ends int64, limits []leasedBy) bool {
	own, background := m.heldBy(worker), m.heldBy(backgroundCalls)
	if _, again := background.ends[call]; again {
		return true
	}
	if own.ends[id] <= m.now {
		return false
	}
	delete(own.ends, id)
	background.put(call, m.now+ends)
	background.last(m.now, ends)
	for _, limit := range limits {
		l := &m.account(limit.id).leases
		delete(l.ends, id+limit.ending)
		l.put(call+limit.ending, m.now+ends)
		l.last(m.now, ends)
	}
	return true
}

// A wait queue holds workers by the time at which they joined.

func (a *account) place(worker string) int {
	return slices.IndexFunc(a.line, func(w waiter) bool { return w.worker == worker })
}

func (a *account) leave(worker string) {
	a.line = slices.DeleteFunc(a.line, func(w waiter) bool { return w.worker == worker })
}

// goLast puts a worker at the end of the line.
func (a *account) goLast(worker string, now int64) {
	a.leave(worker)
	a.line = append(a.line, waiter{worker, now})
	slices.SortFunc(a.line, func(x, y waiter) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.worker, y.worker))
	})
}

// frontWaits is how long the first of the wait queue has waited.
func (a *account) frontWaits(now int64) int64 {
	if len(a.line) == 0 {
		return 0
	}
	return now - a.line[0].since
}
