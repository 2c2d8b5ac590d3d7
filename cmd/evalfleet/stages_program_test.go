package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// TestKilledBetweenTheCalls: a worker is killed when the answers in prose have come
// and their JSON has not. The worker that takes the runs over asks for the JSON alone, and
// the calls of the dead worker are in the results store with their evidence.
func TestKilledBetweenTheCalls(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const judge, writer, runs = "gemini-2.5-flash", "gpt-4.1-mini", 6
	settings := filepath.Join(t.TempDir(), "simulator.json")
	f := &testFleet{t: t, dir: filepath.Dir(settings)}
	f.write("simulator.json", fmt.Sprintf(`{"models": {%q: {"behaviour": {"latency": "50ms"}}, %q: {}}}`, judge, writer))
	f = newFleetWith(t, "--settings", settings)
	f.runs = runs
	f.documents(3)
	f.write(".env", "GEMINI_API_KEY=gemini-0123456789\nOPENAI_API_KEY=sk-0123456789\n")
	writing := newTurnstile(t, f.provider)
	f.write("fleet.yaml", fmt.Sprintf(`providers: {google: {base_url: %q}, openai: {base_url: %q}}
concurrency: {lease: 20s}
`, f.provider, writing.URL+"/v1"))
	f.trustRedis()
	f.file = f.write("pairs.yaml", "documents: [docs/*.md]\njudges: [google:"+judge+"]\npairwise: {}\ngrounding: required\nconcurrency: {max_concurrency: 6}\n")

	f.startWorkers(1)
	enqueue := f.enqueueAndWait()
	f.untilHeld(writing, runs) // every answer is to be written down
	f.workers[0].signal(syscall.SIGKILL)
	f.untilHeld(writing, 0)
	writing.open()
	f.startWorkers(1)
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}

	end := f.stats()
	if got := end.Models[judge]; got.Arrived != runs || got.Answered != runs {
		t.Errorf("%s was asked %d times and answered %d, want %d: the search is paid for once", judge, got.Arrived, got.Answered, runs)
	}
	// The calls of the dead worker never arrived.
	if got := end.Models[writer]; got.Arrived != runs || got.Answered != runs {
		t.Errorf("%s was asked %d times and answered %d, want %d", writer, got.Arrived, got.Answered, runs)
	}
	f.wantRowsOnce()
	if diff := cmp.Diff(map[string]int{"grounded": runs, "json": runs}, f.answeredStages()); diff != "" {
		t.Errorf("answered calls in the results store, by stage (-want +got):\n%s", diff)
	}
	run := looked[show.Run](t, f.dir, "show", "0.0", "out")
	for _, call := range run.Calls {
		evident := call.Grounding != nil && len(call.Grounding.Sources) > 0
		if call.Class != "" || evident != (call.Stage == "grounded") || call.Usage.Input == 0 {
			t.Errorf("call %s, %s: %s, evidence %+v, usage %+v", call.ID, call.Stage, call.Class, call.Grounding, call.Usage)
		}
	}
	if len(run.Calls) != 2 || run.Outcome.AnsweredBy != "google:"+judge {
		t.Errorf("%d calls shown, answered by %s", len(run.Calls), run.Outcome.AnsweredBy)
	}
}

// answeredStages counts the answered calls in the results store.
func (f *testFleet) answeredStages() map[string]int {
	f.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(f.dir, "out", "results.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(f.t.Context(), `SELECT stage, count(*) FROM calls WHERE class = '' GROUP BY stage`)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var stage string
		var n int
		if err := rows.Scan(&stage, &n); err != nil {
			f.t.Fatal(err)
		}
		counts[stage] = n
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return counts
}
