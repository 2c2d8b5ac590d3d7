package ledger

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// owedCall is a call that has ended and that Redis does not have yet. Its run is to store it with its progress or its
// outcome. A run that pauses, or ends without either, stores it late or never.
type owedCall struct {
	evaluation eval.ID
	call       record.Call
	at         time.Time // when it ended, on this process's clock
}

// recorded notes whether this worker has stored again, since Redis last lost data, all that limits and budgets count.
// Each memory of the limits, which ends with such a loss, has a name.
type recorded struct {
	memory string // the latest memory passed to a look
	// Looks store everything for memory once every call has been kept that was ending when the first of them began:
	// their numbers are below barrier.
	barrier int64
	done    bool // all is recorded
	ending  map[int64]bool
	last    int64 // number of the call that was the last to begin to end
}

// Ending notes that a call is about to end under its limits. Call kept when Owe has kept it, or when nothing of it is
// to be stored.
func (k *Ledger) Ending() (kept func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.recorded.ending == nil {
		k.recorded.ending = map[int64]bool{}
	}
	name := k.recorded.last
	k.recorded.last++
	k.recorded.ending[name] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.recorded.ending, name)
	}
}

// Owe keeps a call that has ended, until Stored or until a look has stored it.
func (k *Ledger) Owe(id eval.ID, call record.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owed[call.ID] = owedCall{id, call, time.Now()}
}

// Owed returns those of the calls that Redis does not have yet.
func (k *Ledger) Owed(calls []record.Call) (owed []record.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range calls {
		if _, is := k.owed[call.ID]; is {
			owed = append(owed, call)
		}
	}
	return owed
}

// Stored notes that Redis has the calls and the ledger keeps them as part of an outcome, or that they are not needed.
func (k *Ledger) Stored(calls []record.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range calls {
		delete(k.owed, call.ID)
	}
}

// storeOwed stores the calls of an evaluation that have waited for owedFor, or all, in its record made at created. A
// run may store one of them at the same time, because the results store keeps each call only once.
func (k *Ledger) storeOwed(ctx context.Context, id eval.ID, all bool, created time.Time) error {
	var calls []record.Call
	size := 0
	send := func() error {
		if len(calls) == 0 {
			return nil
		}
		entry, err := k.store.AppendCalls(ctx, id, calls)
		if err == nil {
			k.PutCalls(id, calls, created, entry)
		}
		calls, size = nil, 0
		return err
	}

	for _, call := range k.waiting(id, all) {
		calls = append(calls, call)
		if size += sizeOf(call); size < owedBytes {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}

	return send()
}

// waiting returns the calls of an evaluation that have waited to be stored for at least owedFor, or all that wait.
func (k *Ledger) waiting(id eval.ID, all bool) (calls []record.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.owed {
		if o.evaluation == id && (all || time.Since(o.at) >= owedFor) {
			calls = append(calls, o.call)
		}
	}
	return calls
}

// forgetOwed drops the calls of an evaluation that ended before a time.
func (k *Ledger) forgetOwed(id eval.ID, before time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, o := range k.owed {
		if o.evaluation == id && o.at.Before(before) {
			delete(k.owed, name)
		}
	}
}

// recordFor begins a look while the limits have a memory. all: the memory is new, so every call that has ended is to be
// stored now. Call seen with whether the look has recorded everything.
func (k *Ledger) recordFor(memory string) (all bool, seen func(everything bool)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &k.recorded
	if memory != r.memory {
		r.memory, r.barrier, r.done = memory, r.last, false
	}
	kept := true
	for name := range r.ending {
		kept = kept && name >= r.barrier
	}
	return !r.done, func(everything bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		before := r.done
		r.done = everything && kept && memory != ""
		if r.done != before {
			k.tell()
		}
	}
}

// Recorded returns the name of the limits' memory for which Redis has everything that this worker knew when the memory
// began. That includes the calls whose end only an earlier memory may have counted. "": Redis does not have it yet for
// the latest memory.
func (k *Ledger) Recorded() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.recorded.done {
		return ""
	}
	return k.recorded.memory
}

// tell announces that Recorded or Lost may have changed.
func (k *Ledger) tell() {
	select {
	case k.confirmed <- struct{}{}:
	default:
	}
}

// Confirmed returns a channel that receives when Recorded or Lost may have changed.
func (k *Ledger) Confirmed() <-chan struct{} { return k.confirmed }
