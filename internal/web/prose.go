package web

import (
	"html/template"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// explorerFuncs are the additional functions of the explorer's templates.
var explorerFuncs = template.FuncMap{
	"fold":    fold,
	"prose":   harmless.Text,
	"short":   func(s string) bool { return len(s) <= listedRunes },
	"moment":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"counted": wording.Either[int],
	"inc":     func(i int) int { return i + 1 },
	"named":   named,
	"inside":  func(id eval.ID, r *Result) inside { return inside{id, r} },
}

// named returns the name of a document as shown next to its item. IDs of answers begin with the item, which is dropped.
func named(item, document string) string {
	if item == "" {
		return harmless.Line(document)
	}
	return harmless.Line(strings.TrimPrefix(document, item+"/"))
}

// inside is a run within a page of its evaluation.
type inside struct {
	ID     eval.ID
	Result *Result
}

// Maximum lengths of texts in lists, in characters; a run's own page shows them complete.
const (
	summaryRunes = 140
	listedRunes  = 2_000
)

// folded is a text in a list: as it is, or a summary that unfolds.
type folded struct{ Short, Long string }

func fold(s string) folded {
	s = strings.TrimSpace(harmless.Text(s))
	line := strings.Join(strings.Fields(s), " ")
	if short := wording.Clip(line, summaryRunes); short != line {
		return folded{short, wording.Clip(s, listedRunes)}
	}
	return folded{Short: line}
}
