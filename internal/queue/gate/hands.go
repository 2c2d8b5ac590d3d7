package gate

import (
	"slices"
	"sync"
)

// hands holds what asynq has in hand, by the task's key.
//
// Where Redis has forgotten such a task, and it was pushed again, it can be pulled while its first
// handler still runs. Both would make the same call. So it is not handed over: it goes back to its
// queue when the handler has ended.
type hands struct {
	mu    sync.Mutex
	tasks map[string]*hand
}

// hand is one task that asynq has in hand.
type hand struct {
	pull   int64  // the number of the last pull that returned it
	result []byte // what the handler has written as the task's result
	again  bool   // it was pulled again
}

// markHandedOver notes that a task of a pull was handed to asynq.
func (h *hands) markHandedOver(task string, pull int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks[task] = &hand{pull: pull}
}

// markPulledAgain marks a task that was pulled while asynq has it in hand, so that it goes back to its
// queue when its handler has ended. It returns false if asynq does not have the task in hand.
func (h *hands) markPulledAgain(task string, pull int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, ok := h.tasks[task]
	if ok {
		held.again, held.pull = true, pull
	}
	return ok
}

// has reports whether asynq has a task in hand.
func (h *hands) has(task string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.tasks[task]
	return ok
}

// queues returns the queues of the tasks in hand.
func (h *hands) queues() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for task := range h.tasks {
		if name, _ := placeOf(task); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// put keeps what a handler has written as its task's result.
func (h *hands) put(task string, result []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.tasks[task]; ok {
		held.result = result
	}
}

// ending returns the result of a task that ends, the number of its pull, and whether it was pulled
// again, so that the ending must not reach it. The number is 0 if asynq does not have the task in
// hand: it ends a task whose lease is over, and that Redis did not take for ended.
func (h *hands) ending(task string) (result []byte, pull int64, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.tasks[task]; ok {
		return held.result, held.pull, held.again
	}
	return nil, 0, false
}

// ended forgets a task whose ending was written, unless it was pulled again. It then returns false,
// and the caller has to return it to its queue before it calls ended anew.
func (h *hands) ended(task string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, ok := h.tasks[task]
	if ok && held.again {
		held.again = false
		return false
	}
	delete(h.tasks, task)
	return true
}
