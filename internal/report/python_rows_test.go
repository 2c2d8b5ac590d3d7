package report

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/table"
)

// pythonRows are the tables that the Python package reads, by the name of its class for a row.
var pythonRows = []struct{ table, class string }{
	{"answers", "Answer"}, {"scores", "Score"}, {"verdicts", "Verdict"}, {"calls", "Call"}, {"ranking", "Ranked"}, {"items", "Item"},
	{"effects", "Effect"},
}

// pythonTypes are the types of columns in Python, with the value of a column that an older program did not write.
var pythonTypes = map[table.Type]string{
	table.IsText:    `str = ""`,
	table.IsInteger: "int | None = None",
	table.IsNumber:  "float | None = None",
	table.IsBoolean: "bool | None = None",
	table.IsTime:    "datetime | None = None",
}

// pythonClasses returns the classes of rows as Python source. A column named like a word of the language gets an
// underscore.
func pythonClasses(t *testing.T, sheets []table.Sheet) string {
	t.Helper()
	var out strings.Builder
	out.WriteString(`"""Rows of the tables in an output folder.

Written by go test ./internal/report -run TestPythonRows -update-formats from the columns that the program writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
`)
	for _, row := range pythonRows {
		at := slices.IndexFunc(sheets, func(s table.Sheet) bool { return s.Name == row.table })
		if at < 0 {
			t.Fatalf("there is no table %s", row.table)
		}
		fmt.Fprintf(&out, "\n\n@dataclass(frozen=True, kw_only=True)\nclass %s:\n    \"\"\"A row of %s.\"\"\"\n\n", row.class, row.table)
		for _, head := range sheets[at].Heads {
			name := head.Name
			if slices.Contains([]string{"class", "from", "is", "in", "as", "not", "or", "and"}, name) {
				name += "_"
			}
			fmt.Fprintf(&out, "    # %s\n    %s: %s\n", head.About, name, pythonTypes[head.Type])
		}
		out.WriteString("    # columns that a newer program wrote, as texts\n    extra: dict[str, str] = field(default_factory=dict)\n")
	}
	return out.String()
}

// The rows of the Python package have the columns that the program writes, with their types.
func TestPythonRows(t *testing.T) {
	t.Parallel()
	const path = "../../clients/python/evalfleet/_rows.py"
	want := pythonClasses(t, append(results.Tables(), Tables()...))
	if *updateFormats {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the program's columns: run go test ./internal/report -run TestPythonRows -update-formats", path)
	}
}
