package ratelimit

import (
	"strings"
	"time"
)

// clockIsSet sets the clock; keys expire as before.
func (m *model) clockIsSet(by int64) {
	m.now += by
	for _, l := range m.held {
		l.forgotten += by
	}
	for _, a := range m.accounts {
		a.leases.forgotten += by
		a.idle += by
		a.lineEnds += by
		a.moneyEnds += by
		a.cutEnds += by
	}
	m.cooldownsForgotten += by
	m.marginsForgotten += by
	m.logEnds += by
}

// moveClock is the clock script. rules are the limits that it is told of; it is told of
// every ledger.
func (m *model) moveClock(worker string, set, by int64, epoch, known string, rules map[string]*rule) int {
	if set != m.clock || m.epoch == "" {
		return 0
	}
	for w, end := range m.heartbeats {
		if renewed := end - m.lease; by > 0 && w != worker && renewed <= m.now && renewed > m.now-by {
			return -1
		}
	}
	for w := range m.heartbeats {
		m.heartbeats[w] += by
	}
	for name, c := range m.cooldowns {
		c.ends += by
		m.cooldowns[name] = c
	}
	for _, l := range m.held {
		l.shift(by)
	}
	for id, r := range rules {
		a := m.account(id)
		for i := range a.line {
			a.line[i].since += by
		}
		switch {
		case r.leased():
			a.leases.shift(by)
		case r.way == byRate && a.arrival != 0:
			a.arrival += by
		case r.way == byWindow:
			slots := map[int64]int64{}
			for slot, units := range a.slots {
				slots[slot+ceilDiv(by, r.slot)] = units
			}
			a.slots = slots
		case r.way == byQuota && a.reset > m.now-by:
			_, next, _ := resets(time.UnixMicro(m.now), r.zone)
			a.reset = next.UnixMicro()
		}
		if r.Adaptive && a.cutTo > 0 {
			a.cutAt += by
		}
	}
	switch {
	case by >= hour/2:
		m.since = m.now
	case m.since > 0 && m.epoch == known:
		m.since += by
	}
	m.epoch, m.blind, m.clock = epoch+"@"+memoryOf(m.epoch), m.now+m.lease, m.clock+1
	m.tellAll()
	return 1
}

func (l *leases) shift(by int64) {
	for id, end := range l.ends {
		if end >= noTime {
			l.ends[id] += by
		}
	}
}

// memoryOf returns the name of the memory that an epoch has.
func memoryOf(epoch string) string {
	if _, memory, clock := strings.Cut(epoch, "@"); clock {
		return memory
	}
	return epoch
}
