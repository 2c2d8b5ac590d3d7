package evaluations

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/internal/stop"
)

// ErrElsewhere is the cause that ends the waits of runs whose calls only another worker can make.
var ErrElsewhere = errors.New("this worker cannot call its provider")

// ErrHalted is the cause that ends the waits of runs whose evaluation may start no calls.
var ErrHalted = errors.New("its evaluation is not active")

// Halts ends the waits of runs if, after their task was checked, their evaluation was paused, cancelled or deleted, or
// their provider was paused for it. It does not end calls in flight. It is safe for concurrent use.
type Halts struct {
	store *store.Store

	mu sync.Mutex // guards of and the halts in it; not held during I/O with Redis
	of map[Halted]*halt
}

// Halted identifies the runs that a halt applies to.
type Halted struct {
	Evaluation eval.ID
	Provider   string
}

// halt is shared by the runs of one evaluation and provider that this worker holds.
type halt struct {
	*stop.Signal
	runs int
}

// NewHalts returns a Halts for the evaluations in a store.
func NewHalts(s *store.Store) *Halts { return &Halts{store: s, of: map[Halted]*halt{}} }

// Enter returns a signal that is given when the evaluation may start no more calls of the provider. Call leave when the
// run is over.
func (h *Halts) Enter(id eval.ID, provider string) (halted *stop.Signal, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := Halted{id, provider}
	with := h.of[key]
	if with == nil {
		with = &halt{Signal: stop.NewSignal()}
		h.of[key] = with
	}
	with.runs++
	return with.Signal, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if with.runs--; with.runs == 0 && h.of[key] == with {
			delete(h.of, key)
		}
	}
}

// Held returns the evaluations of which runs are held.
func (h *Halts) Held() []eval.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []eval.ID
	for key := range h.of {
		if !slices.Contains(ids, key.Evaluation) {
			ids = append(ids, key.Evaluation)
		}
	}
	return ids
}

// End halts an evaluation, and reports whether it held runs that were not halted yet. Runs
// pulled later are checked again.
func (h *Halts) End(id eval.ID) bool {
	return h.endThose(ErrHalted, func(key Halted) bool { return key.Evaluation == id })
}

// EndOf halts the calls of an evaluation to one provider.
func (h *Halts) EndOf(these Halted) {
	h.endThose(ErrHalted, func(key Halted) bool { return key == these })
}

// EndAt ends the waits of runs for calls of a provider that only another worker can make.
func (h *Halts) EndAt(provider string) {
	h.endThose(ErrElsewhere, func(key Halted) bool { return key.Provider == provider })
}

func (h *Halts) endThose(cause error, which func(Halted) bool) (any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, with := range h.of {
		if which(key) {
			with.Give(cause)
			delete(h.of, key)
			any = true
		}
	}
	return any
}

// Look cancels the waits of inactive evaluations among ids. Runs pulled later are checked
// again.
func (h *Halts) Look(ctx context.Context, ids ...eval.ID) error {
	held := h.Held()
	ids = slices.DeleteFunc(ids, func(id eval.ID) bool { return !slices.Contains(held, id) })
	if len(ids) == 0 {
		return nil
	}
	going, err := h.store.Going(ctx, ids)
	if err != nil {
		return err
	}
	h.endThose(ErrHalted, func(key Halted) bool {
		of, asked := going[key.Evaluation]
		return asked && !of.Begins(key.Provider)
	})
	return nil
}
