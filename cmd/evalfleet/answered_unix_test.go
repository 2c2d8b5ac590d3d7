//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// crossed writes an evaluation file of two prompts, the models careless and obedient, and so many questions, whose
// answers one judge compares in both orders: 6 pairs of each question.
func (f *testFleet) crossed(questions int, more string) (file string, answers, verdicts int) {
	f.t.Helper()
	var items strings.Builder
	for i := range questions {
		fmt.Fprintf(&items, "{\"item\": \"q%d\", \"question\": \"What is %d plus %d?\"}\n", i, i, 2*i)
	}
	f.write("items.jsonl", items.String())
	f.write("crossed.yaml", `name: crossed
prompts: {plain: "{{question}}", brief: "Answer in one word, please: {{question}}"}
models:
  - {name: lax, model: simulator:careless, overrides: {max_completion_tokens: 150}}
  - {name: keen, model: simulator:obedient, overrides: {max_completion_tokens: 150}}
items: items.jsonl
judges: [{model: "simulator:careful", overrides: {max_completion_tokens: 150}}]
pairwise: {pairs: all, order: both}
retry: {max_attempts: 1}
`+more)
	return "crossed.yaml", 4 * questions, 12 * questions
}

// madeOf is the part of a report that says how its documents were made.
type madeOf struct {
	Answers struct {
		Included   bool                                   `json:"calls_included"`
		Candidates []struct{ Name, Prompt, Model string } `json:"candidates"`
		Missing    []string                               `json:"missing"`
	} `json:"answers"`
	Calls []struct {
		Stage string `json:"stage"`
		Used  struct {
			Calls int `json:"calls"`
		} `json:"used"`
	} `json:"calls"`
	Runs struct{ Planned, Succeeded int } `json:"runs"`
}

// madeOf reads the report of the output folder out.
func (f *testFleet) madeOf() (of madeOf) {
	f.t.Helper()
	f.do(exitOK, "report", "out", "--format", "json")
	text, err := os.ReadFile(filepath.Join(f.dir, "out", "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		f.t.Fatalf("report: %v\n%s", err, text)
	}
	return of
}

// wantOnce wants that the models have given so many answers, each prompt's once, and that no run needed a second call.
func (f *testFleet) wantOnce(answers int) {
	f.t.Helper()
	counts := f.counts()
	if got := counts.Models["careless"].Answered + counts.Models["obedient"].Answered; got != int64(answers) {
		f.t.Errorf("%d questions were answered, want %d", got, answers)
	}
	for _, name := range []string{"careless", "obedient"} {
		if of := counts.Models[name]; of.PromptsRetaken > 0 {
			f.t.Errorf("%s was asked %d prompts again: %+v", name, of.PromptsRetaken, of)
		}
	}
	const twice = "SELECT evaluation || '.' || phase || '.' || index_ FROM calls GROUP BY 1 HAVING count(*) > 1"
	if runs := rowsOf(f.t, filepath.Join(f.dir, "out"), twice); len(runs) > 0 {
		f.t.Errorf("these runs have several calls, want one each: %v", runs)
	}
	made := rowsOf(f.t, filepath.Join(f.dir, "out"), "SELECT id FROM calls WHERE NOT cached")
	if int64(len(made)) != counts.All.Arrived {
		f.t.Errorf("%d calls arrived, and %d are recorded", counts.All.Arrived, len(made))
	}
}

// TestPromptsAreAnsweredThenJudged: one command asks every model every prompt about every question once, and has the
// answers judged in the same folder. The same command again asks nothing.
func TestPromptsAreAnsweredThenJudged(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	file, answers, verdicts := f.crossed(3, "")
	run := []string{"run", file, "--config", "fleet.yaml", "--out-dir", "out"}
	f.do(exitOK, run...)
	f.wantOnce(answers)

	of := f.madeOf()
	if len(of.Answers.Candidates) != 4 || of.Answers.Candidates[0].Name != "plain + lax" || of.Answers.Candidates[0].Model != "lax" ||
		!of.Answers.Included || len(of.Answers.Missing) > 0 || of.Runs.Succeeded != verdicts {
		t.Errorf("the report says %+v, want four candidates, nothing missing and %d verdicts", of, verdicts)
	}
	made := 0
	for _, c := range of.Calls {
		if c.Stage == "answer" {
			made += c.Used.Calls
		}
	}
	if made != answers {
		t.Errorf("the report counts %d calls for answers, want %d", made, answers)
	}

	before := f.counts().All.Arrived
	for _, again := range [][]string{run, append(run, "--retry-failed"), {"resume", "out", "--config", "fleet.yaml"}} {
		f.do(exitOK, again...)
	}
	if now := f.counts().All.Arrived; now != before {
		t.Errorf("%d calls arrived when everything had been recorded, want none", now-before)
	}
}

// TestInterruptedAnswersAndVerdicts: whatever stops the command in either part, the same command resumes there, and no
// answer that was recorded is asked for again.
func TestInterruptedAnswersAndVerdicts(t *testing.T) {
	t.Parallel()
	const atOnce = 4
	for _, c := range []struct {
		name   string
		passes int // calls that end before the signal
		signal syscall.Signal
	}{
		{"answers, Ctrl-C", 5, syscall.SIGINT}, {"answers, kill -9", 5, syscall.SIGKILL},
		{"verdicts, Ctrl-C", 30, syscall.SIGINT}, {"verdicts, kill -9", 30, syscall.SIGKILL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleetWith(t)
			gate := f.gate()
			f.configure(gate.URL, calm)
			file, answers, verdicts := f.crossed(5, fmt.Sprintf("concurrency: {max_concurrency: %d}\n", atOnce))
			run := []string{"run", file, "--config", "fleet.yaml", "--out-dir", "out"}
			gate.allow(c.passes)
			victim := launch(t, f.dir, run...)
			f.untilHeld(gate, atOnce)
			victim.signal(c.signal)
			gate.open()
			victim.wait()
			lost := 0 // calls that were in flight, whose answers nobody recorded
			if c.signal == syscall.SIGKILL {
				lost = atOnce + c.passes - len(rowsOf(t, filepath.Join(f.dir, "out"), "SELECT index_ FROM runs WHERE state = 'succeeded'"))
			}

			if c.passes < answers && c.signal == syscall.SIGINT { // resuming the folder of the answers asks no judge, and says so
				resumed := f.do(exitOK, "resume", "out/answers", "--config", "fleet.yaml").stderr.String()
				if want := "next, have judges compare these answers: evalfleet run FILE --out-dir out\n"; !strings.Contains(resumed, want) {
					t.Errorf("resuming the answers says\n%s\nwant %q", resumed, want)
				}
			}
			f.do(exitOK, run...)
			if of := f.madeOf(); of.Runs.Succeeded != verdicts || len(of.Answers.Missing) > 0 {
				t.Errorf("the report says %+v, want %d verdicts and nothing missing", of, verdicts)
			}
			counts := f.counts()
			made := counts.Models["careless"].Answered + counts.Models["obedient"].Answered
			if made > int64(answers+lost) || counts.All.Answered > int64(answers+verdicts+lost) {
				t.Errorf("%d questions and %d calls were answered, want at most %d and %d and %d lost", made, counts.All.Answered, answers, answers+verdicts, lost)
			}
			if lost == 0 {
				f.wantOnce(answers)
			}
		})
	}
}

// TestEnqueuedPromptsAreAnsweredThenJudged: a fleet does both parts, and the command that waits writes the files that run
// writes. Ctrl-C in either part loses nothing: the same command resumes there, and no call is repeated.
func TestEnqueuedPromptsAreAnsweredThenJudged(t *testing.T) {
	t.Parallel()
	const atOnce = 4
	f := newFleetWith(t)
	gate := f.gate()
	file, answers, verdicts := f.crossed(3, fmt.Sprintf("concurrency: {max_concurrency: %d}\n", atOnce))
	f.startWorkers(1)
	enqueue := []string{"enqueue", file, "--wait", "--out-dir", "out", "--config", "fleet.yaml"}
	passed := 0
	for _, passes := range []int{5, answers} { // the first among the answers, the second among the verdicts
		gate.allow(passes)
		waits := f.program(enqueue...)
		passed += passes
		gate.await(t.Context(), int64(passed+atOnce))
		waits.signal(syscall.SIGINT)
		if code := exit(waits.wait()); code != exitInterrupted {
			t.Fatalf("Ctrl-C ended the command with code %d, want %d\n%s", code, exitInterrupted, waits.stderr.String())
		}
	}
	gate.open()
	arrived := int64(0)
	for again := range 2 {
		waited := f.onFleet(exitOK, enqueue...)
		if id := strings.TrimSpace(waited.stdout.String()); !strings.HasPrefix(id[strings.LastIndex(id, "\n")+1:], "ev-") {
			t.Errorf("standard output does not end with an id:\n%s", id)
		}
		f.wantOnce(answers)
		if of := f.madeOf(); of.Runs.Succeeded != verdicts || !of.Answers.Included || len(of.Answers.Candidates) != 4 {
			t.Errorf("the report says %+v, want %d verdicts on four candidates", of, verdicts)
		}
		now := f.counts().All.Arrived
		if again == 1 && now != arrived {
			t.Errorf("%d calls arrived when everything had been recorded, want none", now-arrived)
		}
		arrived = now
	}
	for _, name := range []string{"report.html", "ranking.csv", "answers/manifest.json"} {
		if _, err := os.Stat(filepath.Join(f.dir, "out", name)); err != nil {
			t.Error(err)
		}
	}
}

// withoutKeen returns a fleet in which all calls of one of the models that write answers fail.
func withoutKeen(t *testing.T) *testFleet {
	t.Helper()
	settings := simulator.Config{Models: map[string]simulator.Model{"obedient": {Behaviour: &simulator.Behaviour{FailRate: 1, FailStatus: 400}}}}
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "simulator.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleetWith(t, "--settings", file)
	f.configure(f.provider, calm)
	return f
}

// TestFailedAnswersAreMissing: a model whose calls fail is missing and named, its texts are not ranked, and the command
// fails. Once it answers, --retry-failed asks for these answers alone, and no verdict is asked for again.
func TestFailedAnswersAreMissing(t *testing.T) {
	t.Parallel()
	f := withoutKeen(t)
	evaluation, answers, verdicts := f.crossed(3, "")
	run := []string{"run", evaluation, "--config", "fleet.yaml", "--out-dir", "out"}
	f.do(exitRunsFailed, run...)

	of := f.madeOf()
	if want := []string{"q0/brief + keen", "q0/plain + keen"}; len(of.Answers.Missing) != answers/2 || of.Answers.Missing[0] != want[0] || of.Answers.Missing[1] != want[1] {
		t.Errorf("missing: %v, want the %d of keen", of.Answers.Missing, answers/2)
	}
	if of.Runs.Planned != verdicts/6 {
		t.Errorf("%d verdicts are planned, want only the %d on answers of lax", of.Runs.Planned, verdicts/6)
	}
	judged := f.counts().Models["careful"].Arrived
	if code := f.do(exitRunsFailed, run...); !strings.Contains(code.stderr.String(), "6 of 12 runs failed") {
		t.Errorf("the second time, the command says\n%s", code.stderr.String())
	}
	if now := f.counts().Models["careful"].Arrived; now != judged {
		t.Errorf("%d more verdicts were asked for, want none", now-judged)
	}

	f.simulate()
	f.configure(f.provider, calm)
	f.do(exitOK, append(run, "--retry-failed")...)
	counts := f.counts()
	if counts.Models["obedient"].Answered != int64(answers/2) || counts.Models["careless"].Arrived != 0 {
		t.Errorf("--retry-failed asked %+v, want only the %d answers that failed", counts.Models, answers/2)
	}
	if all := int64(verdicts) - judged; counts.Models["careful"].Arrived > all {
		t.Errorf("%d verdicts were asked for, want at most %d that are new", counts.Models["careful"].Arrived, all)
	}
	if of := f.madeOf(); len(of.Answers.Missing) > 0 || of.Runs.Succeeded != verdicts {
		t.Errorf("after --retry-failed, the report says %+v, want %d verdicts", of, verdicts)
	}
}

// TestVerdictsOfAFleetWithoutACache: workers without --cache judge no pair again that was judged before answers were asked
// for again, because the submission has read the results store. They say what they cannot do.
func TestVerdictsOfAFleetWithoutACache(t *testing.T) {
	t.Parallel()
	f := withoutKeen(t)
	evaluation, _, verdicts := f.crossed(3, "")
	enqueue := []string{"enqueue", evaluation, "--wait", "--out-dir", "out", "--config", "fleet.yaml"}
	worker := f.program("worker", "--config", "fleet.yaml")
	f.onFleet(exitRunsFailed, enqueue...)
	judged := f.counts().Models["careful"].Answered
	worker.signal(syscall.SIGTERM)
	worker.wait()

	f.simulate()
	f.configure(f.provider, calm)
	f.startWorkers(1)
	f.onFleet(exitOK, append(enqueue, "--retry-failed")...)
	if got, most := f.counts().Models["careful"].Arrived, int64(verdicts)-judged; judged == 0 || got > most {
		t.Errorf("%d verdicts were asked for after %d, want at most %d that are new", got, judged, most)
	}
	if want := "without --cache, this worker finds no earlier answers"; !strings.Contains(worker.stderr.String(), want) {
		t.Errorf("the worker says\n%s\nwant %q", worker.stderr.String(), want)
	}
}

// TestOneBudgetForAnswersAndVerdicts: a budget that ends in either part is kept by what the provider charges for both. No
// judge is asked while answers are missing. With a larger one, the same command goes on.
func TestOneBudgetForAnswersAndVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		calls  int
		judged bool
	}{{"answers", 6, false}, {"verdicts", 30, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleetWith(t, "--answer-tokens", "100")
			f.configure(f.provider, calm)
			f.add("fleet.yaml", "prices: {\"simulator:*\": {input: 0, output: 10}}\n")
			budget := func(calls int) string {
				return fmt.Sprintf("budget: {usd: %v}\n", float64(calls*callCosts)/ratelimit.Dollar)
			}
			file, answers, verdicts := f.crossed(3, budget(c.calls))
			run := []string{"run", file, "--config", "fleet.yaml", "--out-dir", "out"}
			wantStopped(t, launch(t, f.dir, run...))
			f.wantSpent(c.calls)
			if judged := f.counts().Models["careful"].Arrived; judged > 0 != c.judged {
				t.Errorf("judges were asked %d times with a budget of %d calls for %d answers", judged, c.calls, answers)
			}

			f.crossed(3, budget(100))
			f.do(exitOK, run...)
			f.wantOnce(answers)
			if of := f.madeOf(); of.Runs.Succeeded != verdicts {
				t.Errorf("with a larger budget, the report says %+v, want %d verdicts", of, verdicts)
			}
		})
	}
}
