package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// exportLetters writes the files of letters with answers of all but the second
// run, whose answers are named by outs.
func exportLetters(t *testing.T, place Place, outs map[string]string) (Exported, error) {
	t.Helper()
	db, e := putLetters(t, newPath(t))
	place.Outs = outs
	mustAppend(t, db, e.ID, answered(3, "<b>Four</b>\n"), unanswered(1, 0), answered(0, "One"), answered(2, "Three"))
	return Export(t.Context(), place, db, e.ID, Rankings{})
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The record of answers is read whole, and a working folder may come from another person.
func TestRecordOfAnswersIsBounded(t *testing.T) {
	t.Parallel()
	working := t.TempDir()
	path := filepath.Join(working, AnswersFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"path":"a.md","sha256":"00"}` + "\n")
	if err := errors.Join(os.WriteFile(path, line, 0o600), os.Truncate(path, maxAnswersFile+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Replaceable(working); err == nil || !strings.Contains(err.Error(), "at most 256 MiB") {
		t.Errorf("got %v, want an error that names the bound", err)
	}
}

func TestExportOfAnswers(t *testing.T) {
	t.Parallel()
	dir, working := t.TempDir(), t.TempDir()
	done, err := exportLetters(t, Place{Dir: dir, Working: working}, map[string]string{
		"z1": "out/<provider>/<run_id>.md", "m3": "plain.md",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ path, text string }{ // in the order of the list
		{filepath.Join(working, "out/openai/z1.md"), "One"},
		{filepath.Join(working, "plain.md"), "Three"},
		{filepath.Join(dir, "b.gemini-2.5-flash.b4.fpf.response.md"), "<b>Four</b>\n"},
	}
	for i, w := range want {
		if len(done.Answers) != len(want) || done.Answers[i] != w.path || mustRead(t, w.path) != w.text {
			t.Errorf("answers are %q; want %d, the %d. %s with %q", done.Answers, len(want), i+1, w.path, w.text)
		}
	}
	var files []string
	for _, path := range done.Files {
		files = append(files, filepath.Base(path))
	}
	if diff := cmp.Diff([]string{"answers.csv", "calls.csv", ResponsesFile, ManifestFile}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	var got []response
	for lines := bufio.NewScanner(strings.NewReader(mustRead(t, filepath.Join(dir, ResponsesFile)))); lines.Scan(); {
		var line response
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		got = append(got, line)
	}
	if len(got) != 4 {
		t.Fatalf("%d lines of responses, want 4: %+v", len(got), got)
	}
	one, started, ended, input, output, none, cost := "One", "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:06.678Z", int64(700), int64(90), int64(0), 0.25
	first := response{
		RunID: "z1", ID: "0.0", Status: "succeeded", Provider: "openai", Model: "gpt-5-mini", AnsweredBy: "openai:gpt-5-mini",
		FileA: "prompts/standard.txt", FileB: "in/a.md", Answer: &one, Finish: "stop", Path: want[0].path, Attempts: 1,
		Started: &started, Ended: &ended,
		manifestUsage: manifestUsage{Calls: 1, Input: &input, Output: &output, Cached: &none, Written: &none, Reasoning: &none, CostUSD: &cost},
	}
	if diff := cmp.Diff(first, got[0], cmp.AllowUnexported(response{})); diff != "" {
		t.Errorf("first line (-want +got):\n%s", diff)
	}
	if failed := got[1]; failed.RunID != "a2" || failed.Status != "failed" || failed.Class != "refused" || failed.Answer != nil || failed.Path != "" || failed.FileB != "in/a.md" {
		t.Errorf("line of the failed run: %+v", failed)
	}
	if raw := mustRead(t, filepath.Join(dir, ResponsesFile)); !strings.Contains(raw, `"answer":"<b>Four</b>\n"`) {
		t.Errorf("the answer is not there to be read:\n%s", raw)
	}

	var manifest struct {
		Runs []struct {
			ID    string `json:"id"`
			RunID string `json:"run_id"`
			Path  string `json:"path"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(dir, ManifestFile))), &manifest); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{want[0].path, "", want[1].path, want[2].path} {
		if run := manifest.Runs[i]; run.Path != path || run.RunID != got[i].RunID || run.ID != got[i].ID {
			t.Errorf("run %d of the manifest: %+v, want path %q", i, run, path)
		}
	}
}

// A file outside the working folder is written for --out alone, and one answer that
// cannot be written keeps no other from its file.
func TestAnswersStayBelowTheWorkingFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out string
		// made prepares the working folder, beside which lies the folder outside.
		made func(t *testing.T, working string)
		want string // in the error
	}{
		"parent":            {"../outside/x.md", nil, "escapes"},
		"parent later":      {"a/../../outside/x.md", nil, "escapes"},
		"absolute":          {"/tmp/evalfleet-never-written.md", nil, "never-written.md"},
		"the folder itself": {".", nil, "write"},
		"null byte":         {"a\x00b.md", nil, "invalid"},
		"a folder's name": {"taken", func(t *testing.T, working string) {
			if err := os.Mkdir(filepath.Join(working, "taken"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "taken"},
		"a file on the way": {"taken/x.md", func(t *testing.T, working string) {
			if err := os.WriteFile(filepath.Join(working, "taken"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "taken"},
		"a link out": {"link/x.md", func(t *testing.T, working string) {
			if err := os.Symlink("../outside", filepath.Join(working, "link")); err != nil {
				t.Fatal(err)
			}
		}, "escapes"},
		"another's":       {"<model_name>.md", nil, "answer of run z1"},
		"a hidden folder": {".git/config", nil, "a dot"},
		"a hidden file":   {"a/.env", nil, "a dot"},
		"another person's file": {"notes.md", func(t *testing.T, working string) {
			if err := os.WriteFile(filepath.Join(working, "notes.md"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "did not write it"},
		"another person's link": {"notes.md", func(t *testing.T, working string) {
			if err := os.Symlink("nowhere", filepath.Join(working, "notes.md")); err != nil {
				t.Fatal(err)
			}
		}, "regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			working, outside, dir := filepath.Join(top, "working"), filepath.Join(top, "outside"), filepath.Join(top, "out")
			for _, folder := range []string{working, outside, dir} {
				if err := os.Mkdir(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.made != nil {
				c.made(t, working)
			}
			done, err := exportLetters(t, Place{Dir: dir, Working: working}, map[string]string{"z1": "<model_name>.md", "m3": c.out})
			var unwritten *AnswerError
			if !errors.As(err, &unwritten) || !slices.Equal(unwritten.Runs, []string{"m3"}) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "run m3") {
				t.Errorf("got %v, want that the answer of run m3 is not written, with %q", err, c.want)
			}
			if len(done.Answers) != 2 || len(done.Files) != 4 {
				t.Errorf("written are %q and %q, want two answers and four files", done.Answers, done.Files)
			}
			if found, err := os.ReadDir(outside); err != nil || len(found) != 0 {
				t.Errorf("outside lies %v, %v", found, err)
			}
			if raw := mustRead(t, filepath.Join(dir, ResponsesFile)); !strings.Contains(raw, `"answer":"Three"`) {
				t.Errorf("the answer that has no file is not in %s:\n%s", ResponsesFile, raw)
			}
			if left, err := filepath.Glob(filepath.Join(working, ".evalfleet-*")); err != nil || len(left) != 0 {
				t.Errorf("half-written: %v, %v", left, err)
			}
		})
	}
}

// An answer replaces an answer, also one of another evaluation with an output folder of
// its own, but not one that was changed since.
func TestAnAnswerReplacesAnAnswer(t *testing.T) {
	t.Parallel()
	working := t.TempDir()
	path := filepath.Join(working, "out", "x.md")
	export := func(run string) error {
		t.Helper()
		_, err := exportLetters(t, Place{Dir: t.TempDir(), Working: working}, map[string]string{run: "out/x.md"})
		return err
	}
	for _, c := range []struct{ run, answer string }{{"z1", "One"}, {"m3", "Three"}, {"m3", "Three"}, {"z1", "One"}} {
		if err := export(c.run); err != nil || mustRead(t, path) != c.answer {
			t.Fatalf("answer of run %s: %v; %s has %q, want %q", c.run, err, path, mustRead(t, path), c.answer)
		}
	}
	if err := os.WriteFile(path, []byte("One, corrected"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := export("m3"); err == nil || mustRead(t, path) != "One, corrected" {
		t.Errorf("got %v and %q, want an error and the file as it was changed", err, mustRead(t, path))
	}
}

// An answer replaces a link, and not what it leads to.
func TestAnAnswerReplacesALink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "kept.md")
	if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "b.gemini-2.5-flash.b4.fpf.response.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := exportLetters(t, Place{Dir: dir, Working: t.TempDir()}, nil); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, outside); got != "kept" {
		t.Errorf("what the link led to is now %q", got)
	}
}

func TestOutMayBeAnywhere(t *testing.T) {
	t.Parallel()
	db, e := putLetters(t, newPath(t))
	e.Plan.Runs.List = e.Plan.Runs.List[:1]
	e.ID, e.Phases[0].Runs = e.Plan.ID(), 1
	if err := db.PutEvaluation(t.Context(), e, func(func(string, string) bool) {}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, db, e.ID, answered(0, "One"))
	elsewhere := filepath.Join(t.TempDir(), "new", "folder")
	done, err := Export(t.Context(), Place{Dir: t.TempDir(), Working: t.TempDir(), Out: filepath.Join(elsewhere, "<run_id>.md")}, db, e.ID, Rankings{})
	if err != nil || len(done.Answers) != 1 || done.Answers[0] != filepath.Join(elsewhere, "z1.md") || mustRead(t, done.Answers[0]) != "One" {
		t.Errorf("written %q, %v", done.Answers, err)
	}
}

// An evaluation without listed runs has no answers.
func TestNoResponsesOfOtherKinds(t *testing.T) {
	t.Parallel()
	db, id, _ := exported(t)
	if rows := mustCollect(t, db.Responses(t.Context(), id)); len(rows) != 0 {
		t.Errorf("responses of an evaluation without listed runs: %+v", rows)
	}
	if run, found, err := db.Run(t.Context(), eval.RunID{Evaluation: id, Phase: 1}); err != nil || !found || run.Answer != "" {
		t.Errorf("a verdict has the answer %q, %t, %v", run.Answer, found, err)
	}
}

// The manifest lists every listed run with its status, also those that were never begun.
func TestManifestListsEveryRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		recorded  []record.Entry
		planned   int // 0: all
		cancelled bool
		want      string
	}{
		{"none has ended", nil, 0, false, "z1 none, a2 none, m3 none, b4 none"},
		{"some have", []record.Entry{answered(2, "Three"), unanswered(1, 0)}, 0, false, "z1 none, a2 failed, m3 succeeded, b4 none"},
		{"all have", []record.Entry{answered(0, ""), answered(1, ""), answered(2, ""), answered(3, "")}, 0, false, "z1 succeeded, a2 succeeded, m3 succeeded, b4 succeeded"},
		{"cancelled", []record.Entry{answered(3, "")}, 0, true, "z1 cancelled, a2 cancelled, m3 cancelled, b4 succeeded"},
		{"limited", []record.Entry{answered(1, ""), answered(3, "")}, 2, false, "z1 none, a2 succeeded, b4 succeeded"},
	} {
		db, e := putLetters(t, newPath(t))
		mustAppend(t, db, e.ID, c.recorded...)
		if c.planned > 0 {
			e.Phases[0].Runs = c.planned
		}
		if c.cancelled {
			e.Cancelled = epoch
		}
		var out bytes.Buffer
		if err := writeManifest(t.Context(), &out, db, e, nil, nil); err != nil {
			t.Fatal(err)
		}
		var manifest struct{ Runs []manifestRun }
		if err := json.Unmarshal(out.Bytes(), &manifest); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, run := range manifest.Runs {
			got = append(got, run.RunID+" "+run.Status)
			if len(run.Documents) != 2 || run.Model == "" || run.Judge == "" {
				t.Errorf("%s: %+v has no files or model", c.name, run)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %s, want %s", c.name, strings.Join(got, ", "), c.want)
		}
	}
}

// The manifest lists judged runs without a result, with what they ask, as long as they are not too
// many; then it says how many there are.
func TestManifestListsJudgedRunsWithoutAResult(t *testing.T) {
	t.Parallel()
	db, e := openStore(t, newPath(t))
	mustAppend(t, db, e.ID, verdict(1), verdict(2))
	read := func(e Evaluation) (phases []manifestPhase, runs []manifestRun) {
		t.Helper()
		var out bytes.Buffer
		if err := writeManifest(t.Context(), &out, db, e, nil, nil); err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Phases []manifestPhase
			Runs   []manifestRun
		}
		if err := json.Unmarshal(out.Bytes(), &manifest); err != nil {
			t.Fatal(err)
		}
		return manifest.Phases, manifest.Runs
	}

	phases, runs := read(e)
	var got []string
	for _, run := range runs {
		got = append(got, fmt.Sprintf("%s %s %s", run.ID, run.Status, strings.Join(run.Documents, "+")))
	}
	want := []string{
		"0.0 none a.md", "0.1 none b.md", "0.2 none c.md", "0.3 none d.md",
		"1.0 none a.md+b.md", "1.1 succeeded b.md+a.md", "1.2 succeeded a.md+b.md", "1.3 none c.md+a.md", "1.4 none a.md+d.md", "1.5 none d.md+a.md",
		"1.6 none b.md+c.md", "1.7 none c.md+b.md", "1.8 none b.md+d.md", "1.9 none d.md+b.md", "1.10 none c.md+d.md", "1.11 none d.md+c.md",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if run := runs[0]; run.Judge != "strict" || run.Model != "openai:gpt-5-mini" || run.Item != "q1" || run.Trial != 1 || run.Calls != 0 {
		t.Errorf("a run without a result: %+v", run)
	}
	if phases[0].Unlisted != 0 || phases[1].Unlisted != 0 {
		t.Errorf("all are listed, and yet: %+v", phases)
	}

	e.Phases[1].Runs = mostUnfinished + 3
	if phases, runs = read(e); phases[1].Unlisted != mostUnfinished+1 || len(runs) != 4+2 {
		t.Errorf("%d runs are listed, %d are said not to be; want 6 and %d", len(runs), phases[1].Unlisted, mostUnfinished+1)
	}
}

// Answers that are written one by one, in any order, are where all of them together are
// written later.
func TestAnswersAreWrittenOneByOne(t *testing.T) {
	t.Parallel()
	place := Place{Dir: t.TempDir(), Working: t.TempDir(), Outs: map[string]string{"z1": "out/<run_id>.md"}}
	_, e := putLetters(t, newPath(t))
	files, err := NewAnswerFiles(place, e.Plan.Runs)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, run := range []*record.Run{answered(3, "Four").Run, answered(0, "draft").Run, answered(0, "One").Run} {
		path, err := files.Write(*run)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, path); got != run.Answer {
			t.Errorf("%s has %q, want %q", path, got, run.Answer)
		}
		paths = append(paths, path)
	}
	done, err := exportLetters(t, place, place.Outs)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !slices.Contains(done.Answers, path) {
			t.Errorf("%s is none of the files %v that are written at the end", path, done.Answers)
		}
	}
	if path, err := files.Write(record.Run{Index: 4, Name: "z9"}); err == nil {
		t.Errorf("wrote a run that is not listed to %s", path)
	}
}
