package gate

import "strings"

// queueKeys are asynq's keys of one queue, as asynq v0.26.0 names them, and one
// of our own beside them.
type queueKeys struct {
	prefix                         string // of all of them
	pending, paused, active, lease string
	scheduled, retry, completed    string
	task                           string // prefix of the task keys
	fence                          string // prefix of a key per owner
}

func keysOf(queue string) queueKeys {
	prefix := "asynq:{" + queue + "}:"
	return queueKeys{
		prefix:    prefix,
		pending:   prefix + "pending",
		paused:    prefix + "paused",
		active:    prefix + "active",
		lease:     prefix + "lease",
		scheduled: prefix + "scheduled",
		retry:     prefix + "retry",
		completed: prefix + "completed",
		task:      prefix + "t:",
		fence:     prefix + "fence:",
	}
}

// asynq's calls are distinguished by their keys, because a script shows only its hash.
// TestScriptShapes pins these assumptions.

// isPull reports whether a script with these keys is a dequeue.
func isPull(keys []string) bool {
	return len(keys) == 4 && strings.HasSuffix(keys[0], "}:pending") && strings.HasSuffix(keys[1], "}:paused") &&
		strings.HasSuffix(keys[2], "}:active") && strings.HasSuffix(keys[3], "}:lease")
}

// listsLapsed reports whether a script with these keys lists the tasks of a server's
// queue whose lease has ended.
func listsLapsed(keys []string) bool { return len(keys) == 1 && keys[0] == keysOf(Served).lease }

// endedTask is which of the keys, from 1, is that of the task that a script
// with these keys takes out of the active list.
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

// writtenResult is what a command that sets these fields writes as the result of
// the task of that key.
func writtenResult(key string, fields []any) (result []byte, ok bool) {
	if !strings.HasPrefix(key, "asynq:{") || !strings.Contains(key, "}:t:") || len(fields) != 2 || fields[0] != "result" {
		return nil, false
	}
	result, ok = fields[1].([]byte)
	return result, ok
}
