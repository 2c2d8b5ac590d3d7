package worker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
)

// halts end the waits of runs whose evaluation was paused, cancelled or deleted
// after their task was checked. A call in flight is left to end by itself. It is
// safe for concurrent use.
type halts struct {
	store *store.Store

	mu sync.Mutex // guards of and the halts in it; not held while Redis is asked
	of map[eval.ID]*halt
}

// halt is what the runs of one evaluation that this worker holds wait with.
type halt struct {
	ctx  context.Context
	end  context.CancelFunc
	runs int
}

func newHalts(s *store.Store) *halts { return &halts{store: s, of: map[eval.ID]*halt{}} }

// enter returns a context that ends when the evaluation may begin no more
// calls. leave must be called when the run is over.
func (h *halts) enter(id eval.ID) (halted context.Context, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	with := h.of[id]
	if with == nil {
		with = &halt{}
		with.ctx, with.end = context.WithCancel(context.Background()) // of no single task
		h.of[id] = with
	}
	with.runs++
	return with.ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if with.runs--; with.runs > 0 {
			return
		}
		with.end()
		if h.of[id] == with {
			delete(h.of, id)
		}
	}
}

// held lists the evaluations that runs are held of.
func (h *halts) held() []eval.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.of))
}

// end halts an evaluation, and says whether runs of it were held that nobody had
// halted. Runs pulled later are checked anew.
func (h *halts) end(id eval.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	with := h.of[id]
	if with != nil {
		with.end()
		delete(h.of, id)
	}
	return with != nil
}

// look halts those of ids that do not go on. Runs pulled later are checked anew.
func (h *halts) look(ctx context.Context, ids ...eval.ID) error {
	h.mu.Lock()
	ids = slices.DeleteFunc(ids, func(id eval.ID) bool { return h.of[id] == nil })
	h.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	statuses, err := h.store.Statuses(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if status := statuses[id]; status != record.StatusActive && status != record.StatusDone {
			h.end(id)
		}
	}
	return nil
}
