package call

import (
	"context"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// yieldTime is how long a run waits beyond a cooldown if the provider refused the last call of its kind. When the
// cooldown ends, only one call starts. By waiting, the run leaves it to other runs of the same queue, if there are any.
const yieldTime = 2 * time.Second

// Asides decides which runs step aside in a cooldown. A queue that serves one model for one evaluation needs this for
// none of its runs, because all wait for the same. In any other queue, a run at the front that waits for a cooldown
// would hold up runs that the cooldown does not concern.
//
// A run that steps aside waits in the worker, without a slot and outside the limiter's wait queues. If too many do, it
// goes back to its queue. Asides is safe for concurrent use.
type Asides struct {
	slots int // of the worker

	mu      sync.Mutex // guards all below
	shared  map[string]bool
	resting map[resters]int
	refused map[Asker]bool // its last call was refused because of too many requests
}

// Asker identifies runs that a provider treats alike, as far as we know.
type Asker struct {
	Evaluation eval.ID
	Model      string // provider:model
}

type resters struct {
	queue string
	Asker
}

// NewAsides returns an Asides for a worker with a number of slots.
func NewAsides(slots int) *Asides {
	return &Asides{slots: slots, shared: map[string]bool{}, resting: map[resters]int{}, refused: map[Asker]bool{}}
}

// Share sets which askers have runs in each queue. A queue with several is shared.
func (a *Asides) Share(askers map[string]map[Asker]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared = map[string]bool{}
	for queue, of := range askers {
		a.shared[queue] = len(of) > 1
	}
	for who := range a.refused {
		wanted := false
		for _, of := range askers {
			wanted = wanted || of[who]
		}
		if !wanted {
			delete(a.refused, who)
		}
	}
}

// stepsAside reports whether a queue's runs step aside in a cooldown.
func (a *Asides) stepsAside(queue string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shared[queue]
}

// told records whether a provider refused the last call of an asker.
func (a *Asides) told(who Asker, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if refused {
		a.refused[who] = true
	} else {
		delete(a.refused, who)
	}
}

// yields returns how much longer than a cooldown a run waits, so that others are tried first.
func (a *Asides) yields(queue string, who Asker) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shared[queue] && a.refused[who] {
		return yieldTime
	}
	return 0
}

// rest lets a run wait in the worker and returns leave, to call after the wait. ok is false if half of the worker's
// slots, or an eighth with runs of the same asker, would wait in this way.
func (a *Asides) rest(queue string, who Asker) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := 0
	for _, n := range a.resting {
		all += n
	}
	these := resters{queue, who}
	if all >= a.slots/2 || a.resting[these] >= max(1, a.slots/8) {
		return nil, false
	}
	a.resting[these]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.resting[these]--; a.resting[these] == 0 {
			delete(a.resting, these)
		}
	}, true
}

// cooled is the error of a call that would wait for a cooldown which may not concern others of its queue.
type cooled struct{ wait time.Duration }

func (*cooled) Error() string { return "a cooldown delays the call" }

// stepAside waits for the end of a cooldown, or returns the run to its queue for that long.
func (c *Calls) stepAside(ctx context.Context, s Step, wait time.Duration) error {
	who := Asker{c.run.Task.Evaluation, s.Target.Target()}
	yields := c.by.Asides.yields(c.run.Queue, who)
	if most := c.chain.MaxWait(); most > 0 { // no longer than its evaluation waits
		yields = min(yields, max(0, most-wait))
	}
	wait += yields
	const why = "its provider is overloaded"
	if leave, ok := c.by.Asides.rest(c.run.Queue, who); ok {
		defer leave()
		return c.run.Pause(ctx, wait, why)
	}
	return c.run.GoBack(ctx, wait, why)
}

// Yields returns how much longer than a cooldown the run waits so that others are tried first.
func (c *Calls) Yields(target eval.Judge) time.Duration {
	return c.by.Asides.yields(c.run.Queue, Asker{c.run.Task.Evaluation, target.Target()})
}
