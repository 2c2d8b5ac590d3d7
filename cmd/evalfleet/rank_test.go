package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Verdicts from files become an evaluation that every reading command takes, without a key, a Redis or a judge.
func TestRank(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "battles.csv"), filepath.Join(dir, "out")
	lines := []string{"model_a,model_b,winner,question_id,judge"}
	for _, q := range []string{"1", "2", "3", "4", "5", "6"} {
		lines = append(lines, "small,large,model_b,q"+q+",anna", "large,small,model_a,q"+q+",anna", "tie,large,model_b,q"+q+",ben", "tie,small,,q"+q+",ben")
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}

	code, stdout, stderr := evalfleet(t, nil, "rank", path, "--out-dir", out)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "Read     18 verdicts from 24 rows of 1 file; 6 skipped, see the notes; no model was asked") {
		t.Errorf("rank: got exit code %d, %q and %q", code, stdout, stderr)
	}
	for _, name := range []string{"report.html", "report.json", "ranking.csv", "pairwise_results.csv", "results.db", "manifest.json"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	ranking := readCSV(t, filepath.Join(out, "ranking.csv"))
	if len(ranking) != 3 || ranking[0]["candidate"] != "large" || ranking[0]["wins"] != "18" {
		t.Errorf("ranking.csv has %v", ranking)
	}
	raw, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Given struct {
			Order string `json:"order"`
			Files []struct {
				Format  string `json:"format"`
				Skipped []struct {
					Count int    `json:"count"`
					What  string `json:"what"`
				} `json:"skipped"`
			} `json:"files"`
		} `json:"given"`
		Judges []struct {
			First *int `json:"first_wins"`
		} `json:"judges"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	if g := report.Given; g.Order != "unknown" && g.Order != "both" || len(g.Files) != 1 || g.Files[0].Format != "battles" || g.Files[0].Skipped[0].Count != 6 {
		t.Errorf("report.json says %+v of the files", report.Given)
	}

	for command, want := range map[string]string{
		"status": "complete", "report": "Read     18 verdicts", "show": "the verdict was read from a file",
	} {
		args := []string{command, out}
		if command == "show" {
			args = []string{command, "0.0", out}
		}
		if code, stdout, stderr := evalfleet(t, nil, args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: got exit code %d, %q and %q; want %q", command, code, stdout, stderr, want)
		}
	}
	if code, _, stderr := evalfleet(t, nil, "show", "0.999", out); code != 2 || !strings.Contains(stderr, "has no run 0.999") {
		t.Errorf("a run that does not exist: got exit code %d and %q", code, stderr)
	}
	if code, again, stderr := evalfleet(t, nil, "rank", path, "--out-dir", out); code != 0 || again != stdout {
		t.Errorf("again, into the same folder: got exit code %d, %q and %q", code, again, stderr)
	}
	if code, stdout, stderr := evalfleet(t, nil, "rank", path, "--out-dir", out, "--require", "small >= large @ 0.95"); code != 1 {
		t.Errorf("a requirement that is not met: got exit code %d, %q and %q", code, stdout, stderr)
	}
}

// A command line that is wrong, or a file that cannot be ranked, leaves no folder behind.
func TestRankRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.csv"), filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("model_a,model_b,winner\nx,y,z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"rank wants one FILE, got 0":                          {},
		`a.csv:2: winner: "z" is neither candidate`:           {path},
		"this is a folder, not a file":                        {dir},
		"no such file":                                        {filepath.Join(dir, "none.jsonl")},
		`--kind: got "csv", want battles, arena`:              {path, "--kind", "csv"},
		`--order: got "first", want shown, random or unknown`: {path, "--order", "first"},
		`--winners: got "x", want positions or names`:         {path, "--winners", "x"},
		`--ties: got "x", want davidson or half`:              {path, "--ties", "x"},
		"--junit needs at least one --require":                {path, "--junit", "x.xml"},
		`model: no name; write the model's name`:              {path, "--kind", "arena-hard"},
	} {
		code, stdout, stderr := evalfleet(t, nil, append([]string{"rank", "--out-dir", out}, args...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: got exit code %d, %q and %q; want %q", args, code, stdout, stderr, want)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the output folder: %v, want none", err)
	}
}
