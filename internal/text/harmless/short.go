package harmless

import (
	"fmt"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Short shortens a name to a number of columns. It keeps both ends, because ids and models differ at the end as often
// as at the beginning.
func Short(name string, columns int) string {
	if wording.Columns.StringWidth(name) <= columns || columns < 3 {
		return name
	}
	end := (columns - 1) / 2
	rest := wording.Columns.StringWidth(name) - end
	return wording.Columns.Truncate(name, columns-1-end, "") + "…" + wording.Columns.TruncateLeft(name, rest, "")
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
