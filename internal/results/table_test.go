package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if err := pairwiseTable.csv(&file, all(rows)); err != nil {
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
		want := []string{shortID(1, i), text, text, text, "0", text, text, "", text, text, text, text, text, text}
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
	if err := panelTable.jsonl(&file, all(rows)); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"1.2","doc_id":"a.md","agent":"=1","criterion_id":"depth","score":0,"argument":"<script>&amp;</script>","model":"","timestamp":"2026-01-02T03:04:05.006Z","item":"","answered_by":"","candidate":""}
{"id":"0.0","doc_id":"b.md","agent":"","criterion_id":"","score":null,"argument":"","model":"","timestamp":null,"item":"","answered_by":"","candidate":""}
`
	if diff := cmp.Diff(want, file.String()); diff != "" {
		t.Errorf("opinions (-want +got):\n%s", diff)
	}
	file.Reset()
	if err := rankingTable.jsonl(&file, all([]RankingRow{{Candidate: "a", Rank: 1, Ability: -0.5, SE: math.Inf(1), Low: math.NaN(), Wins: 3, WinRate: 1, Group: 2, ModelSE: 0.5, BeatsNext: math.NaN(), MarginalLow: 1, MarginalHigh: 2, Best: 0.5, Elo: 913, EloLow: math.NaN(), EloHigh: 1000, WinLow: 0.5, WinHigh: 1, Lead: 0.25, LeadLow: math.NaN(), LeadHigh: 1}})); err != nil {
		t.Fatal(err)
	}
	want = `{"candidate":"a","rank":1,"rank_low":null,"rank_high":null,"ability":-0.5,"se":null,"low":null,"high":0,"wins":3,"losses":0,"ties":0,"win_rate":1,"group":2,"model_se":0.5,"beats_next":null,"marginal_rank_low":1,"marginal_rank_high":2,"p_best":0.5,"elo":913,"elo_low":null,"elo_high":1000,"win_rate_low":0.5,"win_rate_high":1,"lead":0.25,"lead_low":null,"lead_high":1}` + "\n"
	if diff := cmp.Diff(want, file.String()); diff != "" {
		t.Errorf("ranking (-want +got):\n%s", diff)
	}
	for _, text := range hostile {
		file.Reset()
		if err := eloTable.jsonl(&file, all([]EloRow{{text, 1000}})); err != nil {
			t.Fatal(err)
		}
		var row struct {
			DocID string `json:"doc_id"`
		}
		if err := json.Unmarshal(file.Bytes(), &row); err != nil || row.DocID != text {
			t.Errorf("%q: got %q, %v", text, row.DocID, err)
		}
	}
}

// The columns that people's scripts rely on, in their order.
func TestColumns(t *testing.T) {
	t.Parallel()
	for want, write := range map[string]func(io.Writer) error{
		"id,doc_id_1,doc_id_2,model,trial,winner_doc_id,reason,timestamp,": func(w io.Writer) error { return pairwiseTable.csv(w, all[PairwiseRow](nil)) },
		"id,doc_id,model,trial,criterion,score,reason,timestamp,":          func(w io.Writer) error { return singleTable.csv(w, all[SingleRow](nil)) },
		"id,doc_id,agent,criterion_id,score,argument,model,timestamp,":     func(w io.Writer) error { return panelTable.csv(w, all[PanelRow](nil)) },
		"doc_id,elo\n": func(w io.Writer) error { return eloTable.csv(w, all[EloRow](nil)) },
		"candidate,rank,rank_low,rank_high,ability,se,low,high,wins,losses,ties,win_rate": func(w io.Writer) error { return rankingTable.csv(w, all[RankingRow](nil)) },
	} {
		var got strings.Builder
		if err := write(&got); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("got %q, %v; want it to begin with %q", got.String(), err, want)
		}
	}
}
