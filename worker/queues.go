package worker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// idleTime is how long a queue is served after its last active evaluation. A task of a worker that died returns within two
// minutes, and may be that of a run whose job is to be cancelled.
const idleTime = 3 * time.Minute

// queues holds the queues that a session serves or knows. It is safe for concurrent use.
type queues struct {
	mu      sync.Mutex           // guards all below
	served  map[string]time.Time // when an active evaluation last had runs in each
	known   []string             // of all active evaluations, served here or not
	longest time.Duration        // longest call timeout seen
}

func newQueues() *queues {
	return &queues{served: map[string]time.Time{}, longest: record.DefaultTimeout}
}

// serve records that queues have runs of active evaluations, and returns those that were not served before. known are
// all queues of active evaluations.
func (q *queues) serve(wanted, known []string) (begun []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known = known
	for _, queue := range wanted {
		if _, served := q.served[queue]; !served {
			begun = append(begun, queue)
		}
		q.served[queue] = time.Now()
	}
	return begun
}

// dropIdle stops serving queues that have had no runs for idleTime and are idle, and returns them.
func (q *queues) dropIdle(isIdle func(queue string) bool) (idle []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for queue, wanted := range q.served {
		if time.Since(wanted) > idleTime && isIdle(queue) {
			delete(q.served, queue)
			idle = append(idle, queue)
		}
	}
	return idle
}

func (q *queues) serving() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]string{}, slices.Sorted(maps.Keys(q.served))...)
}

// all returns the queues that are served or known.
func (q *queues) all() []string {
	served := q.serving()
	q.mu.Lock()
	defer q.mu.Unlock()
	all := slices.Concat(q.known, served)
	slices.Sort(all)
	return slices.Compact(all)
}

// met records the call timeouts of an evaluation.
func (q *queues) met(settings record.Settings, asked *eval.Evaluation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, timeout := range settings.Timeouts {
		q.longest = max(q.longest, timeout)
	}
	for _, model := range settings.Everyone(asked) {
		q.longest = max(q.longest, settings.Timeout(model))
	}
}

// longestCall returns the longest call timeout seen.
func (q *queues) longestCall() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.longest
}
