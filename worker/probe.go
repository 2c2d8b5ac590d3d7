package worker

import (
	"sync"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// Probe reads the state of a running worker: set Config.Probe to the address of one. It is safe for concurrent use at
// any time. It never asks Redis, so it does not block while Redis is unreachable.
type Probe struct {
	mu       sync.Mutex // guards all below
	limiter  *ratelimit.Limiter
	troubles func() map[string]string
	serves   []string // providers
	stopping bool
	sessions int
	past     ratelimit.Health // of earlier sessions
}

// Vitals describes the health of a worker.
type Vitals struct {
	Ready      bool // it is known to the fleet, Redis answers, and it takes runs
	RedisAway  bool // Redis did not answer the last command, or has not answered yet
	Outages    int  // how often Redis stopped answering
	LeasesLost int  // leases that ended before their calls did
	// Sessions counts the worker IDs that this process has had. Each after the first means that the process could not
	// renew its leases in time.
	Sessions int
	Waiting  int // calls that wait for admission
	// Providers are the providers that this worker serves.
	Providers []string
	// Troubles are the providers that only this worker cannot call, with the reason for each.
	Troubles map[string]string
}

// Vitals returns the worker's health; before and after its run, it is not ready.
func (p *Probe) Vitals() Vitals {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := Vitals{Sessions: p.sessions, Outages: p.past.Outages, LeasesLost: p.past.Lost}
	if p.limiter == nil {
		v.RedisAway = p.sessions == 0
		return v
	}
	health := p.limiter.Health()
	v.RedisAway = health.Away
	v.Outages += health.Outages
	v.LeasesLost += health.Lost
	v.Waiting = p.limiter.Waiting()
	v.Providers, v.Troubles = p.serves, p.troubles()
	v.Ready = len(v.Troubles) < len(p.serves) && !p.stopping && !health.Away && closed(p.limiter.Beating()) && !closed(p.limiter.Fenced())
	return v
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin makes the probe read a new session, which serves providers.
func (p *Probe) begin(limiter *ratelimit.Limiter, troubles func() map[string]string, serves []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions++
	p.limiter, p.troubles, p.serves = limiter, troubles, serves
}

// end adds the counts of a session that has ended.
func (p *Probe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	health := p.limiter.Health()
	p.past.Outages += health.Outages
	p.past.Lost += health.Lost
	p.limiter = nil
}

// stop records that no more runs are taken.
func (p *Probe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}
