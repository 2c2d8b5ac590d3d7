package ratelimit

import (
	"sync"
	"time"
)

// Memory is what a process remembers of limits for Redis, which may lose its own memory. Give it
// to each Limiter that the process has in turn. The zero value is empty.
//
// It remembers the use of each daily quota that Redis told it last, which includes every call
// that was admitted before its own. When Redis's memory has a new epoch, each process reports
// that with its leases. The greatest report is the least that was used, and all of it as long as
// the process that was granted the last call lives.
type Memory struct {
	mu       sync.Mutex // guards all below
	own      ownClock   // nil until it is read
	registry *registry  // as it was read last; nil before
	quotas   map[string]quotaTold
}

// now reads the process's own clock. m.mu is held.
func (m *Memory) now() instant {
	if m.own == nil {
		m.own = newOwnClock()
	}
	return m.own()
}

// quotaTold is the use of a quota that Redis told in an epoch.
type quotaTold struct {
	rule  *rule
	used  int64
	epoch string
	ends  instant // of the day, on the Memory's clock
}

// quotaNow is what a process was told of a quota, for the renew script.
type quotaNow struct {
	state, epoch string
	used         int64
	began, reset int64 // of the day, on Redis's clock, µs
}

// before returns the registry as it was read last; nil if it never was.
func (m *Memory) before() *registry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registry
}

// keep keeps a registry that was read.
func (m *Memory) keep(r *registry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.registry = r
}

// note notes the use of a quota in an epoch when Redis's clock showed a time (µs).
func (m *Memory) note(r *rule, epoch string, used, redisNow int64) {
	_, next, _ := resets(time.UnixMicro(redisNow), r.zone)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.quotas == nil {
		m.quotas = map[string]quotaTold{}
	}
	m.quotas[r.id] = quotaTold{rule: r, used: used, epoch: epoch, ends: m.now().add(next.Sub(time.UnixMicro(redisNow)))}
}

// tell returns what was told of the quotas whose day has not ended. shown is what Redis's clock
// shows now: it may have been set since.
func (m *Memory) tell(shown time.Time) []quotaNow {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var told []quotaNow
	for id, q := range m.quotas {
		if now.reached(q.ends) {
			delete(m.quotas, id)
			continue
		}
		last, next, _ := resets(shown, q.rule.zone)
		told = append(told, quotaNow{q.rule.state, q.epoch, q.used, last.UnixMicro(), next.UnixMicro()})
	}
	return told
}
