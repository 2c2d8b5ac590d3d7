package results

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

var update = flag.Bool("update", false, "write testdata anew")

const awkward = "It cites \"its sources\", twice;\nand =SUM(A1) is no formula here.\n"

// exported is a results store with something of everything, and its rankings.
func exported(t testing.TB) (Store, eval.ID, Rankings) {
	t.Helper()
	db, e := openStore(t, newPath(t))
	quoted, tie, identical, cancelled := verdict(0), verdict(2), verdict(3), failure(5, 1)
	quoted.Run.Reason = awkward
	tie.Run.Winner = eval.Tie
	identical.Run.Winner, identical.Run.Reason, identical.Run.AnsweredBy = eval.Tie, "identical", ""
	identical.Run.Attempts, identical.Calls = 0, nil
	cancelled.Run.State, cancelled.Run.Class, cancelled.Run.Error = "cancelled", "cancelled", ""
	cancelled.Run.Started, cancelled.Calls = time.Time{}, nil
	mustAppend(t, db, e.ID, failure(4, 0), scores(1), identical, verdict(10), quoted, cancelled, tie, verdict(1), scores(0))
	if err := db.Finish(context.Background(), e.ID, epoch.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return db, e.ID, Rankings{Tables: []table.Sheet{
		table.Of("ranking", placeTable, table.Rows([]place{{"a", 1, 0.5}, {"d, the last", 0, math.NaN()}})),
	}}
}

// place is a line of a table that the package is given.
type place struct {
	candidate string
	rank      int
	ability   float64
}

var placeTable = table.Table[place]{
	table.Text("candidate", "", func(p place) string { return p.candidate }),
	table.Positive("rank", "", func(p place) int { return p.rank }),
	table.Number("ability", "", func(p place) float64 { return p.ability }),
}

func TestExport(t *testing.T) {
	t.Parallel()
	db, id, rankings := exported(t)
	dir := t.TempDir()
	for range 2 { // the second replaces the first
		done, err := Export(context.Background(), Place{Dir: dir}, db, id, rankings)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, path := range done.Files {
			names = append(names, filepath.Base(path))
		}
		want := []string{
			"answers.csv", "scores.csv", "verdicts.csv", "calls.csv",
			"pairwise_results.csv", "pairwise_results.jsonl", "single_doc_results.csv", "single_doc_results.jsonl",
			"ranking.csv", "ranking.jsonl", ManifestFile,
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
	written, err := os.ReadDir(dir)
	if err != nil || len(written) != 11 {
		t.Errorf("the folder holds %v, %v, want 11 files", written, err)
	}
	for _, file := range written {
		got, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", file.Name())
		if *update {
			if err := os.WriteFile(golden, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file.Name(), diff)
		}
	}
}

// Every table has a Parquet file with the columns and rows of its CSV.
func TestExportParquet(t *testing.T) {
	t.Parallel()
	db, id, rankings := exported(t)
	e, err := db.Evaluation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Export(t.Context(), Place{Dir: dir}, db, id, rankings); err != nil {
		t.Fatal(err)
	}
	paths, err := ExportParquet(t.Context(), dir, db, e, rankings)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(paths) != len(tables) {
		t.Fatalf("%d Parquet files and %d CSVs, %v", len(paths), len(tables), err)
	}

	for _, path := range tables {
		lines, err := csv.NewReader(strings.NewReader(mustRead(t, path))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		raw := mustRead(t, strings.TrimSuffix(path, ".csv")+".parquet")
		file, err := parquet.OpenFile(strings.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, column := range file.Schema().Columns() {
			columns = append(columns, column...)
		}
		if diff := cmp.Diff(lines[0], columns); diff != "" || file.NumRows() != int64(len(lines)-1) {
			t.Errorf("%s: %d rows of %d (-CSV +Parquet):\n%s", path, file.NumRows(), len(lines)-1, diff)
		}
	}
}

func TestExportRoundTrip(t *testing.T) {
	t.Parallel()
	db, id, _ := exported(t)
	dir := t.TempDir()
	if _, err := Export(context.Background(), Place{Dir: dir}, db, id, Rankings{}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "pairwise_results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	reason := slices.Index(table[0], "reason")
	if got := table[1][reason]; got != awkward {
		t.Errorf("reason: got %q, want %q", got, awkward)
	}
	if _, err := os.Stat(filepath.Join(dir, "ranking.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a ranking was written of none: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Totals struct {
			CostUSD     *float64 `json:"cost_usd"`
			CostAtLeast *float64 `json:"cost_usd_at_least"`
		} `json:"totals"`
		Runs []struct {
			ID      string   `json:"id"`
			Status  string   `json:"status"`
			CostUSD *float64 `json:"cost_usd"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatalf("manifest: %v\n%s", err, raw)
	}
	if manifest.Totals.CostUSD != nil || manifest.Totals.CostAtLeast == nil || *manifest.Totals.CostAtLeast != 1 {
		t.Errorf("totals: got %+v, want an unknown cost of at least 1", manifest.Totals)
	}
	known := map[string]bool{}
	for _, run := range manifest.Runs {
		if run.Status != eval.StateNone.String() {
			known[run.ID] = run.CostUSD != nil
		}
	}
	want := map[string]bool{
		"0.0": false, "0.1": false, // answered, and no price came with it
		"1.0": true, "1.1": true, "1.2": true, "1.10": true,
		"1.3": true,  // identical: no judge was asked
		"1.4": false, // timed out, possibly charged
		"1.5": true,  // cancelled before a call
	}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("runs of known cost (-want +got):\n%s", diff)
	}
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, e := openStore(t, newPath(t))
	dir := t.TempDir()
	if _, err := Export(ctx, Place{Dir: dir}, db, "ev-aaaaaaaaaaaa", Rankings{}); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("unknown evaluation: got %v, want ErrNoEvaluation", err)
	}
	if _, err := Export(ctx, Place{Dir: dir}, db, e.ID, Rankings{Tables: []table.Sheet{table.Of("ranking", placeTable, table.Rows[place](nil))}}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil || !json.Valid(raw) {
		t.Errorf("manifest without runs: %v\n%s", err, raw)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "ranking.csv")); err != nil || string(raw) != "candidate,rank,ability\n" {
		t.Errorf("ranking without rows: got %q, %v, want its header", raw, err)
	}
}

func TestExportLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.csv")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no more rows")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = WriteFile(root, "x.csv", func(w io.Writer) error {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the cause and the path", err)
	}
	left, _ := os.ReadDir(dir)
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "before" || len(left) != 1 {
		t.Errorf("got %q, %v, and %v in the folder, want the earlier file alone", raw, err, left)
	}
}

// The manifest has all settings, with durations in words, and of a phase's template the
// hash.
func TestManifestHasTheSettings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, e := openStore(t, newPath(t))
	e.Settings.Retry = record.Retry{MaxAttempts: 9, InitialDelay: time.Second}
	e.Plan.Pairwise.Template = "Compare.\n[[documents]]"
	if err := db.PutEvaluation(ctx, e, func(func(string, string) bool) {}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeManifest(ctx, &out, db, e, &Choices{Sentence: "Ranked.", Ties: "half", Clusters: 20}, nil); err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Settings map[string]any `json:"settings"`
		Ranking  Choices        `json:"ranking"`
		Phases   []struct {
			Kind     eval.Kind `json:"kind"`
			Template string    `json:"template_hash"`
		} `json:"phases"`
	}
	if err := json.Unmarshal(out.Bytes(), &manifest); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	stored, err := json.Marshal(e.Settings)
	if err == nil {
		err = json.Unmarshal(stored, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	want["retry"] = map[string]any{"max_attempts": 9.0, "initial_delay": "1s", "max_delay": "0s", "jitter": "0s"}
	if diff := cmp.Diff(want, manifest.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if manifest.Ranking != (Choices{Sentence: "Ranked.", Ties: "half", Clusters: 20}) {
		t.Errorf("choices of the ranking: %+v", manifest.Ranking)
	}
	for _, phase := range manifest.Phases {
		want := map[eval.Kind]string{eval.KindPairwise: eval.TextHash("Compare.\n[[documents]]")}[phase.Kind]
		if phase.Template != want {
			t.Errorf("hash of the %s template: got %q, want %q", phase.Kind, phase.Template, want)
		}
	}
	if len(manifest.Phases) != 2 {
		t.Errorf("%d phases, want 2", len(manifest.Phases))
	}
}
