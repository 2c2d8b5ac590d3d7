//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// reader is a program that reads tables, and how the page of tables is run with it.
type reader struct {
	file     string // of the page's block
	programs []string
	has      string   // arguments that succeed if the program has what the block needs, separated by commas
	run      []string // arguments; the block's file is the last, or on standard input
	stdin    bool
}

var tableReaders = []reader{
	{"tables_pandas.py", []string{"python3", "/usr/bin/python3"}, "-c,import pandas", nil, false},
	{"tables_polars.py", []string{"python3", "/usr/bin/python3"}, "-c,import polars", nil, false},
	{"tables.sql", []string{"duckdb"}, "-version", []string{"-bail"}, true},
	{"tables.R", []string{"Rscript"}, "--version", nil, false},
}

// program returns the first program that has what the block needs; empty if there is none.
func (r reader) program(t *testing.T) string {
	for _, program := range r.programs {
		if exec.CommandContext(t.Context(), program, strings.Split(r.has, ",")...).Run() == nil {
			return program
		}
	}
	return ""
}

// play runs a script in a folder and returns what it prints.
func (r reader) play(t *testing.T, program, dir, script string) string {
	t.Helper()
	path := filepath.Join(dir, r.file)
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, r.run...)
	if r.stdin {
		command.Stdin = strings.NewReader(script)
	} else {
		command.Args = append(command.Args, path)
	}
	command.Dir = dir
	var failure bytes.Buffer
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, r.file, err, out, failure.String())
	}
	return string(out)
}

// TestTablesAreRead runs each block of docs/tables.md on the folder of a run, with the program that it is for. The
// blocks name columns of every table. With pandas, ids stay what they are, and every column has its documented type.
func TestTablesAreRead(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	page, err := os.ReadFile("../../docs/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs("../../examples/essays/evaluation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := launch(t, dir, "run", example, "--out-dir", "out")
	if code := run.wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}

	blocks := map[string]string{}
	for _, b := range fenced(string(page)) {
		if name := b.fileName(); name != "" {
			blocks[name] = b.text
		}
	}
	if len(blocks) != len(tableReaders) {
		t.Fatalf("the page has %d blocks with a file name, want %d", len(blocks), len(tableReaders))
	}
	for _, r := range tableReaders {
		t.Run(r.file, func(t *testing.T) {
			program := r.program(t)
			if program == "" {
				t.Skipf("NOT TESTED: none of %q has what %s needs", r.programs, r.file)
			}
			out := r.play(t, program, dir, blocks[r.file])
			for _, want := range []string{"libraries-d.md", "simulator:careful", "clarity", "first"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s prints no %q:\n%s", r.file, want, out)
				}
			}
		})
	}

	t.Run("types", func(t *testing.T) {
		r := tableReaders[0]
		program := r.program(t)
		if program == "" {
			t.Skip("NOT TESTED: there is no Python with pandas: apt-get install python3-pandas")
		}
		r.file = "tables_columns.py"
		out := r.play(t, program, dir, typesInPandas)
		for _, want := range []string{
			"verdicts: 480 rows, 480 ids, first r1-0", "pairwise_results: 480 rows, 480 ids, first r1-0",
			"scores: 96 rows, 32 ids, first r0-0", "calls: 512 rows, 512 ids, first r0-0", "answers: 16 rows", "ranking: 16 rows",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("pandas finds no %q:\n%s", want, out)
			}
		}
		if !strings.Contains(out, "bool cached, float64 cost_usd, int64 input_tokens, datetime ended_at") {
			t.Errorf("types of calls:\n%s", out)
		}
	})

	tables := launch(t, dir, "report", "out", "--format", "parquet")
	if code := tables.wait(); code != 0 {
		t.Fatalf("report ended with %d: %s", code, tables.stderr.String())
	}
	for _, name := range []string{"answers", "scores", "verdicts", "calls", "ranking"} {
		if raw, err := os.ReadFile(filepath.Join(dir, "out", name+".parquet")); err != nil || !bytes.HasPrefix(raw, []byte("PAR1")) {
			t.Errorf("%s.parquet: %v, begins with %.4q", name, err, raw)
		}
	}

	every := launch(t, dir, "report", "out", "--format", "every-eval-ever")
	if code := every.wait(); code != 0 {
		t.Fatalf("report ended with %d: %s", code, every.stderr.String())
	}
	records, err := filepath.Glob(filepath.Join(dir, "out", "every_eval_ever", "data", "essays", "*", "*", "*.json"))
	if err != nil || len(records) != 16 {
		t.Errorf("%d records of Every Eval Ever, %v; want 16", len(records), err)
	}

	// The id in a table is that of `show`, as is the one used elsewhere.
	var shown [2]string
	for k, id := range []string{"r1-10", "1.10"} {
		show := launch(t, dir, "show", id, "out")
		if code := show.wait(); code != 0 {
			t.Fatalf("show %s ended with %d: %s", id, code, show.stderr.String())
		}
		shown[k] = show.stdout.String()
	}
	if shown[0] != shown[1] || !strings.Contains(shown[0], "1.10") {
		t.Errorf("show r1-10 prints\n%s\nand show 1.10\n%s", shown[0], shown[1])
	}
}

const typesInPandas = `
import pandas as pd
for name in ("verdicts", "pairwise_results", "scores", "calls"):
    t = pd.read_csv(f"out/{name}.csv")
    print(f"{name}: {len(t)} rows, {t.id.nunique()} ids, first {t.id[0]}")
for name in ("answers", "ranking"):
    print(f"{name}: {len(pd.read_csv(f'out/{name}.csv'))} rows")
c = pd.read_csv("out/calls.csv", parse_dates=["ended_at"])
d = c.dtypes
print(f"{d.cached} cached, {c.cost_usd.astype(float).dtype} cost_usd, {d.input_tokens} input_tokens, {str(d.ended_at)[:8]} ended_at")
`
