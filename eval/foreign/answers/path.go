package answers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path names a value in a row: names separated by dots, elements of a list by their number from 0, or from -1 for the
// last. [*] takes all elements, and [role=user] those whose field has that value.
//
// In the table of shapes, ^ begins a path in Row.Head, and @ a name taken from the file's path.
type Path struct {
	written string
	root    byte // '^', '@' or 0
	steps   []step
}

// step is one name or one pair of brackets of a path.
type step struct {
	key   string // a name, or the field of a condition
	value string // of a condition
	index int
	kind  stepKind
}

type stepKind int

const (
	byKey stepKind = iota
	byIndex
	every
	those
)

// ParsePath reads a path.
func ParsePath(text string) (Path, error) {
	p := Path{written: text}
	rest := text
	if rest != "" && (rest[0] == '^' || rest[0] == '@') {
		p.root, rest = rest[0], rest[1:]
	}
	if rest == "" {
		return p, fmt.Errorf("%q names no field", text)
	}

	for first := true; rest != ""; first = false {
		if rest[0] == '[' {
			inside, after, closed := strings.Cut(rest[1:], "]")
			if !closed {
				return p, fmt.Errorf("%q: a [ has no ]", text)
			}
			next, err := bracket(inside)
			if err != nil {
				return p, fmt.Errorf("%q: %w", text, err)
			}
			p.steps, rest = append(p.steps, next), after
			continue
		}
		if !first {
			if rest[0] != '.' {
				return p, fmt.Errorf("%q: want . or [ after ]", text)
			}
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return p, fmt.Errorf("%q: a name is empty", text)
		}
		p.steps, rest = append(p.steps, step{key: rest[:end]}), rest[end:]
	}

	return p, nil
}

// bracket reads what is between brackets.
func bracket(inside string) (step, error) {
	if inside == "*" {
		return step{kind: every}, nil
	}
	if key, value, ok := strings.Cut(inside, "="); ok && key != "" {
		return step{kind: those, key: key, value: value}, nil
	}
	index, err := strconv.Atoi(inside)
	if err != nil {
		return step{}, fmt.Errorf("[%s] is neither a number, nor *, nor name=value", inside)
	}
	return step{kind: byIndex, index: index}, nil
}

// String returns the path as it was written.
func (p Path) String() string { return p.written }

// In returns the value at the path. A field whose name is the whole path comes first. has is false if there is no
// such field; a null has no value, but is there.
func (p Path) In(values map[string]any) (value any, has bool) {
	if value, has = values[p.written]; has {
		return value, true
	}
	return follow(values, p.steps)
}

func follow(value any, steps []step) (any, bool) {
	for i, next := range steps {
		switch next.kind {
		case byKey:
			object, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			if value, ok = object[next.key]; !ok {
				return nil, false
			}
		case byIndex:
			list, ok := value.([]any)
			index := next.index
			if index < 0 {
				index += len(list)
			}
			if !ok || index < 0 || index >= len(list) {
				return nil, false
			}
			value = list[index]
		case every, those:
			return several(value, next, steps[i+1:])
		}
	}

	return value, true
}

// several returns the list of the values that the elements of a list have at the rest of a path.
func several(value any, which step, rest []step) (any, bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	var found []any
	for _, element := range list {
		if which.kind == those && !matches(element, which.key, which.value) {
			continue
		}
		if value, ok := follow(element, rest); ok {
			found = append(found, value)
		}
	}
	return found, len(found) > 0
}

// matches reports whether an element's field is a value, or a list with that value.
func matches(element any, key, value string) bool {
	object, _ := element.(map[string]any)
	field := object[key]
	if list, ok := field.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return plain(one) == value })
	}
	return field != nil && plain(field) == value
}

// plain returns a text, a number or a truth value as text; anything else is empty.
func plain(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	}
	return ""
}

// Paths are alternatives: the first that has a value counts.
type Paths []Path

// String returns the alternatives, separated by "or".
func (p Paths) String() string {
	written := make([]string, len(p))
	for i, path := range p {
		written[i] = path.written
	}
	return strings.Join(written, " or ")
}

// get returns the value of the first alternative that has one, an empty text only if none has another. has tells a
// null from a missing field.
func (p Paths) get(row Row, named map[string]string) (value any, has bool) {
	for _, path := range p {
		var one any
		ok := false
		switch path.root {
		case '^':
			one, ok = follow(row.Head, path.steps)
		case '@':
			if text := named[path.written[1:]]; text != "" {
				one, ok = text, true
			}
		default:
			one, ok = path.In(row.Values)
		}
		if ok && one != nil && one != "" {
			return one, true
		}
		if ok && one != nil {
			value = one
		}
		has = has || ok
	}
	return value, has
}

func (p Paths) in(row Row, named map[string]string) any {
	value, _ := p.get(row, named)
	return value
}

// found returns the path that get takes the value from.
func (p Paths) found(row Row, named map[string]string) string {
	for i := range p {
		if p[i:i+1].in(row, named) != nil {
			return p[i].written
		}
	}
	return p.String()
}
