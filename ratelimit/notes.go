package ratelimit

import (
	"maps"
	"sync"
	"time"
)

// Notes holds what a process has noted about limits, for Redis, which may lose its memory. Pass the same Notes to each
// Limiter that the process creates. The zero value is empty.
//
// A Limiter notes the use of each daily quota and budget that Redis reported last. That includes every call that was
// admitted earlier, even by a process that has died since. When Redis's memory has a new epoch, each process reports
// the use with its leases. At least the greatest reported amount was used. That is the whole amount as long as the
// process that was granted the last call lives.
type Notes struct {
	mu       sync.Mutex // guards all below
	own      ownClock   // nil until it is read
	registry *registry  // as last read; nil before
	uses     map[string]useTold
}

// now reads the process's own clock. n.mu is held.
func (n *Notes) now() instant {
	if n.own == nil {
		n.own = newOwnClock()
	}
	return n.own()
}

// useTold is the use of a quota or a budget that Redis reported in an epoch.
type useTold struct {
	rule  *rule
	used  int64 // calls, or nano-USD spent and reserved
	epoch string
	ends  instant // of a quota's day, on the Notes' clock
}

// useNow is the use that Redis reported of a quota or a budget, as arguments of the renew script.
type useNow struct {
	key, epoch   string
	used         int64
	began, reset int64 // of a quota's day, on Redis's clock, µs; 0 for a budget
}

// before returns the registry as last read; nil if it was never read.
func (n *Notes) before() *registry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.registry
}

// keep stores a registry that was read. A budget that is no longer in it belongs to an evaluation that has ended or was
// deleted, and starts from 0 if that is submitted again. A budget that has not been in it since Redis lost its memory
// may belong to an evaluation that will be submitted again.
func (n *Notes) keep(r *registry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.registry != nil && n.registry.epoch == r.epoch {
		maps.DeleteFunc(n.uses, func(id string, told useTold) bool {
			return told.rule.way == byBudget && n.registry.byID[id] != nil && r.byID[id] == nil
		})
	}
	n.registry = r
}

// note records the use of a quota or a budget in an epoch, at redisNow on Redis's clock (Unix µs).
func (n *Notes) note(r *rule, epoch string, used, redisNow int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := useTold{rule: r, used: used, epoch: epoch}
	if r.way == byQuota {
		_, next, _ := resets(time.UnixMicro(redisNow), r.zone)
		told.ends = n.now().add(next.Sub(time.UnixMicro(redisNow)))
	}
	if n.uses == nil {
		n.uses = map[string]useTold{}
	}
	n.uses[r.id] = told
}

// tell returns the recorded use of budgets, and of quotas whose day has not ended. shown is what Redis's clock shows
// now: it may have been set since.
func (n *Notes) tell(shown time.Time) []useNow {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	var told []useNow
	for id, use := range n.uses {
		if use.rule.way == byBudget {
			told = append(told, useNow{key: use.rule.money, epoch: use.epoch, used: use.used})
			continue
		}
		if now.reached(use.ends) {
			delete(n.uses, id)
			continue
		}
		last, next, _ := resets(shown, use.rule.zone)
		told = append(told, useNow{use.rule.state, use.epoch, use.used, last.UnixMicro(), next.UnixMicro()})
	}
	return told
}
