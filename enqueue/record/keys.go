// Package record is the written form of a run's life: task payloads, Redis keys, run states,
// the state of a run in progress, and result entries. Its specification is docs/formats.md,
// and every key and queue name is built here.
//
// It does no I/O: store sends the commands.
package record

import (
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
)

// DefaultNamespace is the prefix of every key that is not asynq's; see Keys.Asynq.
const DefaultNamespace = "ef"

// ChunkRuns is how many runs share one key of states, one byte each.
const ChunkRuns = 16384

// Keys builds the keys of one namespace. Keys of one evaluation share its hash
// tag; nothing assumes that two evaluations, or an evaluation and the limiter,
// share a slot.
type Keys struct{ Namespace string }

// Evaluations returns the key of the set of all evaluations known to Redis.
func (k Keys) Evaluations() string { return k.Namespace + ":evaluations" }

// Active returns the key of the set of evaluations with runs that are not pushed or not ended.
func (k Keys) Active() string { return k.Namespace + ":active" }

// Listings returns the key of the current listing of each evaluation of list, in that list's slot.
// Its name ends like the keys that every user with rights on the list may write.
func (k Keys) Listings(list string) string { return k.of(eval.ID(list), "cursors") }

// Queues returns the key of the set of queues that runs were pushed to. A queue leaves it when it
// is empty.
func (k Keys) Queues() string { return k.Namespace + ":queues" }

// Announce returns the pub/sub channel that announces queues that were just filled, and evaluations
// that changed.
func (k Keys) Announce() string { return k.Namespace + ":announce" }

// Offers returns the key of the sorted set of providers that workers can call. The score is the
// time in Unix seconds until which the offer holds.
func (k Keys) Offers() string { return k.Namespace + ":offers" }

// Worker returns the key under which a worker reports on itself: Worker as JSON.
func (k Keys) Worker(worker string) string { return k.Namespace + ":worker:" + worker }

// Orphans returns the key of the hash of jobs that no run has: store.Orphan as JSON, by the job's ID. Its name is none of
// a worker, whose access rules it falls under.
func (k Keys) Orphans() string { return k.Worker("orphans") }

// SweepLock returns the key of the lock that the controller holds for a minute to remove leftovers.
func (k Keys) SweepLock() string { return k.Namespace + ":sweep" }

// TopUpLock returns the key of the lock that a process holds for seconds to top queues up.
func (k Keys) TopUpLock() string { return k.Namespace + ":topup" }

// HouseLock returns the key of the lock that a process holds for seconds to keep house. It moves
// delayed tasks whose time has come, and takes over the work of dead workers.
func (k Keys) HouseLock() string { return k.Namespace + ":house" }

// Asynq returns the prefix of asynq's keys and channels, because asynq has no namespaces. In the
// default namespace it is empty, so that asynq's own tools find them.
func (k Keys) Asynq() string {
	if k.Namespace == DefaultNamespace {
		return ""
	}
	return k.Namespace + ":"
}

func (k Keys) of(id eval.ID, rest string) string {
	return k.Namespace + ":{" + string(id) + "}:" + rest
}

// Record returns the key of the evaluation's hash: its state, settings, phases and results store.
func (k Keys) Record(id eval.ID) string { return k.of(id, "record") }

// Plan returns the key of the evaluation itself, JSON compressed with zstd.
func (k Keys) Plan(id eval.ID) string { return k.of(id, "plan") }

// Documents returns the key of the hash of document texts by content hash, zstd-compressed.
func (k Keys) Documents(id eval.ID) string { return k.of(id, "documents") }

// Cursors returns the key of the hash of how far each phase and queue has been pushed.
func (k Keys) Cursors(id eval.ID) string { return k.of(id, "cursors") }

// Counts returns the key of the hash of the numbers of ended runs by phase, state and queue.
func (k Keys) Counts(id eval.ID) string { return k.of(id, "counts") }

// Results returns the key of the stream of results that collectors drain.
func (k Keys) Results(id eval.ID) string { return k.of(id, "results") }

// Rejected returns the key of the stream of the latest results that could not be stored, each with
// the reason.
func (k Keys) Rejected(id eval.ID) string { return k.of(id, "rejected") }

// States returns the key of the string of state bytes that holds the byte of the index-th run.
func (k Keys) States(id eval.ID, phase, index int) string {
	return k.of(id, "states:"+strconv.Itoa(phase)+":"+strconv.Itoa(index/ChunkRuns))
}

// Choice returns the key of the choice of what a phase compares, made from results: plan.Choice as
// JSON, compressed with zstd.
func (k Keys) Choice(id eval.ID, phase int) string { return k.of(id, "choice:"+strconv.Itoa(phase)) }

// Progress returns the key of the hash of one run's state that must outlive a worker.
func (k Keys) Progress(id eval.RunID) string { return k.ProgressOf(id.Evaluation, id.Short()) }

// ProgressOf returns the key of Progress, for a run by its short id.
func (k Keys) ProgressOf(id eval.ID, run string) string { return k.of(id, "run:"+run) }

// Notice returns the key that exists while a notice about the evaluation is being sent, and for a
// week after.
func (k Keys) Notice(id eval.ID, notice string) string { return k.of(id, "notice:"+notice) }

// InProgress returns the key of the set of runs that have a Progress, by their short ids.
func (k Keys) InProgress(id eval.ID) string { return k.of(id, "progress") }

// CursorField returns the field of a queue's cursor in Cursors. Runs in the balanced order (plan.Balanced) have a cursor of
// their own: releases that do not know that order push them by the other.
func CursorField(phase int, queue string, balanced bool) string {
	field := strconv.Itoa(phase) + "|" + queue
	if balanced {
		return "b" + field
	}
	return field
}

// CountField returns the field of a count in Counts.
func CountField(phase int, state eval.State, queue string) string {
	return strconv.Itoa(phase) + "|" + state.String() + "|" + queue
}
