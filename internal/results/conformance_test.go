package results

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

func TestStores(t *testing.T) {
	t.Parallel()
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testStore(t, newURL)
		})
	}
}

// testStore is what every kind of results store promises. newURL names a place where no
// results store is yet.
func testStore(t *testing.T, newURL func(testing.TB) string) {
	for name, test := range map[string]func(*testing.T, string){
		"identity stays":           testIdentity,
		"evaluation round trip":    testEvaluation,
		"evaluation stored again":  testEvaluationAgain,
		"evaluation cancelled":     testCancelled,
		"evaluation stopped":       testStoppedByFleet,
		"missing text":             testMissingText,
		"unknown evaluation":       testUnknownEvaluation,
		"generations":              testGenerations,
		"verdict follows its run":  testVerdictFollowsRun,
		"entries twice":            testTwice,
		"all or nothing":           testAllOrNothing,
		"stopped in a transaction": testStoppedInTransaction,
		"order of rows":            testOrderOfRows,
		"any text round trip":      testAnyText,
		"counts and states":        testCounts,
		"calls summed":             testCalls,
		"one run":                  testOneRun,
		"jobs":                     testJobs,
		"search":                   testSearch,
		"search while appended":    testSearchAppended,
		"search bounded":           testSearchBounded,
		"responses":                testResponses,
		"answers of prompts":       testPromptAnswers,
		"opinions of a panel":      testPanel,
		"votes":                    testVotes,
		"votes of the page":        testPageVotes,
		"votes at once":            testVotesAtOnce,
		"tables":                   testTables,
		"table of answers":         testTableOfAnswers,
		"waits by limit":           testWaits,
		"statistics":               testStatistics,
		"pace":                     testPace,
		"totals":                   testTotals,
		"progress":                 testProgress,
		"outlays":                  testOutlays,
		"timeline":                 testTimeline,
		"answered and cancelled":   testAnsweredAndCancelled,
		"median latency":           testMedianLatency,
		"calls begun":              testCallsBegun,
		"spent":                    testSpent,
		"answered before":          testAnswered,
		"choices":                  testChoices,
		"two writers":              testTwoWriters,
		"reading while written to": testReadWhileWritten,
		"opened at once":           testOpenedAtOnce,
		"stored at once":           testStoredAtOnce,
		"stopped in the middle":    testStopped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newURL(t))
		})
	}
}

func testIdentity(t *testing.T, url string) {
	ctx := context.Background()
	ids := map[string]bool{}
	for range 2 {
		db, err := Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		ids[db.ID()] = true
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := OpenReadOnly(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	ids[reader.ID()] = true
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("got identities %v, want one", slices.Collect(maps.Keys(ids)))
	}
}

func testEvaluation(t *testing.T, url string) {
	ctx := context.Background()
	db, want := openStore(t, url)
	got, err := db.Evaluation(ctx, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evaluation changed (-want +got):\n%s", diff)
	}
	if got.Plan.ID() != want.ID {
		t.Errorf("the stored plan's id is %s, want %s", got.Plan.ID(), want.ID)
	}
	_, texts := essays()
	for hash, text := range texts {
		if got, err := db.Text(ctx, hash); err != nil || got != text {
			t.Errorf("text of %s: got %q, %v, want %q", hash, got, err, text)
		}
	}
	if err := db.Finish(ctx, want.ID, epoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	list, err := db.Evaluations(ctx)
	wantList := []Listed{{ID: want.ID, Name: "essays", Created: epoch, Finished: epoch.Add(time.Hour)}}
	if diff := cmp.Diff(wantList, list); diff != "" || err != nil {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
}

func testEvaluationAgain(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	if err := db.Finish(ctx, e.ID, epoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	again, _ := essays()
	again.Created = epoch.Add(2 * time.Hour)
	again.Settings.Priority = 7
	again.Phases = append(again.Phases, record.Phase{Kind: eval.KindPairwise, Runs: 3})
	noTexts := func(func(string, string) bool) {}
	if err := db.PutEvaluation(ctx, again, noTexts); err != nil {
		t.Fatalf("store again without texts: %v", err)
	}
	want := again
	want.Created, want.Finished = epoch, epoch.Add(time.Hour)
	got, err := db.Evaluation(ctx, e.ID)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("stored again: %v (-want +got):\n%s", err, diff)
	}
}

func testMissingText(t *testing.T, url string) {
	ctx := context.Background()
	db, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	e, texts := essays()
	fewer := maps.Collect(texts)
	delete(fewer, e.Plan.Documents[2].Hash)
	if err := db.PutEvaluation(ctx, e, maps.All(fewer)); err == nil {
		t.Error("an evaluation without one of its texts was stored")
	}
	fewer[e.Plan.Documents[2].Hash] = "another text"
	if err := db.PutEvaluation(ctx, e, maps.All(fewer)); err == nil {
		t.Error("a text was stored under a hash that is not its own")
	}
	if list, err := db.Evaluations(ctx); len(list) != 0 || err != nil {
		t.Errorf("something was stored: %v, %v", list, err)
	}
}

func testUnknownEvaluation(t *testing.T, url string) {
	ctx := context.Background()
	db, _ := openStore(t, url)
	const unknown = eval.ID("ev-aaaaaaaaaaaa")
	_, readErr := db.Evaluation(ctx, unknown)
	for name, err := range map[string]error{
		"read":   readErr,
		"append": db.Append(ctx, unknown, []record.Entry{verdict(0)}),
		"finish": db.Finish(ctx, unknown, epoch),
	} {
		if !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("%s: got %v, want ErrNoEvaluation", name, err)
		}
	}
	if rows := mustCollect(t, db.Runs(ctx, unknown)); len(rows) != 0 {
		t.Errorf("got %d runs of an unknown evaluation", len(rows))
	}
}

func testGenerations(t *testing.T, url string) {
	type run struct {
		state      string
		generation int
	}
	db, e := openStore(t, url)
	for index, test := range []struct {
		name       string
		came, want []run // in order; one is kept
	}{
		{"success is kept", []run{{"succeeded", 0}, {"failed", 0}}, []run{{"succeeded", 0}}},
		{"success replaces failure", []run{{"failed", 0}, {"succeeded", 0}}, []run{{"succeeded", 0}}},
		{"cancelled is kept", []run{{"cancelled", 0}, {"failed", 0}, {"succeeded", 0}}, []run{{"cancelled", 0}}},
		{"failure keeps its first row", []run{{"failed", 0}, {"cancelled", 0}}, []run{{"failed", 0}}},
		{"higher generation replaces success", []run{{"succeeded", 0}, {"failed", 1}}, []run{{"failed", 1}}},
		{"older success changes nothing", []run{{"failed", 1}, {"succeeded", 0}}, []run{{"failed", 1}}},
		{"a retry", []run{{"failed", 0}, {"failed", 1}, {"succeeded", 2}, {"failed", 1}}, []run{{"succeeded", 2}}},
	} {
		for _, came := range test.came {
			entry := verdict(index)
			entry.Run.State, entry.Run.Generation = came.state, came.generation
			mustAppend(t, db, e.ID, entry)
		}
		var got []run
		for _, state := range mustCollect(t, db.States(context.Background(), e.ID, 1)) {
			if state.Index == index {
				got = append(got, run{state.State.String(), state.Generation})
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func testVerdictFollowsRun(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	mustAppend(t, db, e.ID, verdict(0), scores(0))
	other := verdict(0)
	other.Run.Winner, other.Run.Reason = "b.md", "A late duplicate."
	mustAppend(t, db, e.ID, other)
	if rows := mustCollect(t, db.PairwiseRows(ctx, e.ID)); len(rows) != 1 || rows[0].Winner != "a.md" {
		t.Errorf("after a duplicate: got %+v, want the first verdict", rows)
	}
	again := scores(0)
	again.Run.Generation, again.Run.Scores = 1, again.Run.Scores[:1]
	mustAppend(t, db, e.ID, failure(0, 1), again)
	if rows := mustCollect(t, db.PairwiseRows(ctx, e.ID)); len(rows) != 0 {
		t.Errorf("after a failure of a higher generation: got %+v, want no verdict", rows)
	}
	if rows := mustCollect(t, db.SingleRows(ctx, e.ID)); len(rows) != 1 || rows[0].Criterion != "rigour" {
		t.Errorf("after other scores of a higher generation: got %+v, want those alone", rows)
	}
	better := verdict(0)
	better.Run.Generation, better.Run.Winner = 1, eval.Tie
	mustAppend(t, db, e.ID, better)
	if rows := mustCollect(t, db.PairwiseRows(ctx, e.ID)); len(rows) != 1 || rows[0].Winner != eval.Tie {
		t.Errorf("after success over failure: got %+v, want the tie", rows)
	}
}

func testTwice(t *testing.T, url string) {
	db, e := openStore(t, url)
	entries := verdicts(20)
	mustAppend(t, db, e.ID, entries...)
	mustAppend(t, db, e.ID, entries[5:]...)
	mustAppend(t, db, e.ID, append(slices.Clone(entries), entries...)...)
	wantVerdicts(t, db, e.ID, 20)
}

func testAllOrNothing(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := db.Append(ended, e.ID, verdicts(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("append with an ended context: got %v, want context.Canceled", err)
	}
	wantVerdicts(t, db, e.ID, 0)
	mustAppend(t, db, e.ID)
	wantVerdicts(t, db, e.ID, 0)
}

func testOrderOfRows(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	for _, i := range []int{10, 2, 0, 11, 9, 1} {
		mustAppend(t, db, e.ID, verdict(i))
	}
	mustAppend(t, db, e.ID, scores(1), scores(0))
	var pairs, runs []string
	for _, row := range mustCollect(t, db.PairwiseRows(ctx, e.ID)) {
		pairs = append(pairs, shortID(row.Phase, row.Index)+row.Order)
	}
	for _, row := range mustCollect(t, db.Runs(ctx, e.ID)) {
		runs = append(runs, shortID(row.Phase, row.Index))
	}
	var singles []string
	for _, row := range mustCollect(t, db.SingleRows(ctx, e.ID)) {
		singles = append(singles, shortID(row.Phase, row.Index)+row.Criterion)
	}
	for _, test := range []struct{ got, want []string }{
		{pairs, []string{"1.0forward", "1.1reverse", "1.2forward", "1.9reverse", "1.10forward", "1.11reverse"}},
		{runs, []string{"0.0", "0.1", "1.0", "1.1", "1.2", "1.9", "1.10", "1.11"}},
		{singles, []string{"0.0clarity", "0.0rigour", "0.1clarity", "0.1rigour"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	}
}

func testAnyText(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	const text = "line one\r\nline \"two\", 'three'\t\x00 = ? $1 \\ %s 🦉 \u2028 \xff\xc0 ␛ ␛00 ␛␛\x00"
	entry := verdict(0)
	entry.Run.Reason, entry.Run.Documents[0], entry.Run.Item = text, text, text
	entry.Calls[0].Text = text
	entry.Calls[0].Grounding = &providers.Grounding{Queries: []string{"␛ \x00"}}
	mustAppend(t, db, e.ID, entry)
	rows := mustCollect(t, db.PairwiseRows(ctx, e.ID))
	if len(rows) != 1 || rows[0].Reason != text || rows[0].Document1 != text || rows[0].Item != text {
		t.Errorf("got %+v, want %q in reason, doc_id_1 and item", rows, text)
	}
	calls := mustCollect(t, db.Calls(ctx, eval.RunID{Evaluation: e.ID, Phase: 1}))
	if diff := cmp.Diff(entry.Calls, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func testCounts(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	cancelled := failure(4, 2)
	cancelled.Run.State, cancelled.Run.Class = "cancelled", "cancelled"
	malformed := failure(3, 1)
	malformed.Run.Class = "malformed"
	mustAppend(t, db, e.ID, scores(0), verdict(0), verdict(1), failure(2, 0), malformed, cancelled)

	counts, err := db.Counts(ctx, e.ID)
	want := []PhaseCounts{
		{Phase: 0, Kind: eval.KindSingle, Runs: 4, Succeeded: 1, Classes: map[string]int{}},
		{
			Phase: 1, Kind: eval.KindPairwise, Runs: 12, Succeeded: 2, Failed: 2, Cancelled: 1,
			Classes: map[string]int{"timeout": 1, "malformed": 1},
		},
	}
	if diff := cmp.Diff(want, counts); diff != "" || err != nil {
		t.Errorf("counts: %v (-want +got):\n%s", err, diff)
	}
	states := mustCollect(t, db.States(ctx, e.ID, 1))
	wantStates := []RunState{
		{0, eval.StateSucceeded, 0},
		{1, eval.StateSucceeded, 0},
		{2, eval.StateFailed, 0},
		{3, eval.StateFailed, 1},
		{4, eval.StateCancelled, 2},
	}
	if diff := cmp.Diff(wantStates, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	failed := mustCollect(t, db.Runs(ctx, e.ID, eval.StateFailed))
	if len(failed) != 2 || failed[0].Index != 2 || failed[1].Class != "malformed" {
		t.Errorf("failed runs: got %+v, want 1.2 and 1.3", failed)
	}
	if ended := mustCollect(t, db.Runs(ctx, e.ID, eval.StateFailed, eval.StateCancelled)); len(ended) != 3 {
		t.Errorf("failed and cancelled runs: got %d, want 3", len(ended))
	}
}

func testCalls(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	refused := call(1, 1, 0, 2, func(c *record.Call) { c.Class, c.Status = "rate_limited", 429 })
	repair := call(1, 1, 0, 3, func(c *record.Call) {
		c.Stage = "repair"
		c.Usage.Reported, c.Usage.Input, c.Usage.Output, c.Usage.Cached, c.Usage.Reasoning = true, 10, 5, 3, 2
		cost, read, write := 0.001, 0.1, 1.25
		c.Usage.Written, c.Usage.CostUSD = 4, &cost
		c.Price = &providers.Price{Rates: providers.Rates{Input: 1, CachedInput: &read, CacheWrite: &write}}
	})
	retried := verdict(1)
	retried.Calls = append(retried.Calls, refused, repair)
	identical := verdict(5)
	identical.Calls = nil
	discarded := record.Entry{Calls: []record.Call{call(1, 9, 0, 1, func(c *record.Call) { c.Status = 200 })}}
	mustAppend(t, db, e.ID, verdict(0), retried, failure(2, 0), identical, discarded)

	totals, err := db.CallTotals(ctx, e.ID)
	want := []CallTotal{
		{
			Model: "openai:gpt-5-mini", Stage: "repair", Errors: map[string]int{},
			// Three tokens cost 0.9 less, and four cost 0.25 more.
			Usage: Usage{Calls: 1, Input: 10, Output: 5, Cached: 3, Written: 4, Reasoning: 2, CostUSD: 0.001, SavedUSD: 1.7e-6},
		},
		{
			Model: "openai:gpt-5-mini", Stage: "verdict", Errors: map[string]int{"timeout": 1, "rate_limited": 1},
			// Unknown are the timeout, possibly charged, and the discarded answer.
			Usage: Usage{Calls: 5, Input: 1800, Output: 80, Unreported: 2, CostUSD: 0.5, Unpriced: 2},
		},
	}
	if diff := cmp.Diff(want, totals); diff != "" || err != nil {
		t.Errorf("totals: %v (-want +got):\n%s", err, diff)
	}
	used := map[int]Usage{}
	for _, run := range mustCollect(t, db.Runs(ctx, e.ID)) {
		used[run.Index] = run.Used
	}
	wantUsed := map[int]Usage{
		0: {Calls: 1, Input: 900, Output: 40, CostUSD: 0.25},
		1: {Calls: 3, Input: 910, Output: 45, Cached: 3, Written: 4, Reasoning: 2, CostUSD: 0.251, SavedUSD: 1.7e-6},
		2: {Calls: 1, Unreported: 1, Unpriced: 1},
		5: {},
	}
	if diff := cmp.Diff(wantUsed, used); diff != "" {
		t.Errorf("used by each run (-want +got):\n%s", diff)
	}
}

// A write whose context ends fails with the context's error, whatever package sql says of its
// transaction: a command that is interrupted then says so, and ends with 130.
func testStoppedInTransaction(t *testing.T, url string) {
	db, _ := openStore(t, url)
	for _, last := range []string{"a commit", "a statement"} {
		ctx, stop := context.WithCancel(t.Context())
		err := db.(*store).transact(ctx, "change", func(of *transaction) (err error) {
			stop()
			testrun.Eventually(t, "the transaction to be rolled back", func() bool {
				_, err = of.tx.ExecContext(t.Context(), "SELECT 1")
				return errors.Is(err, sql.ErrTxDone)
			})
			if last == "a commit" {
				return nil
			}
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("before %s: got %v, want context.Canceled", last, err)
		}
	}
}
