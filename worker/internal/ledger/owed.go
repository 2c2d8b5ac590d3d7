package ledger

import (
	"context"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
)

// owedCall is a call that has ended and that Redis does not have yet: its run is to store it with
// its progress or its outcome. A run that pauses, or ends without either, stores it late or never.
type owedCall struct {
	evaluation eval.ID
	call       record.Call
	at         time.Time // when it ended, on this process's clock
}

// recorded says in which memory of the limits everything that counts is in Redis.
type recorded struct {
	memory string // the latest that a look was told of
	// The looks record for memory once every call has been kept that was ending when the first
	// of them began: their names are below barrier.
	barrier int64
	done    bool // all is recorded
	ending  map[int64]bool
	last    int64 // name of the call that began to end last
}

// Ending says that a call is about to end under its limits; kept must be called when Owe has kept
// it, or when nothing is to be stored of it.
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

// Owed returns those of some calls that Redis does not have yet.
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

// Stored says that Redis has calls, and that the ledger keeps them as part of an outcome, or that
// they are not needed.
func (k *Ledger) Stored(calls []record.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range calls {
		delete(k.owed, call.ID)
	}
}

// storeOwed stores the calls of an evaluation that have waited for owedFor, or all, in its record
// made at a time. A run that stores one of them at the same time does no harm: the results store
// keeps each call once.
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

// waiting returns the calls of an evaluation that wait to be stored: for owedFor at least, or all.
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

// recordFor begins a look while the limits remember something. all: the memory is new, and every
// call that has ended is to be stored now. seen notes whether the look has recorded everything.
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

// Recorded names the memory of the limits for which everything is in Redis that this worker knew
// when the memory began: the calls whose end an earlier memory may have counted alone. "": not
// yet for the latest.
func (k *Ledger) Recorded() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.recorded.done {
		return ""
	}
	return k.recorded.memory
}

// tell says that Recorded or Lost may have changed.
func (k *Ledger) tell() {
	select {
	case k.confirmed <- struct{}{}:
	default:
	}
}

// Confirmed receives when Recorded or Lost may have changed.
func (k *Ledger) Confirmed() <-chan struct{} { return k.confirmed }
