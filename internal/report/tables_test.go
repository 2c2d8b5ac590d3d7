package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/table"
)

// line is a line of an exported table, by column.
type line map[string]any

// number returns a number; NaN if it is missing.
func (l line) number(name string) float64 {
	if l[name] == nil {
		return math.NaN()
	}
	return l[name].(float64)
}

// integer returns an integer; 0 if it is missing.
func (l line) integer(name string) int {
	n, _ := l[name].(float64)
	return int(n)
}

// tablesOf returns the tables of a report, as they are exported.
func tablesOf(t testing.TB, r *Report) map[string][]line {
	t.Helper()
	all := map[string][]line{}
	for _, sheet := range r.Rankings().Tables {
		var out bytes.Buffer
		if err := table.JSONLines.Write(sheet, &out); err != nil {
			t.Fatal(err)
		}
		lines := json.NewDecoder(&out)
		for lines.More() {
			var l line
			if err := lines.Decode(&l); err != nil {
				t.Fatal(err)
			}
			all[sheet.Name] = append(all[sheet.Name], l)
		}
	}
	return all
}

func linesOf(t testing.TB, r *Report, name string) []line {
	t.Helper()
	return tablesOf(t, r)[name]
}

func rankingOf(t testing.TB, r *Report) []line {
	t.Helper()
	return linesOf(t, r, rankingName)
}

var updateFormats = flag.Bool("update-formats", false, "write the columns of the tables into docs/formats.md")

// The documentation has the columns of every table, with their types, as the program writes them.
func TestTablesAreDocumented(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/formats.md", "<!-- columns -->\n", "<!-- end of columns -->\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(raw), begin)
	got, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no %q … %q", page, begin, end)
	}

	var want strings.Builder
	for _, sheet := range append(results.Tables(), Tables()...) {
		want.WriteString("\n#### `" + sheet.Name + "`\n\n" + sheet.Describe())
	}
	want.WriteString("\n")
	if *updateFormats {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want.String() {
		t.Errorf("the columns in %s differ from the program's: run go test ./internal/report -run TestTablesAreDocumented -update-formats", page)
	}
}
