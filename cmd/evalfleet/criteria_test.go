package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

const comparedByCriteria = `pairwise:
  criteria: [accuracy, {name: "winner", description: "Who wins."}, 'a "fine", long name']
  scale: 5
`

// threeTexts are documents for comparisons by criterion.
var threeTexts = map[string]string{
	"docs/a.md": "The tide rises twice a day, because the moon pulls the sea towards it.",
	"docs/b.md": "The tide rises twice twice a day, because the moon pulls the sea.",
	"docs/c.md": "tide it rise rise twise a day of of the mooon pulls pulls on on sea",
}

// TestComparisonsByCriteria: one call per run gives a verdict for each criterion and overall, in JSON, in text, and in two
// calls where a model cannot do both; each has a degree exactly if it is no tie.
func TestComparisonsByCriteria(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"json: auto", "json: false"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(threeTexts)
			files["eval.yaml"] = "documents: [docs/*.md]\njudges: [simulator:average]\n" + mode + "\n" + comparedByCriteria
			dir := tree(t, files)
			out := filepath.Join(dir, "out")
			if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
				t.Fatalf("run ended with %d: %s", code, stderr)
			}
			overall := map[string]map[string]string{}
			for _, row := range readCSV(t, filepath.Join(out, "pairwise_results.csv")) {
				overall[row["id"]] = row
			}
			rows := readCSV(t, filepath.Join(out, "pairwise_criteria.csv"))
			if len(overall) != 6 || len(rows) != 18 {
				t.Fatalf("%d runs with %d verdicts by criterion, want 6 with 18", len(overall), len(rows))
			}
			for _, row := range rows {
				ofRun := overall[row["id"]]
				if row["overall"] != ofRun["winner_doc_id"] {
					t.Errorf("overall %s, want %s", row["overall"], ofRun["winner_doc_id"])
				}
				for _, one := range []map[string]string{row, ofRun} {
					if (one["winner_doc_id"] == "tie") == (one["degree"] != "") || one["winner_doc_id"] == "" {
						t.Errorf("winner %q by the degree %q: %v", one["winner_doc_id"], one["degree"], one)
					}
				}
			}
			if calls := readCSV(t, filepath.Join(out, "calls.csv")); len(calls) != 6 {
				t.Errorf("%d calls for 6 runs", len(calls))
			}
			wantReportByCriteria(t, out)
			_, shown, _ := evalfleet(t, nil, "show", "0.0", out)
			if !strings.Contains(shown, "by criterion") || !strings.Contains(shown, `a "fine", long name: `) {
				t.Errorf("show lacks the verdicts by criterion:\n%s", shown)
			}
		})
	}
}

// wantReportByCriteria checks that every form of the report has the candidates by criterion.
func wantReportByCriteria(t *testing.T, out string) {
	t.Helper()
	lines := readCSV(t, filepath.Join(out, "criteria.csv"))
	if len(lines) != 9 {
		t.Errorf("%d lines of 3 candidates by 3 criteria", len(lines))
	}
	wins := map[string]int{}
	for _, row := range readCSV(t, filepath.Join(out, "pairwise_criteria.csv")) {
		wins[row["criterion"]+" "+row["winner_doc_id"]]++
	}
	for _, line := range lines {
		if got, want := line["wins"], strconv.Itoa(wins[line["criterion"]+" "+line["candidate"]]); got != want {
			t.Errorf("%s wins %s by %s, want %s", line["candidate"], got, line["criterion"], want)
		}
	}

	for format, want := range map[string]string{
		"json": `"by_criteria"`, "md": "## What the overall verdict follows", "html": `<h2 id="criteria">`,
	} {
		code, shown, stderr := evalfleet(t, nil, "report", out, "--format", format)
		if written, err := os.ReadFile(filepath.Join(out, "report."+format)); err == nil {
			shown = string(written)
		}
		if code != 0 || !strings.Contains(shown, want) {
			t.Errorf("report --format %s ended with %d, %s, and lacks %s", format, code, stderr, want)
		}
	}
}

// TestACriterionIsMissing: a judge that leaves out a criterion is asked again, and then the run is recorded without it:
// the overall verdict is not lost.
func TestACriterionIsMissing(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		answer := `{"criteria":[{"criterion":"winner","better":"B","by_degree":"better"},{"criterion":"Accuracy","better":"A",` +
			`"by_degree":"better"}],"winner_doc_id":"A","degree":"much better","reason":"r"}`
		raw, _ := json.Marshal(answer)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, raw)
	}))
	t.Cleanup(server.Close)
	dir := tree(t, map[string]string{
		"docs/a.md": threeTexts["docs/a.md"], "docs/b.md": threeTexts["docs/b.md"],
		"eval.yaml": "documents: [docs/*.md]\njudges: [p:m]\nproviders: {p: {base_url: \"" + server.URL + "/v1\"}}\n" + comparedByCriteria,
	})
	out := filepath.Join(dir, "out")
	if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
		t.Fatalf("run ended with %d: %s", code, stderr)
	}
	if got := calls.Load(); got != 6 {
		t.Errorf("%d calls for 2 runs, want 3 each: the answer is repaired twice", got)
	}
	var said []string
	for _, row := range readCSV(t, filepath.Join(out, "pairwise_criteria.csv")) {
		said = append(said, row["id"]+" "+row["criterion"]+" "+row["winner_doc_id"]+" "+row["degree"])
	}
	want := "r0-0 accuracy  , r0-0 winner b.md 1, r0-0 a \"fine\", long name  , " +
		"r0-1 accuracy  , r0-1 winner a.md 1, r0-1 a \"fine\", long name  "
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, shown, _ := evalfleet(t, nil, "report", out, "--details"); !strings.Contains(shown, "left out 4 verdicts by 2 criteria") {
		t.Errorf("the report does not say that criteria are missing:\n%s", shown)
	}
	_, shown, _ := evalfleet(t, nil, "show", "0.0", out)
	if !strings.Contains(shown, "accuracy: missing") {
		t.Errorf("show does not say that a criterion is missing:\n%s", shown)
	}
}
