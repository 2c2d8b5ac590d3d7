package store

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Entry is the position of an entry in an evaluation's results stream. Positions ascend as long
// as the stream exists, also when Redis's clock is set back. The zero value is none.
type Entry struct{ millis, number uint64 }

// Before reports whether e was appended before other.
func (e Entry) Before(other Entry) bool {
	return cmp.Or(cmp.Compare(e.millis, other.millis), cmp.Compare(e.number, other.number)) < 0
}

// parseEntry reads the id that Redis gave an entry; "" is none.
func parseEntry(id string) (e Entry, err error) {
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
