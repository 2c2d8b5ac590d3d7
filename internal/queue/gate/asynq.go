package gate

import "strings"

// This file lists what evalfleet relies on beyond asynq's exported API: keys, scripts,
// encodings and log lines, as they are in AsynqVersion. TestAsynqIsAsRead fails with any
// other version; TestScriptShapes then says which scripts have changed. Elsewhere depend
// on asynq's inner parts only
//
//   - lua/*.lua beside this file: fields of a task's hash (msg, state, pending_since, result,
//     unique_key, group), and done.lua, which replaces the script of doneHash;
//   - dial/rights.go: the commands that asynq and asynqmon send;
//   - internal/controller/metrics_asynq.go: the names of asynq's metrics, from which asynqmon draws its
//     charts.

// AsynqVersion is the version of asynq that this package was written for.
const AsynqVersion = "v0.26.0"

// asynqKeys is the beginning of the name of each of asynq's keys and channels. asynq has no
// namespaces.
const asynqKeys = "asynq:"

// Lists of processes and queues. A process is on the first two until a time. Only readers of the
// lists, such as asynqmon, remove one that was killed.
const (
	serversKey = asynqKeys + "servers"
	workersKey = asynqKeys + "workers"
	queuesKey  = asynqKeys + "queues"
)

// countDays is how many days back asynq keeps daily counts of a queue.
const countDays = 91

// doneHash is the hash of the script with which asynq ends a task that is done and not kept.
const doneHash = "1241eaa1c73409baaf1fea0c08d203a4911bda15"

// Fields of asynq's TaskMessage, a protocol buffer.
const (
	messagePayload  = 2
	messageID       = 3
	messageQueue    = 4
	messageDeadline = 9
	messageHeaders  = 15
)

// KnownLines lists the beginnings of asynq's log lines that repeat what the worker has logged
// itself, or that need no action: how failed and dropped runs end, and that a task's end did not
// reach Redis. asynq retries that, and in the end another worker returns the task.
var KnownLines = []string{"Retry exhausted for task", "revoke task", "Could not move task", "Could not remove task"}

// queueKeys holds asynq's keys of one queue, and two keys of our own.
type queueKeys struct {
	prefix                                string // of all its keys
	pending, paused, active, lease        string
	scheduled, retry, archived, completed string
	forwarded                             string // our own: when delayed tasks were last moved
	task                                  string // prefix of the task keys
	fence                                 string // prefix of our own key per owner
}

func keysOf(queue string) queueKeys {
	prefix := asynqKeys + "{" + queue + "}:"
	return queueKeys{
		prefix:    prefix,
		pending:   prefix + "pending",
		paused:    prefix + "paused",
		active:    prefix + "active",
		lease:     prefix + "lease",
		scheduled: prefix + "scheduled",
		retry:     prefix + "retry",
		archived:  prefix + "archived",
		completed: prefix + "completed",
		forwarded: prefix + "forwarded",
		task:      prefix + "t:",
		fence:     prefix + "fence:",
	}
}

// placeOf returns the queue and the id of a task by its key.
func placeOf(task string) (queue, id string) {
	queue, id, _ = strings.Cut(strings.TrimPrefix(task, asynqKeys+"{"), "}:t:")
	return queue, id
}

// A script shows only its hash, so asynq's are told apart by their keys.

// isPull reports whether a script with these keys is a dequeue.
func isPull(keys []string) bool {
	return len(keys) == 4 && strings.HasSuffix(keys[0], "}:pending") && strings.HasSuffix(keys[1], "}:paused") &&
		strings.HasSuffix(keys[2], "}:active") && strings.HasSuffix(keys[3], "}:lease")
}

// listsLapsed recognises, by its keys, the script with which asynq lists tasks whose lease has ended.
func listsLapsed(keys []string) bool { return len(keys) == 1 && keys[0] == keysOf(Served).lease }

// delays reports whether a script with these keys delays a task: asynq's retry. dueArgument is its
// argument with the time at which the task is due, in Unix seconds by the worker's clock.
func delays(keys []string) bool { return len(keys) == 8 && strings.HasSuffix(keys[3], "}:retry") }

const dueArgument = 2

// endedTask returns the number, from 1, of the key of the task that a script with these keys takes
// out of the active list. ok is false if it takes out none.
func endedTask(keys []string) (index int, ok bool) {
	active := false
	for i, key := range keys {
		if strings.HasSuffix(key, "}:active") {
			active = true
		}
		// The archive script has the bare prefix among its keys.
		if _, id, found := strings.Cut(key, "}:t:"); found && id != "" && index == 0 {
			index = i + 1
		}
	}
	return index, active && index > 0
}

// writtenResult returns the result of a task that a command writes with these fields to the task's
// key. ok is false if the command writes something else.
func writtenResult(key string, fields []any) (result []byte, ok bool) {
	if !strings.HasPrefix(key, asynqKeys+"{") || !strings.Contains(key, "}:t:") || len(fields) != 2 || fields[0] != "result" {
		return nil, false
	}
	result, ok = fields[1].([]byte)
	return result, ok
}
