package collect

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// followersOf is of an empty Redis. What they say is in the buffer.
func followersOf(t *testing.T) (*followers, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	return newFollowers(&Collector{Store: store.New(redistest.New(t).Client(), ""), Log: zerolog.New(&said)}), &said
}

func TestFollowersSayOnceThatTheyCannotDrain(t *testing.T) {
	t.Parallel()
	f, said := followersOf(t)
	for range 3 {
		f.say("ev-a", errors.New("the results store is away"))
		f.say("ev-b", errors.New("the results store is full"))
	}
	f.again("ev-a")
	f.again("ev-a")
	f.again("ev-c") // without a fact about it
	f.say("ev-a", errors.New("the results store is away"))
	var got []string
	for line := range strings.Lines(said.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	const not, again = "cannot drain results; retrying", "draining results again"
	want := []string{
		`{"level":"warn","evaluation":"ev-a","error":"the results store is away","message":"` + not + `"}`,
		`{"level":"warn","evaluation":"ev-b","error":"the results store is full","message":"` + not + `"}`,
		`{"level":"info","evaluation":"ev-a","message":"` + again + `"}`,
		`{"level":"warn","evaluation":"ev-a","error":"the results store is away","message":"` + not + `"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

// What is to be drained is taken once, even if it ended before the first look, and
// once more when failed runs of it are retried.
func TestFollowersTakeWhatIsToBeDrained(t *testing.T) {
	t.Parallel()
	f, _ := followersOf(t)
	ctx, keys := t.Context(), f.Store.Keys()
	const queue = "p"
	put := func(id eval.ID, status record.Status, active bool, ended string, waiting bool) {
		t.Helper()
		pipe := f.Store.Client().TxPipeline()
		pipe.SAdd(ctx, keys.Evaluations(), string(id))
		pipe.HSet(ctx, keys.Record(id), "v", record.EvaluationVersion, "status", string(status))
		pipe.HSet(ctx, keys.Counts(id), record.CountField(0, eval.StateFailed, queue), ended)
		if active {
			pipe.SAdd(ctx, keys.Active(), string(id))
		}
		pipe.Del(ctx, keys.Results(id))
		if waiting {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(id), Values: []string{"v", "1"}})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what string, want ...eval.ID) {
		t.Helper()
		got, err := f.findDue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		sorted := cmp.Transformer("sorted", func(ids []eval.ID) map[eval.ID]bool {
			set := map[eval.ID]bool{}
			for _, id := range ids {
				set[id] = true
			}
			return set
		})
		if diff := cmp.Diff(want, got, sorted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	put("ev-going", record.StatusActive, true, "1", false)
	put("ev-ended", record.StatusDone, false, "4", true)
	put("ev-drained", record.StatusDone, false, "4", false)
	put("ev-paused", record.StatusPaused, true, "0", false)
	wants("at first", "ev-going", "ev-ended")
	f.swept = time.Now().Add(time.Hour) // all are not looked at again
	wants("while they are drained")

	end := func(id eval.ID) {
		f.end(ctx, id, false)
		delete(f.busy, id)
	}
	put("ev-going", record.StatusActive, true, "6", false)
	end("ev-going")
	wants("before it is known to be done")
	put("ev-going", record.StatusActive, true, "5", false) // a failed one is retried
	wants("when a run is made again", "ev-going")
	put("ev-drained", record.StatusCancelled, false, "4", true)
	wants("when a call has ended late, before all are looked at")
	f.swept = time.Now().Add(-sweepEvery - time.Second)
	wants("when a call has ended late", "ev-drained")
}

// An evaluation that is submitted and ends between two looks is taken at the next one, and so is
// one that did while the connection that announces it was lost.
func TestFollowersTakeWhatEndedBetweenLooks(t *testing.T) {
	t.Parallel()
	f, _ := followersOf(t)
	ctx, keys, client := t.Context(), f.Store.Keys(), f.Store.Client()
	listening, stop := context.WithCancel(ctx)
	var listens sync.WaitGroup
	listens.Go(func() { f.listen(listening) })
	defer listens.Wait()
	defer stop()
	put := func(id eval.ID) {
		t.Helper()
		pipe := client.TxPipeline()
		pipe.SAdd(ctx, keys.Evaluations(), string(id))
		pipe.HSet(ctx, keys.Record(id), "v", record.EvaluationVersion, "status", string(record.StatusDone))
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(id), Values: []string{"v", "1"}})
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	f.swept = time.Now().Add(time.Hour) // all are looked at for no other reason
	takes := func(id eval.ID) {
		t.Helper()
		testrun.Eventually(t, string(id)+" is taken", func() bool {
			ids, err := f.findDue(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Contains(ids, id)
		})
	}
	testrun.Eventually(t, "it listens", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.missed
	})
	if ids, err := f.findDue(ctx); err != nil || len(ids) > 0 {
		t.Fatalf("at first took %v, %v; want nothing", ids, err)
	}
	put("ev-short")
	if err := f.Store.Activate(ctx, "ev-short"); err != nil {
		t.Fatal(err)
	}
	if err := f.Store.Deactivate(ctx, "ev-short"); err != nil {
		t.Fatal(err)
	}
	takes("ev-short")

	if err := client.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	put("ev-missed")
	takes("ev-missed")
}

// An evaluation that ended without a result in its record, because the process that
// collected it died, is taken by another, unless one that lives may still write it.
func TestFollowersConcludeWhatAnotherLeft(t *testing.T) {
	t.Parallel()
	f, _ := followersOf(t)
	ctx, keys := t.Context(), f.Store.Keys()
	put := func(id eval.ID, status record.Status, result ...any) {
		t.Helper()
		f.Store.Client().SAdd(ctx, keys.Evaluations(), string(id))
		f.Store.Client().HSet(ctx, keys.Record(id), append([]any{"v", record.EvaluationVersion, "status", string(status)}, result...)...)
	}
	put("ev-left", record.StatusDone)
	put("ev-cancelled", record.StatusCancelled)
	put("ev-concluded", record.StatusDone, "result", "{}")
	put("ev-paused", record.StatusPaused)
	looks := func() []eval.ID {
		t.Helper()
		f.swept = time.Time{}
		ids, err := f.findDue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for range 2 {
		if got := looks(); len(got) > 0 {
			t.Errorf("without Conclude: took %v", got)
		}
	}
	f.Conclude = func(context.Context, Outcome, results.Store) error { return nil }
	if got := looks(); len(got) > 0 {
		t.Errorf("at first took %v", got)
	}
	if diff := cmp.Diff([]eval.ID{"ev-cancelled", "ev-left"}, looks()); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
	for _, id := range []eval.ID{"ev-cancelled", "ev-left"} {
		f.end(ctx, id, false)
		delete(f.busy, id)
	}
	for range 2 {
		if got := looks(); len(got) > 0 {
			t.Errorf("after their end took %v", got)
		}
	}
}

// A restarted controller does not take an evaluation again if its early end was handled before,
// because it would rewrite the files. It takes one whose end was not handled, and one with
// results that wait.
func TestFollowersLeaveWhatEndedEarly(t *testing.T) {
	t.Parallel()
	f, _ := followersOf(t)
	f.Conclude = func(context.Context, Outcome, results.Store) error { return nil }
	ctx, keys := t.Context(), f.Store.Keys()
	put := func(id eval.ID, status record.Status, more ...any) {
		t.Helper()
		f.Store.Client().SAdd(ctx, keys.Evaluations(), string(id))
		f.Store.Client().HSet(ctx, keys.Record(id), append([]any{"v", record.EvaluationVersion, "status", string(status)}, more...)...)
	}
	put("ev-handled", record.StatusPaused, "stopped", record.StoppedByUntil, "result", "{}")
	put("ev-late", record.StatusPaused, "stopped", record.StoppedByUntil, "result", "{}")
	f.Store.Client().XAdd(ctx, &redis.XAddArgs{Stream: keys.Results("ev-late"), Values: []string{"v", "1"}})
	put("ev-left", record.StatusPaused, "stopped", record.StoppedByUntil)
	got, err := f.findDue(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]eval.ID{"ev-late", "ev-left"}, got); diff != "" {
		t.Errorf("took (-want +got):\n%s", diff)
	}
	put("ev-handled", record.StatusActive, "stopped", "")
	f.swept = time.Time{}
	if got, err = f.findDue(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]eval.ID{"ev-handled"}, got); diff != "" {
		t.Errorf("took after it was resumed (-want +got):\n%s", diff)
	}
}

// An evaluation that could not be followed to its end is followed again, although nothing
// of it waits any more: its end may not be stored yet.
func TestFollowersComeBackToWhatFailed(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, _ := followersOf(t)
	f.Stays = true
	ctx, keys := t.Context(), f.Store.Keys()
	const id = eval.ID("ev-unfinished")
	f.Store.Client().SAdd(ctx, keys.Evaluations(), string(id))
	f.Store.Client().HSet(ctx, keys.Record(id), "v", record.EvaluationVersion, "status", string(record.StatusDone), "sink", "known")
	f.Store.Client().XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(id), Values: []string{"v", "1"}})
	takes := func() bool {
		t.Helper()
		ids, err := f.findDue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(ids, id)
	}
	f.swept = time.Time{}
	if !takes() {
		t.Fatal("it is not followed, though results wait")
	}
	if err := f.one(ctx, id); err != nil { // it has no plan
		t.Fatal(err)
	}
	f.Store.Client().Del(ctx, keys.Results(id))
	if !takes() {
		t.Error("it failed and is not followed again")
	}
	if takes() {
		t.Error("it is followed twice at once")
	}
}
