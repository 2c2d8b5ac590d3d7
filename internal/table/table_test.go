package table_test

import (
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/table"
)

type row struct {
	name   string
	place  int
	value  float64
	is     bool
	at     time.Time
	tokens int
}

var rows = table.Table[row]{
	table.Text("name", "what it is called", func(r row) string { return r.name }),
	table.Positive("place", "missing: none", func(r row) int { return r.place }),
	table.Number("value", "how much", func(r row) float64 { return r.value }),
	table.Boolean("is", "whether it is", func(r row) bool { return r.is }),
	table.Time("at", "when", func(r row) time.Time { return r.at }),
	table.Known("tokens", "missing: unknown", func(r row) (int, bool) { return r.tokens, r.tokens >= 0 }),
}

var two = []row{
	{"=a", 1, 0.25, true, time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600)), 0},
	{"", 0, math.Inf(1), false, time.Time{}, -1},
}

// Every format has the same columns and rows. What is missing is an empty cell, or null.
func TestFormats(t *testing.T) {
	t.Parallel()
	sheet := table.Of("rows", rows, table.Rows(two))
	for want, format := range map[string]table.Format{
		"name,place,value,is,at,tokens\n'=a,1,0.25,true,2026-01-02T02:04:05.006Z,0\n,,,false,,\n": table.CSV,
		`{"name":"=a","place":1,"value":0.25,"is":true,"at":"2026-01-02T02:04:05.006Z","tokens":0}
{"name":"","place":null,"value":null,"is":false,"at":null,"tokens":null}
`: table.JSONLines,
	} {
		for range 2 { // the second time, the rows are read again
			var got strings.Builder
			if err := format.Write(sheet, &got); err != nil || got.String() != want {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", format.Ending, err, got.String(), want)
			}
		}
	}

	want := "| column | type | meaning |\n|---|---|---|\n| `name` | text | what it is called |\n| `place` | integer | missing: none |\n"
	if got := sheet.Describe(); !strings.HasPrefix(got, want) {
		t.Errorf("described as\n%s\nwant it to begin with\n%s", got, want)
	}
}

// A table that cannot be read to its end is not written as if it could.
func TestFailedRows(t *testing.T) {
	t.Parallel()
	broken := errors.New("no more rows")
	var failing iter.Seq2[row, error] = func(yield func(row, error) bool) {
		if yield(two[0], nil) {
			yield(row{}, broken)
		}
	}
	for _, format := range []table.Format{table.CSV, table.JSONLines, table.Parquet} {
		if err := format.Write(table.Of("rows", rows, failing), new(strings.Builder)); !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want %v", format.Ending, err, broken)
		}
	}
}
