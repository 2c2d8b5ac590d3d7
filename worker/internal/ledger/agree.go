package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// agreement names the record of an evaluation that had everything the ledger keeps of it, and the memory of the limits
// at that time.
type agreement struct {
	created int64 // Unix ms
	memory  string
}

// Agrees reports whether an evaluation's record is still the one made at created and has everything that the ledger
// keeps of it. Only then a call of a run cannot be for an answer that is already known here. memory names the memory of
// the limits under which the call begins; "": the last one seen. Redis is asked once for each record and memory.
func (k *Ledger) Agrees(ctx context.Context, id eval.ID, created time.Time, memory string) (bool, error) {
	asked := agreement{created.UnixMilli(), memory}
	k.mu.Lock()
	last := k.agreed[id]
	k.mu.Unlock()
	if last == asked || memory == "" && last.created == asked.created {
		return true, nil
	}

	held, err := k.store.Held(ctx, id)
	if outage.Final(err) {
		return true, nil // its results are damaged, which the write of the outcome meets and handles
	}
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	outcomes, _ := k.missing(id, held)
	if len(outcomes) > 0 || !held.Created.Equal(created) {
		return false, nil
	}
	k.agreed[id] = asked
	return true, nil
}

// keepAgreed drops the agreements about evaluations of which no run is held.
func (k *Ledger) keepAgreed(held map[eval.ID]time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.agreed {
		if _, is := held[id]; !is {
			delete(k.agreed, id)
		}
	}
}

// Lost returns the evaluations for which the ledger keeps something that Redis lacked at the end of the last Look.
func (k *Ledger) Lost() []eval.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

func (k *Ledger) setLost(now []eval.ID) {
	slices.Sort(now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(now, k.lost) {
		k.tell()
	}
	k.lost = now
}
