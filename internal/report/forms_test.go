package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// forms are a report in everything it is written as but CSV.
func forms(t testing.TB, r *Report) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, write := range map[string]func(io.Writer) error{
		"text": func(w io.Writer) error { return r.WriteText(w, TextOptions{}) },
		"html": r.WriteHTML, "json": r.WriteJSON, "md": r.WriteMarkdown,
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = text.String()
	}
	return out
}

// TestForms compares the JSON and Markdown forms with those that docs/formats.md and
// people's scripts rely on.
func TestForms(t *testing.T) {
	t.Parallel()
	got := forms(t, built(t, typical(), Options{Seed: 7}))
	for _, form := range []string{"json", "md"} {
		file := filepath.Join("testdata", "typical."+form)
		if *update {
			if err := os.WriteFile(file, []byte(got[form]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got[form]); diff != "" {
			t.Errorf("%s (-want +got; go test -update writes it):\n%s", form, diff)
		}
	}
}

// TestJSONHasEveryRow: what programs read is what the report says.
func TestJSONHasEveryRow(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{})
	var got reportJSON
	if err := json.Unmarshal([]byte(forms(t, r)["json"]), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rankings) != 1 || len(got.Rankings[0].Candidates) != 5 || len(got.Rankings[0].Beats) != 5 || len(got.Judges) != 3 {
		t.Fatalf("%d rankings, %d judges", len(got.Rankings), len(got.Judges))
	}
	best := got.Rankings[0].Candidates[0]
	if want := r.Groups[0].Ranked[0]; best.Candidate != want.Name || math.Abs(float64(best.Ability)-want.Ability)+math.Abs(float64(best.Low)-want.Low) > 1e-7 {
		t.Errorf("best: %+v, want %+v", best, want)
	}
	if p := float64(best.BeatsNext); p < 0.5 || p > 1 || got.Rankings[0].Beats[0][1] != best.BeatsNext {
		t.Errorf("the best is better than the next with probability %v, by the matrix %v", p, got.Rankings[0].Beats[0][1])
	}
	if got.Agreement == nil || len(got.Agreement.Pairs) != 3 || len(got.ScoreAgreement) != 2 || len(got.Judges[0].Rankings) != 1 {
		t.Errorf("agreement %+v, on scores %+v", got.Agreement, got.ScoreAgreement)
	}
}

// TestHostileForms: names and reasons stay text in Markdown, and are as recorded in
// JSON.
func TestHostileForms(t *testing.T) {
	t.Parallel()
	r := hostileReport(t)
	got := forms(t, r)
	for _, bad := range []string{"<script", "<img", "<svg", "</", "](", "{{.", "\x1b", "\u202e", "\u2066", "\u200f", "\x00", "https://"} {
		if strings.Contains(strings.ReplaceAll(got["md"], `\<`, ""), bad) {
			t.Errorf("the Markdown contains %q", bad)
		}
	}
	for line := range strings.Lines(got["md"]) {
		for _, c := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(c) && c != '\u200c' && c != '\u200d' {
				t.Errorf("the line contains %U: %.80q", c, line)
			}
		}
		if strings.HasPrefix(line, "| ") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") < 2 {
			t.Errorf("a broken row: %.80q", line)
		}
		if n := utf8.RuneCountInString(line); n > 20_000 {
			t.Errorf("a line of %d runes", n)
		}
	}
	var form reportJSON
	if err := json.Unmarshal([]byte(got["json"]), &form); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range form.Rankings[0].Candidates {
		names[c.Candidate] = true
	}
	for _, name := range hostile {
		if utf8.ValidString(name) && !names[name] {
			t.Errorf("the JSON lacks %.40q", name)
		}
	}
}

// TestMarkdownCells: every row of a table has as many cells as its head.
func TestMarkdownCells(t *testing.T) {
	t.Parallel()
	cells := 0
	for line := range strings.Lines(forms(t, hostileReport(t))["md"]) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.NewReplacer(`\\`, "", `\|`, "").Replace(line), "|")
		if cells != 0 && n != cells {
			t.Errorf("%d bars, want %d: %.100q", n, cells, line)
		}
		cells = n
	}
}

// TestNoNumberThatIsNone: whatever was recorded, no form has NaN or an infinity.
func TestNoNumberThatIsNone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := anything(rng)
		options := Options{Length: rng.IntN(2) == 0, Fallback: rng.IntN(2) == 0, Draws: 20}
		if rng.IntN(3) == 0 {
			options.Ties = 1
		}
		r := built(t, m, options)
		for form, text := range forms(t, r) {
			for _, bad := range []string{"NaN", "Inf", "%!", "<nil>", "ZgotmplZ"} {
				if strings.Contains(text, bad) {
					t.Fatalf("seed %d: %s contains %q:\n%s", seed, form, bad, text)
				}
			}
		}
		for _, row := range rankingOf(t, r) {
			games := row.integer("wins") + row.integer("losses") + row.integer("ties")
			for _, name := range []string{"ability", "se", "low", "high", "win_rate", "model_se", "beats_next"} {
				if math.IsInf(row.number(name), 0) || games > 0 && math.IsNaN(row.number("ability")) {
					t.Fatalf("seed %d: row %+v", seed, row)
				}
			}
		}
		other := built(t, anything(rng), Options{Draws: 20})
		for _, c := range []*Comparison{Compare(r, other), Compare(other, r, r)} {
			var text, mark, form bytes.Buffer
			for out, write := range map[*bytes.Buffer]func(io.Writer) error{
				&text: func(w io.Writer) error { return c.WriteText(w, TextOptions{}) }, &mark: c.WriteMarkdown, &form: c.WriteJSON,
			} {
				if err := write(out); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
					t.Fatalf("seed %d: the comparison contains a number that is none:\n%s", seed, out)
				}
			}
		}
	}
}

// anything is a small evaluation in which something is missing, one-sided or empty.
func anything(rng *rand.Rand) *memory {
	candidates, items, judges := names(rng.IntN(6)), names(1+rng.IntN(3)), []string{"j", "k"}[:1+rng.IntN(2)]
	if rng.IntN(5) == 0 {
		items = names(25)
	}
	m := sourceOf(plan(candidates, items, judges...))
	documents := m.evaluation.Plan.Documents
	for d := range documents {
		documents[d].Bytes = rng.IntN(3) * 100
	}
	habit := rng.IntN(5) // of the judges: anything, always first, always a tie, the earlier name, never the last
	for range rng.IntN(60) {
		if len(documents) < 2 {
			break
		}
		first, second := documents[rng.IntN(len(documents))], documents[rng.IntN(len(documents))]
		if first.Item != second.Item || first.ID == second.ID {
			continue
		}
		winner := []string{first.ID, second.ID, eval.Tie}[rng.IntN(3)]
		switch habit {
		case 1:
			winner = first.ID
		case 2:
			winner = eval.Tie
		case 3:
			winner = min(first.ID, second.ID)
		}
		row := m.verdict(rng.IntN(len(judges)), first.ID, second.ID, winner, "r")
		if rng.IntN(10) == 0 {
			row.Winner, row.AnsweredBy = eval.Tie, ""
		}
	}
	if rng.IntN(3) == 0 {
		m.withScores("style")
		m.singles = m.singles[:rng.IntN(len(m.singles)+1)]
	}
	return m
}

// TestExportedComparison: the CSV has a row for every candidate in every evaluation.
func TestExportedComparison(t *testing.T) {
	t.Parallel()
	r := hostileReport(t)
	rows := Compare(r, built(t, sourceOf(plan([]string{"=cmd()"}, []string{"q"}, "j")), Options{})).Table()
	dir := t.TempDir()
	paths, err := results.ExportTable(dir, rows)
	if err != nil || len(paths) != 2 {
		t.Fatal(paths, err)
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if want := 2*len(hostile) + 1; err != nil || len(lines) != want {
		t.Errorf("%d lines, %v; want %d", len(lines), err, want)
	}
	if text := string(raw); !strings.Contains(text, "'=cmd|") || strings.Contains(text, "NaN") || !strings.Contains(text, ",gone\n") {
		t.Errorf("comparison.csv:\n%.2000s", text)
	}
}
