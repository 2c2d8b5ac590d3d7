package ratelimit

import (
	"strings"
	"time"
)

func (m *model) seed(quota *rule, who, epoch string, units int64, knows bool) int64 {
	if epoch != "" && epoch != m.epoch {
		return -2
	}
	a := m.account(quota.id)
	known := a.reset > m.now || strings.HasPrefix(m.epoch, firstEpoch)
	if !knows && (a.closed || !known) {
		return -1
	}
	if used, open := m.tellQuota(a, "told:"+who, units); !open {
		_, next, _ := resets(time.UnixMicro(m.now), quota.zone)
		a.used, a.reset = used, next.UnixMicro()
	}
	a.closed = false
	m.changed("")
	return a.used
}

func (m *model) enterEpoch(a *account) {
	open := a.reset > m.now
	if a.epoch == m.epoch && (open || a.reset == 0) {
		return
	}
	if !open {
		a.used, a.reset, a.closed = 0, 0, false
	}
	a.epoch, a.whole, a.base, a.before = m.epoch, false, a.used, 0
	clear(a.told)
}

func (m *model) tellQuota(a *account, field string, units int64) (used int64, open bool) {
	m.enterEpoch(a)
	if open = a.reset > m.now; open && a.whole {
		return a.used, true
	}
	was := a.before
	a.before += units - a.told[field]
	a.told[field] = units
	if !open {
		return a.before, false
	}
	a.used += max(a.base, a.before) - max(a.base, was)
	return a.used, true
}

// rememberUse makes a quota remember at least what a worker was told of it in an earlier epoch.
func (m *model) rememberUse(a *account, told useNow) {
	m.enterEpoch(a)
	if a.whole || told.used <= a.base || told.began > m.now || told.reset <= m.now {
		return
	}
	counted := int64(0)
	open := a.reset > m.now
	if open {
		counted = a.used - max(a.base, a.before)
	}
	a.base, a.used = told.used, counted+max(told.used, a.before)
	if !open {
		a.reset, a.closed = told.reset, m.since > told.began
	}
}

// rememberMoney makes a closed budget have at least what a worker was told of it.
func (m *model) rememberMoney(a *account, used int64) {
	if !a.toldSpent && a.least < used {
		a.least, a.moneyEnds = used, m.now+month
	}
}

// ranBefore counts a call that was in flight when Redis lost its memory.
func (m *model) ranBefore(a *account, id string) {
	if _, counted := a.told["ran:"+id]; !counted || a.epoch != m.epoch {
		m.tellQuota(a, "ran:"+id, 1)
	}
}

func (m *model) tellSpent(budget, epoch string, nano int64) int64 {
	if epoch != "" && epoch != m.epoch {
		return -1
	}
	a := m.account(budget)
	if !a.toldSpent {
		a.spend(m.now, nano)
		a.spent = max(a.spent, a.least)
		a.least, a.toldSpent, a.toldAs = 0, true, nano
		m.changed("")
	}
	return a.spent
}

// spentSeen is what a process has read of a budget's money.
type spentSeen struct {
	spent, least, told int64
}

func (m *model) seeSpent(budget string) spentSeen {
	a := m.account(budget)
	return spentSeen{a.spent, a.least, a.toldAs}
}

// forgetSpent forgets a budget of which a process has seen something, unless that has changed.
func (m *model) forgetSpent(budget string, seen spentSeen) bool {
	a := m.account(budget)
	for _, end := range a.leases.ends {
		if end > m.now {
			return false
		}
	}
	if m.seeSpent(budget) != seen {
		return false
	}
	a.spent, a.least, a.spending = 0, 0, false
	a.toldSpent, a.toldAs = false, 0
	clear(a.leases.ends)
	return true
}
