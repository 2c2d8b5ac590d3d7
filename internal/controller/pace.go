package controller

import (
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// paceCalls is about how many of a model's last calls its mean covers.
const paceCalls = 200

// pace knows how long calls take and how many tokens they use, by "provider:model".
type pace struct {
	cold time.Duration

	mu sync.Mutex
	of map[string]*usual
}

// usual holds means over a model's last calls.
type usual struct {
	calls                  int
	seconds, input, output float64
}

func newPace(cold time.Duration) *pace { return &pace{cold: cold, of: map[string]*usual{}} }

// add includes calls that were made and answered.
func (p *pace) add(calls []record.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range calls {
		if c.Cached || c.Class != "" || c.Started.IsZero() || !c.Usage.Reported {
			continue
		}
		u := p.of[c.Model]
		if u == nil {
			u = &usual{}
			p.of[c.Model] = u
		}
		u.calls++
		weight := 1 / float64(min(u.calls, paceCalls))
		u.seconds += weight * (c.Ended.Sub(c.Started).Seconds() - u.seconds)
		u.input += weight * (float64(c.Usage.Input) - u.input)
		u.output += weight * (float64(c.Usage.Output) - u.output)
	}
}

// ofModel returns the means of a model. Before any call, calls is 0 and seconds the configured
// latency.
func (p *pace) ofModel(model string) usual {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.of[model]; u != nil {
		return *u
	}
	return usual{seconds: p.cold.Seconds()}
}
