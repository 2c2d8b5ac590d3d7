package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// softEvaluation compares three texts softly by a judge.
func softEvaluation(t *testing.T, pairwise, rest string) (folder string) {
	t.Helper()
	files := maps.Clone(threeTexts)
	files["eval.yaml"] = "documents: [docs/*.md]\n" + rest + "pairwise: {soft: true" + pairwise + "}\n"
	return tree(t, files)
}

// TestSoftVerdicts: each verdict has the probabilities of the possible ones, with the sum 1, and the weighted win rates are
// their means over both orders, beside the win rates.
func TestSoftVerdicts(t *testing.T) {
	t.Parallel()
	for _, pairwise := range []string{"", ", ties: true"} {
		dir := softEvaluation(t, pairwise, "judges: [simulator:average]\n")
		out := filepath.Join(dir, "out")
		if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
			t.Fatalf("run ended with %d: %s", code, stderr)
		}

		number := func(row map[string]string, name string) float64 {
			value, err := strconv.ParseFloat(row[name], 64)
			if err != nil {
				t.Errorf("%s of %v: %v", name, row, err)
			}
			return value
		}
		won, verdicts := map[string]float64{}, map[string]float64{}
		for _, row := range readCSV(t, filepath.Join(out, "pairwise_results.csv")) {
			first, tie, second := number(row, "p_doc_1"), number(row, "p_tie"), number(row, "p_doc_2")
			most := map[string]float64{row["doc_id_1"]: first, row["doc_id_2"]: second, "tie": tie}[row["winner_doc_id"]]
			if math.Abs(first+tie+second-1) > 1e-9 || most < max(first, second) || (tie > 0) != (pairwise != "") || first == 1 || second == 1 {
				t.Errorf("%g, %g, %g for %v", first, tie, second, row)
			}
			won[row["candidate_1"]] += first + tie/2
			won[row["candidate_2"]] += second + tie/2
			verdicts[row["candidate_1"]]++
			verdicts[row["candidate_2"]]++
		}
		ranking := readCSV(t, filepath.Join(out, "ranking.csv"))
		for _, row := range ranking {
			at, name := number(row, "weighted_win_rate"), row["candidate"]
			if math.Abs(at-won[name]/verdicts[name]) > 1e-9 || verdicts[name] != 4 || row["weighted_win_rate"] == row["win_rate"] {
				t.Errorf("the weighted win rate is %g, want %g: %v", at, won[name]/verdicts[name], row)
			}
		}
		if len(ranking) != 3 {
			t.Errorf("%d candidates", len(ranking))
		}

		if code, _, stderr := evalfleet(t, nil, "report", out, "--format", "html,md,json"); code != 0 {
			t.Fatalf("report ended with %d: %s", code, stderr)
		}
		for file, want := range map[string]string{
			"report.html": "weighted win rate", "report.md": "weighted win rate", "report.json": `"soft_verdicts":`,
		} {
			if raw, err := os.ReadFile(filepath.Join(out, file)); err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("%s has no %s (%v)", file, want, err)
			}
		}
		if _, shown, _ := evalfleet(t, nil, "report", out, "--details"); !strings.Contains(shown, "weighted win rate") {
			t.Errorf("the report shows no weighted win rates:\n%s", shown)
		}
		if _, shown, _ := evalfleet(t, nil, "show", "0.0", out); !strings.Contains(shown, "probabilities") {
			t.Errorf("show has no probabilities:\n%s", shown)
		}
	}
}

// TestSoftVerdictsThatAreHard: what a server sends in place of log probabilities loses no verdict and becomes none.
func TestSoftVerdictsThatAreHard(t *testing.T) {
	t.Parallel()
	const answer = `{"winner_doc_id":"A","reason":"r"}`
	text, _ := json.Marshal(answer)
	for name, logProbs := range map[string]string{
		"none":           `null`,
		"another form":   `{"tokens":["{"],"token_logprobs":[0]}`,
		"other tokens":   `{"content":[{"token":"B","logprob":-0.1}]}`,
		"above 1":        `{"content":[{"token":` + quoted(`{"winner_doc_id":"`) + `,"logprob":0},{"token":"A","logprob":1,"top_logprobs":[{"token":"B","logprob":-1}]},{"token":` + quoted(`","reason":"r"}`) + `,"logprob":0}]}`,
		"no alternative": `{"content":[{"token":` + quoted(`{"winner_doc_id":"`) + `,"logprob":0},{"token":"A","logprob":-0.5},{"token":` + quoted(`","reason":"r"}`) + `,"logprob":0}]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%s},"logprobs":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, text, logProbs)
		}))
		t.Cleanup(server.Close)
		dir := softEvaluation(t, "", "judges: [p:m]\nproviders: {p: {base_url: \""+server.URL+"/v1\", models: {m: {logprobs: true}}}}\n")
		out := filepath.Join(dir, "out")
		if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
			t.Fatalf("%s: run ended with %d: %s", name, code, stderr)
		}
		for _, row := range readCSV(t, filepath.Join(out, "pairwise_results.csv")) {
			if row["winner_doc_id"] != row["doc_id_1"] || row["p_doc_1"]+row["p_tie"]+row["p_doc_2"] != "" {
				t.Errorf("%s: %v", name, row)
			}
		}
		for _, row := range readCSV(t, filepath.Join(out, "ranking.csv")) {
			if row["weighted_win_rate"] != row["win_rate"] {
				t.Errorf("%s: %v", name, row)
			}
		}
		if _, shown, _ := evalfleet(t, nil, "report", out, "--details"); !strings.Contains(shown, "6 of 6 verdicts have no probabilities") {
			t.Errorf("%s: the report does not say it:\n%s", name, shown)
		}
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}
