package gate

import (
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
)

// QueueInfo returns what asynq knows of a queue, and false if asynq has no such
// queue: nothing was pushed to it yet, or Redis was flushed since. asynq's own
// GetQueueInfo answers that case with an error that it does not export.
func QueueInfo(inspector *asynq.Inspector, queue string) (*asynq.QueueInfo, bool, error) {
	info, err := inspector.GetQueueInfo(queue)
	if err == nil {
		return info, true, nil
	}
	queues, listErr := inspector.Queues()
	if listErr == nil && !slices.Contains(queues, queue) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("read queue %s: %w", queue, err)
}
