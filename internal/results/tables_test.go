package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/table"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// hostile texts; a spreadsheet would take the first six for formulas.
var hostile = []string{
	`=cmd|'/c calc'!A1`, "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1+1",
	`'=1`, " =1", "a=1", `"quoted", and`, "two\nlines\r\n", "", "\x1b]0;owned\a\u009b2J", "right\u202eot\u2066tfel", "\x00nul", `<script>&amp;</script>`, "日本語", strings.Repeat("x", 10_000),
}

func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	rows := make([]PairwiseRow, len(hostile))
	for i, text := range hostile {
		rows[i] = PairwiseRow{
			Phase: 1, Index: i, Document1: text, Document2: text, Model: text, Winner: text, Reason: text,
			Item: text, Order: text, Judge: text, AnsweredBy: text, Candidate1: text, Candidate2: text,
		}
	}
	var file bytes.Buffer
	if err := table.CSV.Write(table.Of("", pairwiseTable, table.Rows(rows)), &file); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&file).ReadAll()
	if err != nil || len(lines) != len(hostile)+1 {
		t.Fatalf("got %d rows, %v; want %d", len(lines), err, len(hostile)+1)
	}
	for i, line := range lines[1:] {
		text := strings.ReplaceAll(hostile[i], "\r\n", "\n") // as package csv reads it
		if i < 6 {
			text = "'" + text
		}
		text = harmless.Text(text)
		want := []string{runCell(1, i), text, text, text, "0", text, text, "", text, text, text, text, text, text, "", "", "", ""}
		if diff := cmp.Diff(want, line); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
}

// The JSON Lines have the same names and rows, typed, and every text as it is.
func TestJSONLines(t *testing.T) {
	t.Parallel()
	zero, at := 0.0, time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	rows := []PanelRow{
		{Phase: 1, Index: 2, Document: "a.md", Agent: "=1", Dimension: "depth", Score: &zero, Argument: hostile[15], Timestamp: at},
		{Document: "b.md"},
	}
	var file bytes.Buffer
	if err := table.JSONLines.Write(table.Of("", panelTable, table.Rows(rows)), &file); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"r1-2","doc_id":"a.md","agent":"=1","criterion_id":"depth","score":0,"argument":"<script>&amp;</script>","model":"","timestamp":"2026-01-02T03:04:05.006Z","item":"","answered_by":"","candidate":""}
{"id":"r0-0","doc_id":"b.md","agent":"","criterion_id":"","score":null,"argument":"","model":"","timestamp":null,"item":"","answered_by":"","candidate":""}
`
	if diff := cmp.Diff(want, file.String()); diff != "" {
		t.Errorf("opinions (-want +got):\n%s", diff)
	}
	for _, text := range hostile {
		file.Reset()
		if err := table.JSONLines.Write(table.Of("", voteTable, table.Rows([]VoteRow{{Annotator: text}})), &file); err != nil {
			t.Fatal(err)
		}
		var row struct {
			Annotator string `json:"annotator"`
		}
		if err := json.Unmarshal(file.Bytes(), &row); err != nil || row.Annotator != text {
			t.Errorf("%q: got %q, %v", text, row.Annotator, err)
		}
	}
}

// The columns that people's scripts rely on, in their order.
func TestColumns(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"pairwise_results":   "id,doc_id_1,doc_id_2,model,trial,winner_doc_id,reason,timestamp,",
		"single_doc_results": "id,doc_id,model,trial,criterion,score,reason,timestamp,",
		"panel_results":      "id,doc_id,agent,criterion_id,score,argument,model,timestamp,",
	} {
		var got strings.Builder
		sheets := Tables()
		k := slices.IndexFunc(sheets, func(s table.Sheet) bool { return s.Name == name })
		if err := table.CSV.Write(sheets[k], &got); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("%s: got %q, %v; want it to begin with %q", name, got.String(), err, want)
		}
	}
}
