package harmless

import (
	"fmt"

	"github.com/mattn/go-runewidth"
)

// cells measures texts in terminal columns, the same way in every locale.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// Short shortens a name to a number of columns and keeps both its ends, because ids and
// models differ at the end as often as at the beginning.
func Short(name string, columns int) string {
	if cells.StringWidth(name) <= columns || columns < 3 {
		return name
	}
	end := (columns - 1) / 2
	rest := cells.StringWidth(name) - end
	return cells.Truncate(name, columns-1-end, "") + "…" + cells.TruncateLeft(name, rest, "")
}

// Apart shortens names as Short does, and numbers those that would look like another one.
func Apart(names []string, columns int) []string {
	apart, owner, known := make([]string, len(names)), map[string]string{}, map[string]string{}
	for i, name := range names {
		short, ok := known[name]
		for n := 1; !ok; n++ {
			short = Short(name, columns)
			if n > 1 {
				mark := fmt.Sprintf(" (%d)", n)
				short = Short(name, columns-len(mark)) + mark
			}
			_, taken := owner[short]
			ok = !taken
		}
		apart[i], owner[short], known[name] = short, name, short
	}
	return apart
}
