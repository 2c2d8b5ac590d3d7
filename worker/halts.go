package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/store"
)

// halts end the waits of runs if their evaluation was paused, cancelled or deleted, or their
// provider paused for it, after their task was checked. A call in flight is left to end. It is
// safe for concurrent use.
type halts struct {
	store *store.Store

	mu sync.Mutex // guards of and the halts in it; not held during I/O with Redis
	of map[haltKey]*halt
}

// haltKey identifies the runs that a halt applies to.
type haltKey struct {
	evaluation eval.ID
	provider   string
}

// halt is what the runs of one evaluation and provider that this worker holds wait
// with.
type halt struct {
	ctx  context.Context
	end  context.CancelFunc
	runs int
}

func newHalts(s *store.Store) *halts { return &halts{store: s, of: map[haltKey]*halt{}} }

// enter returns a context that ends when the evaluation may begin no more
// calls of the provider. leave must be called when the run is over.
func (h *halts) enter(id eval.ID, provider string) (halted context.Context, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := haltKey{id, provider}
	with := h.of[key]
	if with == nil {
		with = &halt{}
		with.ctx, with.end = context.WithCancel(context.Background()) // of no single task
		h.of[key] = with
	}
	with.runs++
	return with.ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if with.runs--; with.runs > 0 {
			return
		}
		with.end()
		if h.of[key] == with {
			delete(h.of, key)
		}
	}
}

// held lists the evaluations that runs are held of.
func (h *halts) held() []eval.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []eval.ID
	for key := range h.of {
		if !slices.Contains(ids, key.evaluation) {
			ids = append(ids, key.evaluation)
		}
	}
	return ids
}

// end halts an evaluation, and reports whether it held runs that were not halted yet. Runs
// pulled later are checked again.
func (h *halts) end(id eval.ID) bool {
	return h.endThose(func(key haltKey) bool { return key.evaluation == id })
}

func (h *halts) endThose(which func(haltKey) bool) (any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, with := range h.of {
		if which(key) {
			with.end()
			delete(h.of, key)
			any = true
		}
	}
	return any
}

// look cancels the waits of inactive evaluations among ids. Runs pulled later are checked
// again.
func (h *halts) look(ctx context.Context, ids ...eval.ID) error {
	held := h.held()
	ids = slices.DeleteFunc(ids, func(id eval.ID) bool { return !slices.Contains(held, id) })
	if len(ids) == 0 {
		return nil
	}
	going, err := h.store.Going(ctx, ids)
	if err != nil {
		return err
	}
	h.endThose(func(key haltKey) bool {
		of, asked := going[key.evaluation]
		return asked && !of.Begins(key.provider)
	})
	return nil
}
