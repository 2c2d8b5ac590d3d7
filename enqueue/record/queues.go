package record

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
)

// Separators between the parts of a queue's name. escapeMark precedes a byte in hexadecimal digits.
// ownMark does not end in such digits, so it is never part of an escaped name.
const (
	groupMark  = "group="
	modelMark  = ":"
	escapeMark = '~'
	ownMark    = "~ev-" // as an evaluation's id begins
)

// Characters of queue names that are neither letters nor digits. All other characters have a
// meaning in a Redis Cluster, in a URL or in a list on the command line. The parts of a name before
// modelMark contain only the first of them.
const (
	plainInProvider = "-_."
	plainInModel    = plainInProvider + ":@+"
)

// QueueName returns the asynq queue of the runs that share a set of limits: PROVIDER,
// PROVIDER:MODEL if the model has limits of its own, or group=GROUP. An evaluation with tighter
// limits of its own gets "<queue>~<evaluation>". Different arguments yield different names. A
// queue's name is stored with the evaluation, so evaluations that older versions submitted keep
// their names; see EarlierQueueName.
func QueueName(provider, model, group string, own eval.ID) string {
	var name string
	switch {
	case group != "":
		name = groupMark + escape(group, plainInModel)
	case model != "":
		name = escape(provider, plainInProvider) + modelMark + escape(model, plainInModel)
	default:
		name = escape(provider, plainInProvider)
	}
	if own != "" {
		name += "~" + string(own)
	}
	return name
}

// escape replaces every byte of s by escapeMark and its hexadecimal digits, unless it belongs to a
// letter, a digit or a character of plain.
func escape(s, plain string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(plain, r) {
			b.WriteString(s[:size])
		} else {
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(&b, "%c%02x", escapeMark, c)
			}
		}
		s = s[size:]
	}
	return b.String()
}

// unescape undoes escape.
func unescape(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == escapeMark && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// SharedQueue returns the shared queue from which an evaluation's own queue was named. For any
// other queue, it returns the queue itself.
func SharedQueue(queue string) string {
	name, _, _ := strings.Cut(queue, ownMark)
	return name
}

// OwnerOfQueue returns the evaluation that a queue belongs to alone; empty: several may use it.
func OwnerOfQueue(queue string) eval.ID {
	_, id, ok := strings.Cut(queue, ownMark)
	if !ok {
		return ""
	}
	return eval.ID("ev-" + id)
}

// EarlierQueueName returns the name of a shared queue in versions that did not mark groups and
// models: PROVIDER-MODEL or GROUP, with "~" for some characters. Several queues may share such a
// name.
func EarlierQueueName(shared string) string {
	name := shared
	if group, ok := strings.CutPrefix(shared, groupMark); ok {
		name = unescape(group)
	} else if provider, model, ok := strings.Cut(shared, modelMark); ok {
		name = unescape(provider) + "-" + unescape(model)
	}
	return earlierUnsafe.Replace(name)
}

var earlierUnsafe = strings.NewReplacer("/", "~", "{", "~", "}", "~", " ", "~", "\t", "~", "\n", "~")
