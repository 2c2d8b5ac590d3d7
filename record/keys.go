// Package record is the written form of a run's life: task payloads, Redis keys, run states,
// the state of a run in progress, and result entries. It is the code beside docs/formats.md,
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

// Evaluations is the set of all evaluations known to Redis.
func (k Keys) Evaluations() string { return k.Namespace + ":evaluations" }

// Active is the set of evaluations that still have runs to push or to end.
func (k Keys) Active() string { return k.Namespace + ":active" }

// Listings returns the key beside a list of evaluations, in its slot, that says which listing of each is
// in force. Its name ends as one of the keys that every user with rights on the list may write.
func (k Keys) Listings(list string) string { return k.of(eval.ID(list), "cursors") }

// Queues is the set of the queues that runs were pushed to, until nothing is left of them.
func (k Keys) Queues() string { return k.Namespace + ":queues" }

// Announce is the pub/sub channel on which queues that were just filled, and
// evaluations that changed, are announced.
func (k Keys) Announce() string { return k.Namespace + ":announce" }

// Offers is the sorted set of the providers that workers can call, by the time
// until which one said so, in Unix seconds.
func (k Keys) Offers() string { return k.Namespace + ":offers" }

// Worker is what a worker tells of itself: Worker as JSON.
func (k Keys) Worker(worker string) string { return k.Namespace + ":worker:" + worker }

// SweepLock is held for a minute by the controller that removes leftovers.
func (k Keys) SweepLock() string { return k.Namespace + ":sweep" }

// TopUpLock is held for seconds by the process that tops queues up.
func (k Keys) TopUpLock() string { return k.Namespace + ":topup" }

// HouseLock is held for seconds by the process that keeps house: one that moves delayed
// tasks whose time has come, and takes over what dead workers left.
func (k Keys) HouseLock() string { return k.Namespace + ":house" }

// Asynq is the prefix of asynq's keys and channels, as asynq has no namespaces: empty in the
// default one, where asynq's own tools find them.
func (k Keys) Asynq() string {
	if k.Namespace == DefaultNamespace {
		return ""
	}
	return k.Namespace + ":"
}

func (k Keys) of(id eval.ID, rest string) string {
	return k.Namespace + ":{" + string(id) + "}:" + rest
}

// Record is the evaluation's hash: its state, settings, phases and results store.
func (k Keys) Record(id eval.ID) string { return k.of(id, "record") }

// Plan is the evaluation itself, JSON compressed with zstd.
func (k Keys) Plan(id eval.ID) string { return k.of(id, "plan") }

// Documents is the hash of document texts by content hash, zstd-compressed.
func (k Keys) Documents(id eval.ID) string { return k.of(id, "documents") }

// Cursors is the hash of how far each phase and queue has been pushed.
func (k Keys) Cursors(id eval.ID) string { return k.of(id, "cursors") }

// Counts is the hash of ended runs by phase, state and queue.
func (k Keys) Counts(id eval.ID) string { return k.of(id, "counts") }

// Results is the stream that collectors drain.
func (k Keys) Results(id eval.ID) string { return k.of(id, "results") }

// Rejected is the stream of the latest results that could not be stored, each with the
// reason.
func (k Keys) Rejected(id eval.ID) string { return k.of(id, "rejected") }

// States is the string of state bytes that holds index's run.
func (k Keys) States(id eval.ID, phase, index int) string {
	return k.of(id, "states:"+strconv.Itoa(phase)+":"+strconv.Itoa(index/ChunkRuns))
}

// Choice is what a phase compares that was chosen from results: plan.Choice as JSON,
// compressed with zstd.
func (k Keys) Choice(id eval.ID, phase int) string { return k.of(id, "choice:"+strconv.Itoa(phase)) }

// Progress is the hash of one run's state that must outlive a worker.
func (k Keys) Progress(id eval.RunID) string { return k.ProgressOf(id.Evaluation, id.Short()) }

// ProgressOf is Progress of a run by its short id.
func (k Keys) ProgressOf(id eval.ID, run string) string { return k.of(id, "run:"+run) }

// Notice exists while a notice about the evaluation is being sent, and for a week after.
func (k Keys) Notice(id eval.ID, notice string) string { return k.of(id, "notice:"+notice) }

// InProgress is the set of the runs that have a Progress, by their short ids.
func (k Keys) InProgress(id eval.ID) string { return k.of(id, "progress") }

// CursorField names a queue's cursor in Cursors.
func CursorField(phase int, queue string) string {
	return strconv.Itoa(phase) + "|" + queue
}

// CountField names a count in Counts.
func CountField(phase int, state eval.State, queue string) string {
	return strconv.Itoa(phase) + "|" + state.String() + "|" + queue
}
