package ratelimit

import (
	"maps"
	"sync"
	"time"
)

// Memory is what a process remembers of limits for Redis, which may lose its own memory. Give it
// to each Limiter that the process has in turn. The zero value is empty.
//
// It remembers the use of each daily quota and budget that Redis told it last, which includes every
// call that was admitted before its own, also by a process that has died since. When Redis's memory
// has a new epoch, each process reports that with its leases. The greatest report is the least that
// was used, and all of it as long as the process that was granted the last call lives.
type Memory struct {
	mu       sync.Mutex // guards all below
	own      ownClock   // nil until it is read
	registry *registry  // as it was read last; nil before
	uses     map[string]useTold
}

// now reads the process's own clock. m.mu is held.
func (m *Memory) now() instant {
	if m.own == nil {
		m.own = newOwnClock()
	}
	return m.own()
}

// useTold is the use of a quota or a budget that Redis told in an epoch.
type useTold struct {
	rule  *rule
	used  int64 // calls, or nano-USD spent and reserved
	epoch string
	ends  instant // of a quota's day, on the Memory's clock
}

// useNow is what a process was told of a quota or a budget, for the renew script.
type useNow struct {
	key, epoch   string
	used         int64
	began, reset int64 // of a quota's day, on Redis's clock, µs; 0 for a budget
}

// before returns the registry as it was read last; nil if it never was.
func (m *Memory) before() *registry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registry
}

// keep keeps a registry that was read. A budget that was taken out of it belongs to an evaluation
// that has ended or was deleted, and begins anew if that is submitted again. One that it has not
// had since Redis lost its memory may belong to an evaluation that is still to be submitted again.
func (m *Memory) keep(r *registry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registry != nil && m.registry.epoch == r.epoch {
		maps.DeleteFunc(m.uses, func(id string, told useTold) bool {
			return told.rule.way == byBudget && m.registry.byID[id] != nil && r.byID[id] == nil
		})
	}
	m.registry = r
}

// note notes the use of a quota or a budget in an epoch when Redis's clock showed a time (µs).
func (m *Memory) note(r *rule, epoch string, used, redisNow int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := useTold{rule: r, used: used, epoch: epoch}
	if r.way == byQuota {
		_, next, _ := resets(time.UnixMicro(redisNow), r.zone)
		told.ends = m.now().add(next.Sub(time.UnixMicro(redisNow)))
	}
	if m.uses == nil {
		m.uses = map[string]useTold{}
	}
	m.uses[r.id] = told
}

// tell returns what was told of budgets, and of quotas whose day has not ended. shown is what
// Redis's clock shows now: it may have been set since.
func (m *Memory) tell(shown time.Time) []useNow {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var told []useNow
	for id, use := range m.uses {
		if use.rule.way == byBudget {
			told = append(told, useNow{key: use.rule.money, epoch: use.epoch, used: use.used})
			continue
		}
		if now.reached(use.ends) {
			delete(m.uses, id)
			continue
		}
		last, next, _ := resets(shown, use.rule.zone)
		told = append(told, useNow{use.rule.state, use.epoch, use.used, last.UnixMicro(), next.UnixMicro()})
	}
	return told
}
