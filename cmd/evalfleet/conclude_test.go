package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/providers"
)

// listedRuns is a results store at path with one listed run for each id, all over the
// same two files; the last has failed, the one before was cut off.
func listedRuns(t *testing.T, path string, outs map[string]string, ids ...string) (results.Store, eval.ID) {
	t.Helper()
	texts := map[string]string{}
	runs := &eval.Runs{Models: []eval.Judge{{Name: "p:m", Provider: "p", Model: "m", Overrides: map[string]any{"reasoning_effort": "low"}}}}
	for _, name := range []string{"instructions", "input"} {
		text := "The " + name + " for $1."
		texts[eval.TextHash(text)] = text
		runs.Files = append(runs.Files, eval.Document{ID: name + ".md", Hash: eval.TextHash(text), Bytes: len(text)})
	}
	for _, id := range ids {
		runs.List = append(runs.List, eval.FileRun{ID: id, FileB: 1})
	}
	e := &eval.Evaluation{Name: "letters", Items: []eval.Item{{}}, Runs: runs, JSON: eval.JSONFalse, Grounding: eval.Required, Reasoning: eval.Off}
	e.Normalize()
	db, err := results.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err = db.PutEvaluation(t.Context(), results.Evaluation{
		ID: e.ID(), Plan: e, Created: at, Settings: record.Settings{Priority: 1, Outs: outs}, Phases: []record.Phase{{Kind: eval.KindRuns, Runs: len(ids)}},
	}, maps.All(texts))
	if err != nil {
		t.Fatal(err)
	}
	var entries []record.Entry
	for i, id := range ids {
		run := &record.Run{
			Index: i, Kind: eval.KindRuns, Name: id, State: "succeeded", Queue: "p", Judge: "p:m", Model: "p:m", AnsweredBy: "p:m",
			Documents: []string{"instructions.md", "input.md"}, Candidates: []string{"", ""}, Trial: 1,
			Answer: "Answer of " + id, Finish: "stop", Attempts: 1, Started: at, Ended: at.Add(time.Second), Worker: "w1",
		}
		call := record.Call{
			ID: fmt.Sprintf("0.%d.0-w1-1", i), Index: i, Stage: "verdict", Model: "p:m", Attempt: 1, Asked: at, Started: at, Ended: run.Ended,
			Status: 200, Text: run.Answer, Finish: "stop", Worker: "w1",
			Grounding: &providers.Grounding{Searches: 2, Queries: []string{"why"}, Sources: []providers.Source{{URL: "https://example.org"}}},
		}
		call.Usage.Reported, call.Usage.Input, call.Usage.Output = true, 10, 4
		switch i {
		case len(ids) - 2:
			run.Finish = "truncated"
		case len(ids) - 1:
			run.State, run.AnsweredBy, run.Answer, run.Finish, run.Class, run.Error = "failed", "", "", "", providers.Ungrounded, "no search was made"
			call.Class, call.Error, call.Grounding = providers.Ungrounded, "no search was made", nil
		}
		entries = append(entries, record.Entry{Run: run, Calls: []record.Call{call}})
	}
	if err := db.Append(t.Context(), e.ID(), entries); err != nil {
		t.Fatal(err)
	}
	return db, e.ID()
}

// Of listed runs alone, stdout has the paths of their answers and nothing else; each
// has its log, whatever its id is; and one that failed makes the exit code 1.
func TestConcludeListedRuns(t *testing.T) {
	t.Parallel()
	ids := []string{"r1", "../up", "a/b", "A_B", "a_b", "cut", "fails"}
	outs := map[string]string{"r1": "out/<run_id>.md", "a/b": "out/1.md", "A_B": "out/2.md", "a_b": "out/3.md"}
	db, id := listedRuns(t, filepath.Join(t.TempDir(), outdir.ResultsFile), nil, ids...)
	dir, working := t.TempDir(), t.TempDir()
	var stdout, stderr bytes.Buffer
	err := conclude(t.Context(), conclusion{
		reader: db, id: id, place: results.Place{Dir: dir, Outs: outs, Working: working}, failOn: failOnAny, again: "again", stdout: &stdout, console: &stderr,
	})
	if codeOf(err) != exitRunsFailed {
		t.Errorf("ended with code %d, %v; want %d", codeOf(err), err, exitRunsFailed)
	}
	var want []string
	for _, path := range []string{"out/r1.md", "", "out/1.md", "out/2.md", "out/3.md"} {
		if path == "" {
			want = append(want, filepath.Join(dir, "input.m..._up.fpf.response.md"))
			continue
		}
		want = append(want, filepath.Join(working, path))
	}
	want = append(want, filepath.Join(dir, "input.m.cut.fpf.response.md"))
	if diff := cmp.Diff(strings.Join(want, "\n")+"\n", stdout.String()); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	for i, path := range want {
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "Answer of "+ids[i] {
			t.Errorf("%s holds %q, %v", path, raw, err)
		}
	}
	for _, word := range []string{"6 of 7 succeeded, 1 failed (ungrounded 1)", filepath.Join(dir, outdir.ReportFile)} {
		if !strings.Contains(stderr.String(), word) {
			t.Errorf("stderr does not say %q:\n%s", word, stderr.String())
		}
	}

	logs := map[string]show.Run{}
	files, err := filepath.Glob(filepath.Join(dir, outdir.LogsFolder, "*"))
	if err != nil || len(files) != len(ids) {
		t.Fatalf("%d logs, %v; want %d: %q", len(files), err, len(ids), files)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var log show.Run
		if err := json.Unmarshal(raw, &log); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		logs[log.RunID] = log
	}
	for i, id := range ids {
		log := logs[id]
		if log.Outcome == nil || log.Outcome.Name != id || len(log.Calls) != 1 || log.Model != "p:m" || !log.Grounded || log.Reasoned ||
			log.Overrides["reasoning_effort"] != "low" || len(log.Prompt) != 1 || !strings.Contains(log.Prompt[0].Content, "The input for $1.") {
			t.Errorf("the log of run %s is %+v", id, log)
			continue
		}
		failed := i == len(ids)-1
		if evidence := log.Calls[0].Grounding; (evidence == nil) != failed || log.Calls[0].Usage.Input != 10 || (log.Outcome.Class != "") != failed {
			t.Errorf("the call of run %s is %+v", id, log.Calls[0])
		}
	}
}

// What cannot be written is said with how to write it later, and the exit code says
// whose fault it is.
func TestConcludeSaysWhichAnswerIsNotWritten(t *testing.T) {
	t.Parallel()
	outs := map[string]string{"r2": "taken/x.md"}
	db, id := listedRuns(t, filepath.Join(t.TempDir(), outdir.ResultsFile), nil, "r1", "r2", "r3", "r4")
	dir, working := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(working, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err := conclude(t.Context(), conclusion{
		reader: db, id: id, place: results.Place{Dir: dir, Outs: outs, Working: working}, failOn: failOnNever, again: "evalfleet again", stdout: &stdout, console: &stderr,
	})
	if codeOf(err) != exitUsage || !strings.Contains(err.Error(), "run r2") || !strings.Contains(err.Error(), "taken") || !strings.Contains(err.Error(), "evalfleet again") {
		t.Errorf("ended with code %d, %v; want %d, the run, the path and what to do", codeOf(err), err, exitUsage)
	}
	if n := strings.Count(stdout.String(), "\n"); n != 2 || strings.Contains(stdout.String(), "taken") {
		t.Errorf("stdout names %d answers, want the two that are written:\n%s", n, stdout.String())
	}
	if _, err := os.Stat(filepath.Join(dir, outdir.ReportFile)); err != nil {
		t.Error(err)
	}
}
