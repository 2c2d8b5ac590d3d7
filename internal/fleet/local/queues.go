package local

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/worker"
)

// UnservedError means that no worker would serve one of the evaluation's queues.
type UnservedError struct{ Queue string }

func (e *UnservedError) Error() string {
	return fmt.Sprintf("no worker serves %s: this run uses its own Redis", e.Queue)
}

// CheckQueues checks the queues that a worker is to serve; none means all. It refuses queues that
// the evaluation does not have. If alone is set, no other worker runs, and leaving out any of the
// evaluation's queues is an UnservedError.
func CheckQueues(r record.Evaluation, queues []string, alone bool) error {
	if len(queues) == 0 {
		return nil
	}

	served := map[string]string{} // the evaluation's queues, by their names on a worker's command line
	for _, phase := range r.Phases {
		for queue := range phase.Queues {
			served[strings.TrimSuffix(queue, "~"+string(r.ID))] = queue
		}
	}

	names := slices.Sorted(maps.Keys(served))
	for _, named := range queues {
		if slices.ContainsFunc(names, func(name string) bool { return worker.Serves([]string{named}, served[name]) }) {
			continue
		}
		if near := wording.Nearest(named, names); near != "" {
			return fmt.Errorf("the evaluation has no queue %s; did you mean %s?", named, near)
		}
		return fmt.Errorf("the evaluation has no queue %s; it has %s", named, strings.Join(names, ", "))
	}

	for _, name := range names {
		if alone && !worker.Serves(queues, served[name]) {
			return &UnservedError{name}
		}
	}

	return nil
}
