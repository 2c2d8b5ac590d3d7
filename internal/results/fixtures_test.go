package results

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// childVariable names the part of the test that this process is to play instead
// of running tests: some need a process that can be killed or limited.
const childVariable = "EVALFLEET_RESULTS_TEST_CHILD"

var children = map[string]func() error{}

func TestMain(m *testing.M) {
	busyTimeout = 10 * time.Minute
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Parallel(8)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// essays is an evaluation of two kinds over four documents of one item.
func essays() (Evaluation, iter.Seq2[string, string]) {
	plan := &eval.Evaluation{
		Name:   "essays",
		Items:  []eval.Item{{ID: "q1", Question: "Which is better?"}},
		Judges: []eval.Judge{{Name: "strict", Provider: "openai", Model: "gpt-5-mini"}},
		Single: &eval.Single{
			Criteria: []eval.Criterion{{Name: "clarity"}, {Name: "rigour"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1,
		},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
		JSON:     eval.JSONAuto,
	}
	texts := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		text := "The text of " + name + "."
		hash := eval.TextHash(text)
		texts[hash] = text
		plan.Documents = append(plan.Documents, eval.Document{
			ID: name + ".md", Candidate: name, Hash: hash, Bytes: len(text),
		})
	}
	plan.Normalize()
	return Evaluation{
		ID: plan.ID(), Plan: plan, Created: epoch,
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry},
		Phases:   []record.Phase{{Kind: eval.KindSingle, Runs: 4}, {Kind: eval.KindPairwise, Runs: 12}},
	}, maps.All(texts)
}

// verdict is the entry of a pairwise run of phase 1 that ended well with one
// call.
func verdict(index int) record.Entry {
	first, second := "a", "b"
	if index%2 == 1 {
		first, second = second, first
	}
	at := epoch.Add(time.Duration(index) * time.Second)
	cost := 0.25
	return record.Entry{
		Run: &record.Run{
			Phase: 1, Index: index, Kind: eval.KindPairwise, State: "succeeded", Queue: "openai",
			Judge: "strict", Model: "openai:gpt-5-mini", AnsweredBy: "openai:gpt-5-mini-2026", Item: "q1",
			Documents: []string{first + ".md", second + ".md"}, Candidates: []string{first, second}, Trial: 1,
			Winner: "a.md", Reason: fmt.Sprintf("Reason %d.", index),
			Attempts: 1, Started: at, Ended: at.Add(time.Second), Worker: "w7k2p9qa",
		},
		Calls: []record.Call{call(1, index, 0, 1, func(c *record.Call) {
			c.Text, c.Finish, c.Status = `{"winner_doc_id":"a.md"}`, "stop", 200
			c.Usage.Reported, c.Usage.Input, c.Usage.Output, c.Usage.CostUSD = true, 900, 40, &cost
		})},
	}
}

// failure is the entry of a pairwise run of phase 1 that failed with one call.
func failure(index, generation int) record.Entry {
	e := verdict(index)
	r := e.Run
	r.Generation, r.State, r.AnsweredBy, r.Winner, r.Reason = generation, "failed", "", "", ""
	r.Class, r.Error = "timeout", "timeout: no answer in 2m0s"
	e.Calls = []record.Call{call(1, index, generation, 1, func(c *record.Call) {
		c.Class, c.Error, c.MaybeBill = "timeout", r.Error, true
	})}
	return e
}

// scores is the entry of a single run of phase 0.
func scores(index int) record.Entry {
	name := string(rune('a' + index))
	e := verdict(index)
	r := e.Run
	r.Phase, r.Kind, r.Winner, r.Reason = 0, eval.KindSingle, "", ""
	r.Documents, r.Candidates = []string{name + ".md"}, []string{name}
	r.Scores = []record.Score{{Criterion: "rigour", Score: 2.5, Reason: "Loose."}, {Criterion: "clarity", Score: 4, Reason: "Clear."}}
	e.Calls = []record.Call{call(0, index, 0, 1, func(c *record.Call) {
		c.Status = 200
		c.Usage.Reported, c.Usage.Input, c.Usage.Output = true, 500, 60
	})}
	return e
}

func call(phase, index, generation, n int, change func(*record.Call)) record.Call {
	at := epoch.Add(time.Duration(index) * time.Second)
	c := record.Call{
		ID:    fmt.Sprintf("%d.%d.%d-w7k2p9qa-%d", phase, index, generation, n),
		Phase: phase, Index: index, Generation: generation, Stage: "verdict", Model: "openai:gpt-5-mini", Attempt: n,
		Asked: at, Started: at, Ended: at.Add(time.Second), Worker: "w7k2p9qa",
	}
	change(&c)
	return c
}

func verdicts(n int) []record.Entry {
	entries := make([]record.Entry, n)
	for i := range entries {
		entries[i] = verdict(i)
	}
	return entries
}

// kinds are the kinds of results stores, each a place where none is yet.
var kinds = map[string]func(testing.TB) string{"sqlite": newPath}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "results.db")
}

// openStore opens url and stores essays in it.
func openStore(t testing.TB, url string) (Store, Evaluation) {
	t.Helper()
	db, err := Open(context.Background(), url)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close sink: %v", err)
		}
	})
	e, texts := essays()
	if err := db.PutEvaluation(context.Background(), e, texts); err != nil {
		t.Fatalf("store evaluation: %v", err)
	}
	return db, e
}

func mustAppend(t testing.TB, db Store, id eval.ID, entries ...record.Entry) {
	t.Helper()
	if err := db.Append(t.Context(), id, entries); err != nil {
		t.Fatalf("append: %v", err)
	}
}

func mustCollect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	rows, err := collect(seq)
	if err != nil {
		t.Fatalf("read rows: %v", err)
	}
	return rows
}

// wantVerdicts checks that the results store holds exactly the first n verdicts and their
// calls.
func wantVerdicts(t testing.TB, r Reader, id eval.ID, n int) {
	t.Helper()
	pairs := mustCollect(t, r.PairwiseRows(context.Background(), id))
	runs := mustCollect(t, r.Runs(context.Background(), id))
	if len(pairs) != n || len(runs) != n {
		t.Fatalf("got %d verdicts of %d runs, want %d of %d", len(pairs), len(runs), n, n)
	}
	for i, run := range runs {
		if run.Index != i || pairs[i].Index != i || run.Used.Calls != 1 || pairs[i].Reason != fmt.Sprintf("Reason %d.", i) {
			t.Fatalf("row %d: got run %d with %d calls, verdict %d %q", i, run.Index, run.Used.Calls, pairs[i].Index, pairs[i].Reason)
		}
	}
}
