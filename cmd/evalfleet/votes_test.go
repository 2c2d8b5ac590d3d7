package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestAnswersWithVotes runs the example whose answers people have judged, too.
func TestAnswersWithVotes(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/answers/evaluation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if code := launch(t, dir, "run", example, "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	if code := launch(t, dir, "report", "out", "--format", "json").wait(); code != 0 {
		t.Fatalf("report ended with %d", code)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "out", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Verdicts int `json:"verdicts"`
		People   struct {
			Votes    int                   `json:"votes"`
			Rankings []struct{}            `json:"rankings"`
			Judges   []struct{ Pairs int } `json:"judges"`
		} `json:"people"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	if people := report.People; report.Verdicts != 220 || people.Votes != 165 || len(people.Rankings) != 1 || len(people.Judges) != 2 || people.Judges[0].Pairs == 0 {
		t.Errorf("got %+v; want 220 verdicts beside 165 votes, ranked together, and two judges compared with them", report)
	}
	if rows := readCSV(t, filepath.Join(dir, "out", "votes.csv")); len(rows) != 165 {
		t.Errorf("votes.csv has %d rows, want 165", len(rows))
	}
}
