package config

import (
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// columns says what a reader expects of the header of a table. Space around names never counts.
type columns struct {
	need  []string // must be there
	known []string // have a meaning, too, but may be missing
	// unnamed permits columns without a name, which are ignored: programs write the numbers of rows into one.
	unnamed bool
	// folded means that names count in lower case, and with underscores for spaces.
	folded bool
}

// name returns the name that counts for a cell of the header.
func (c columns) name(cell string) string {
	cell = strings.TrimSpace(cell)
	if c.folded {
		return fold(cell)
	}
	return cell
}

func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "_") }

// check refuses a header that the reader cannot use; names are those that count. It reports whether the rows can be
// read.
func (t *table) check(names []string, want columns) bool {
	before := len(t.problems)
	const unique = "give each column a unique name"
	all := slices.Concat(want.need, want.known)

	if len(names) == 0 {
		fix := "write the names of the columns into the first line"
		if len(all) > 0 {
			fix += ": " + strings.Join(all, ",")
		}
		t.refuse(place{file: t.path}, fix, "the file has no header")
		return false
	}
	for i, name := range names {
		line, column := t.rows.FieldPos(i)
		at := place{file: t.path, line: line, column: column}
		switch {
		case strings.ContainsRune(name, '\r'):
			t.refuse(at, "save the file with line feeds (LF or CRLF)", "its lines end with carriage returns alone")
			return false
		case name == "":
			if !want.unnamed {
				t.refuse(at, unique, "column %d has no name", i+1)
			}
		case slices.Contains(names[:i], name):
			at.path = printable(name)
			t.refuse(at, unique, "a second column has this name")
		default:
			at.path = printable(name)
			t.refuseCase(at, name, names, all)
		}
	}

	for _, name := range want.need {
		if slices.Contains(names, name) || slices.ContainsFunc(names, func(other string) bool { return fold(other) == name }) {
			continue // a name in another case was refused above
		}
		fix := "want the columns " + strings.Join(want.need, ",")
		if near := wording.Nearest(name, except(names, all)); near != "" {
			fix = "did you mean " + printable(near) + "?"
		}
		t.refuse(place{file: t.path, line: 1}, fix, "the column %s is missing", name)
		break
	}
	return len(t.problems) == before
}

// refuseCase refuses a name if it differs only by case or spaces from one of all that names lack. It reports whether it
// does.
func (f *findings) refuseCase(at place, name string, names, all []string) bool {
	meant := fold(name)
	if name != meant && slices.Contains(all, meant) && !slices.Contains(names, meant) {
		f.refuse(at, "rename it "+meant, "unknown column")
		return true
	}
	return false
}

// except returns the names that are not among others.
func except(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
