package controller

import "github.com/evalfleet/evalfleet/enqueue/record"

// asynq's own metrics, with the names from which asynqmon draws its charts. Prometheus's rules
// would require other names for some of them: the first and the last are not counters but end in
// _total.
var (
	asynqTasks   = gauge("asynq_tasks_enqueued_total", "Number of tasks enqueued; broken down by queue and state.", "queue", "state")
	asynqSize    = gauge("asynq_queue_size", "Number of tasks in a queue", "queue")
	asynqLatency = gauge(
		"asynq_queue_latency_seconds",
		"Number of seconds the oldest pending task is waiting in pending state to be processed.", "queue",
	)
	asynqMemory = gauge(
		"asynq_queue_memory_usage_approx_bytes", "Number of memory used by a given queue (approximated number by sampling).",
		"queue",
	)
	asynqProcessed = counter(
		"asynq_tasks_processed_total", "Number of tasks processed (both succeeded and failed); broken down by queue", "queue",
	)
	asynqFailed = counter("asynq_tasks_failed_total", "Number of tasks failed; broken down by queue", "queue")
	asynqPaused = gauge("asynq_queue_paused_total", "Number of queues paused", "queue")
)

// gatherAsynq reports what asynq knows of its queues. It leaves out the queues of single
// evaluations: an id would be in the label. A sum would also fall when one of them disappears,
// which counters must not do.
func (c *Controller) gatherAsynq(tell tell) {
	queues, err := c.queues.Queues()
	if err != nil {
		c.log.Debug().Err(err).Msg("cannot list asynq's queues")
		return
	}

	for _, name := range queues {
		if record.SharedQueue(name) != name {
			continue
		}
		info, err := c.queues.GetQueueInfo(name)
		if err != nil { // it was just deleted, or its parts may not be read
			c.log.Debug().Err(err).Str("queue", name).Msg("cannot read a queue of asynq")
			continue
		}
		for state, n := range map[string]int{
			"active": info.Active, "pending": info.Pending, "scheduled": info.Scheduled,
			"retry": info.Retry, "archived": info.Archived, "completed": info.Completed,
		} {
			tell(asynqTasks, float64(n), name, state)
		}
		tell(asynqSize, float64(info.Size), name)
		tell(asynqLatency, info.Latency.Seconds(), name)
		tell(asynqMemory, float64(info.MemoryUsage), name)
		tell(asynqProcessed, float64(info.ProcessedTotal), name)
		tell(asynqFailed, float64(info.FailedTotal), name)
		paused := 0.0
		if info.Paused {
			paused = 1
		}
		tell(asynqPaused, paused, name)
	}
}
