package store

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Memory names the current memory of an evaluation's Redis server. The name changes when the server
// is restarted or another takes over: what was acknowledged under another name may be missing. It
// is "" if the server does not tell.
type Memory string

// Entry is the position of an entry in an evaluation's results stream, with the memory in which it
// was acknowledged. Positions ascend as long as the stream exists, even if Redis's clock is set
// back.
type Entry struct {
	millis, number uint64
	// Memory is that of the server that acknowledged it, even if nothing was appended.
	Memory Memory
}

// None reports whether the position is that of no entry.
func (e Entry) None() bool { return e.millis == 0 && e.number == 0 }

// Before reports whether e was appended before other, in the same memory.
func (e Entry) Before(other Entry) bool {
	return cmp.Or(cmp.Compare(e.millis, other.millis), cmp.Compare(e.number, other.number)) < 0
}

// parseEntry reads the id that Redis gave an entry, "" for none, and the name of the server's
// memory.
func parseEntry(id, memory string) (e Entry, err error) {
	e.Memory = Memory(memory)
	if id == "" {
		return e, nil
	}
	millis, number, _ := strings.Cut(id, "-")
	if e.millis, err = strconv.ParseUint(millis, 10, 64); err == nil {
		e.number, err = strconv.ParseUint(number, 10, 64)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("invalid id of an entry: %.40q", id)
	}
	return e, nil
}
