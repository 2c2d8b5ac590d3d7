//go:build unix

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// answers writes a model's answers to so many questions, and returns the file's name.
func (f *testFleet) answers(model string, questions int, more string) string {
	f.t.Helper()
	text := ""
	for q := range questions {
		text += fmt.Sprintf(`{"question_id": "q%d", "question": "What is %d?", "model": %q, "answer": "%s answers %d.%s"}`+"\n", q, q, model, model, q, more)
	}
	return filepath.Base(f.write(model+".jsonl", text))
}

// history returns the history in the JSON report of an output folder.
func (f *testFleet) history(dir string) []eval.Standing {
	f.t.Helper()
	f.do(exitOK, "report", dir, "--format", "json")
	var report struct{ History []eval.Standing }
	raw, err := os.ReadFile(filepath.Join(f.dir, dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return report.History
}

// untilStored waits until the results store of a folder has so many runs.
func (f *testFleet) untilStored(folder string, runs int) {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, folder, "results.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	testrun.EventuallyGot(f.t, fmt.Sprint(runs, " runs are stored"), func() (string, bool) {
		rows := 0
		err := db.QueryRowContext(f.t.Context(), `SELECT count(*) FROM runs`).Scan(&rows)
		return fmt.Sprint(rows, err), err == nil && rows == runs
	})
}

// A ranking of four models grows: by the provider's count, each newcomer asks only about its own pairs, and the same command
// again asks nothing. Its history has each ranking once. That two models give the same answers and that the ranking began with
// --no-reuse makes no difference.
func TestLeaderboardGrows(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	const questions = 5
	wantCalls := f.callsBetween()
	files := []string{"run", "--judge", "simulator:careful", "--config", "fleet.yaml", "--out-dir", "out", "--no-reuse"}
	for _, model := range []string{"a", "b", "c"} {
		files = append(files, f.answers(model, questions, ""))
	}
	same, err := os.ReadFile(filepath.Join(f.dir, "c.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("d.jsonl", strings.ReplaceAll(string(same), `"model": "c"`, `"model": "d"`))
	f.do(exitOK, append(files, "d.jsonl")...)
	wantCalls("four models, of which two are equal", 5*questions*2)
	if history := f.history("out"); len(history) > 0 {
		t.Errorf("a ranking that has not grown has the history %+v", history)
	}

	add := func(what string, code exit, want int, says string, args ...string) {
		t.Helper()
		said := f.do(code, append([]string{"add", "out", "--opponents", "2", "--config", "fleet.yaml"}, args...)...)
		wantCalls(what, want)
		if got := strings.Join(strings.Fields(said.stderr.String()+said.stdout.String()), " "); !strings.Contains(got, says) {
			t.Errorf("%s: said\n%s\nwant %q", what, got, says)
		}
	}
	one := f.answers("e", questions, "")
	add("the first, only its prompts", exitOK, 0, "2 of 20 runs shown; nothing was sent or stored", "--dry-run=2", one)
	add("the first", exitOK, 2*questions*2, "50 of 80 runs are known from ev-", one)
	add("the same once more", exitOK, 0, "e is in the ranking already, with these answers nothing to ask", one)
	f.answers("e", questions, " Changed.")
	add("the same with other answers", exitUsage, 0, `candidate "e" is in the ranking already, with other answers`, one)
	f.answers("e", questions, "")
	two := f.answers("g", questions-1, "")
	add("two at once, of which one is there", exitOK, 2*(questions-1)*2, "g has no answer to 1 of 5 questions: q4", one, two)
	f.do(exitOK, "resume", "out")
	wantCalls("resumed", 0)

	history := f.history("out")
	if len(history) != 3 {
		t.Fatalf("a history of %d rankings, want 3: %+v", len(history), history)
	}
	for k, want := range []struct {
		newcomers    string
		names, calls int
	}{{"[]", 4, 50}, {"[e]", 5, 20}, {"[g]", 6, 16}} {
		got := history[k]
		if fmt.Sprint(got.Newcomers) != want.newcomers || len(got.Ranks) != want.names || got.Calls != want.calls || got.CostUSD == nil ||
			got.Ended.IsZero() || k > 0 && got.Evaluation == history[k-1].Evaluation {
			t.Errorf("ranking %d is %+v", k, got)
		}
		for _, one := range got.Ranks {
			if one.Low > one.Rank || one.Rank > one.High || one.High > len(got.Ranks) {
				t.Errorf("ranking %d: %+v", k, one)
			}
		}
	}
	if said := f.do(exitOK, "report", "out", "--details").stdout.String(); !strings.Contains(said, "History") || !strings.Contains(said, "g is ") {
		t.Errorf("the report has no history:\n%s", said)
	}
}

// Adding a model is interrupted and killed, and continues where it was: no recorded pair is asked again.
func TestAddIsInterrupted(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t)
	gate := f.gate()
	const questions = 12
	files := []string{"run", "--judge", "simulator:careful", "--config", "fleet.yaml", "--out-dir", "out", "--max-concurrency", "4"}
	for _, model := range []string{"a", "b", "c"} {
		files = append(files, f.answers(model, questions, ""))
	}
	before := 3 * questions * 2
	gate.allow(before)
	f.do(exitOK, files...)

	newcomer := f.answers("e", questions, "")
	add := []string{"add", "out", newcomer, "--config", "fleet.yaml"}
	p := launch(t, f.dir, add...)
	gate.allow(10) // in the middle of the second round
	f.untilHeld(gate, 4)
	f.do(exitUsage, add...) // the folder is in use
	p.signal(syscall.SIGINT)
	testrun.Eventually(t, "the command begins no other call", func() bool { return strings.Contains(p.stderr.String(), "stopping: ") })
	gate.allow(4)
	if code := p.wait(); code != int(exitInterrupted) {
		t.Fatalf("exit code %d, want %d", code, exitInterrupted)
	}
	if said := f.do(exitUsage, "add", "out", f.answers("g", questions, ""), "--config", "fleet.yaml").stderr.String(); !strings.Contains(
		said, "has not ended yet: finish it with evalfleet resume out") {
		t.Errorf("adding another says %s", said)
	}

	p = launch(t, f.dir, add...)
	gate.allow(10) // in the middle of the third round of 9, 9, 18 and 36 runs
	f.untilHeld(gate, 4)
	f.untilStored("out", before+before+10+4+10) // of the ranking before, the same again, and of the newcomer
	p.signal(syscall.SIGKILL)
	p.wait()
	gate.open()
	f.do(exitOK, add...)
	const lost = 4 // in flight when it was killed
	if got, want := f.stats().All.Arrived, before+3*questions*2; got < want || got > want+lost {
		t.Errorf("%d calls arrived, want %d and up to %d more", got, want, lost)
	}
	if history := f.history("out"); len(history) != 2 {
		t.Errorf("a history of %d rankings, want 2", len(history))
	}
}

// A budget of add needs prices, as that of run does. What it ends continues with a higher one, and only what can be changed
// is taken from the flags.
func TestAddWithBudget(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--answer-tokens", "100")
	lab := fmt.Sprintf("providers: {lab: {base_url: %q}}\n", f.provider+"/v1")
	f.writeCalm(lab)
	const questions = 5
	wantCalls := f.callsBetween()
	f.do(exitOK, "run", "--judge", "lab:careful", "--config", "fleet.yaml", "--out-dir", "out",
		f.answers("a", questions, ""), f.answers("b", questions, ""), f.answers("c", questions, ""))
	wantCalls("three models", 3*questions*2)

	add := func(what string, code exit, says string, args ...string) {
		t.Helper()
		said := f.do(code, append([]string{"add", "out", "--config", "fleet.yaml"}, args...)...)
		if got := strings.Join(strings.Fields(said.stderr.String()+said.stdout.String()), " "); !strings.Contains(got, says) {
			t.Errorf("%s: said\n%s\nwant %q", what, got, says)
		}
	}
	one := f.answers("e", questions, "")
	add("too many opponents", exitUsage, "--opponents must be from 1 to 1,000, got 99999999999", "--opponents", "99999999999", one)
	add("another folder", exitUsage, "works in the output folder that it names first; remove --out-dir", "--out-dir", "other", one)
	add("without prices", exitUsage, "--budget: the budget needs the price of lab:careful", "--budget", "1", one)
	wantCalls("refused", 0)
	f.writeCalm(lab)
	f.add("fleet.yaml", "prices: {\"lab:care*\": {input: 0, output: 10}}\n")
	add("for no call", exitRunsFailed, "Added e has no verdict yet; the ranking before had 3 candidates", "--opponents", "2", "--budget", "0.01", one)
	wantCalls("none", 0)
	add("little", exitRunsFailed, "continue with a higher budget: evalfleet add out e.jsonl", "--budget", "0.05", one)
	before := f.stats().All.Arrived
	if before == 3*questions*2 || before >= 3*questions*2+questions*2*2 {
		t.Errorf("%d calls in all, want some for the newcomer", before)
	}
	add("the same once more", exitRunsFailed, "leaves no room", one)
	add("other opponents", exitUsage, "has begun with --opponents 2, which cannot be changed", "--opponents", "3", "--budget", "1", one)
	add("another newcomer", exitUsage, "if its budget is spent, repeat its add with a higher --budget", f.answers("g", questions, ""))
	if after := f.stats().All.Arrived; after != before {
		t.Errorf("%d calls without a higher budget", after-before)
	}
	add("a higher budget", exitOK, "", "--budget", "1", one)
	if got, want := f.stats().All.Arrived, 3*questions*2+questions*2*2; got != want {
		t.Errorf("%d calls in all, want %d: each pair once", got, want)
	}
}
