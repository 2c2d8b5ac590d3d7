package verdict

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// list says what a list in an answer must have: one entry for each name.
type list struct {
	key      string // of the list in the answer
	field    string // of an entry, with its name
	names    []string
	numbered bool // the names are numbers, which may be written without quotes
}

// entries returns the entries of the list in an object.
func (l list) entries(fields map[string]json.RawMessage) ([]json.RawMessage, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(fields[l.key], &entries); err != nil || entries == nil { // null leaves it nil
		return nil, problem("%s is %s; it must be an array with one object for each criterion", l.key, shorten(orNothing(fields[l.key])))
	}
	return entries, nil
}

// open returns the fields of the i-th entry, and the position of its name.
func (l list) open(raw json.RawMessage, i int) (fields map[string]json.RawMessage, at int, err error) {
	if fields, err = fieldsOf(raw); err != nil {
		return nil, 0, problem("entry %d of %s is %s: %v", i+1, l.key, shorten(string(raw)), err)
	}
	said, quoted := stringOf(fields[l.field])
	if l.numbered && !quoted {
		said = string(fields[l.field])
	}
	if at = slices.Index(l.names, said); at < 0 {
		at = slices.Index(l.names, strings.TrimSpace(said))
	}
	if at < 0 {
		return nil, 0, problem("entry %d of %s has the %s %s; it must be exactly one of %s",
			i+1, l.key, l.field, shorten(orNothing(fields[l.field])), quoteAll(l.names))
	}
	return fields, at, nil
}

// eachOnce reads the entries of a list by read, which is given the fields of an entry and its name. valid says which names
// have exactly one entry that can be read; wrong says why the others have not, and what else is wrong.
func eachOnce[T any](
	l list, entries []json.RawMessage, read func(fields map[string]json.RawMessage, name string) (T, error),
) (values []T, valid []bool, wrong []string) {
	values, valid = make([]T, len(l.names)), make([]bool, len(l.names))
	given := make([]int, len(l.names))
	for i, raw := range entries {
		fields, at, err := l.open(raw, i)
		if err == nil {
			given[at]++
			values[at], err = read(fields, l.names[at])
			valid[at] = err == nil && given[at] == 1
		}
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}

	for at, n := range given {
		switch {
		case n == 0:
			wrong = append(wrong, l.field+" "+quote(l.names[at])+" is missing")
		case n > 1:
			wrong = append(wrong, l.field+" "+quote(l.names[at])+" appears "+strconv.Itoa(n)+" times; want it once")
		}
	}
	return values, valid, wrong
}
