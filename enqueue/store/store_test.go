package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/text/packing"
	"github.com/evalfleet/evalfleet/providers"
)

func TestMain(m *testing.M) {
	batchTimeout = time.Hour
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler), goleak.IgnoreTopFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"))
}

const queue = "openai"

// eachRedis runs a test on the real server and on the embedded one.
func eachRedis(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, New(redistest.New(t).Client(), ""))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(redistest.Patient(&redis.Options{Addr: miniredis.RunT(t).Addr()}))
		t.Cleanup(func() { _ = client.Close() })
		test(t, New(client, ""))
	})
}

func example() (record.Evaluation, *eval.Evaluation, map[string]string) {
	texts := map[string]string{}
	e := &eval.Evaluation{
		Name: "example", Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "openai:m", Provider: "openai", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	for _, id := range []string{"a.md", "b.md"} {
		text := "the text of " + id
		e.Documents = append(e.Documents, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(text), Bytes: len(text)})
		texts[eval.TextHash(text)] = text
	}
	e.Normalize()
	r := record.Evaluation{
		ID: e.ID(), Name: e.Name, Status: record.StatusActive, Created: time.UnixMilli(1767323045000),
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry},
		Phases:   []record.Phase{{Kind: eval.KindPairwise, Runs: 2, Queues: map[string]int{queue: 2}, JudgeQueues: []string{queue}}},
	}
	return r, e, texts
}

func create(t *testing.T, s *Store, restored ...Restored) record.Evaluation {
	t.Helper()
	r, e, texts := example()
	created, err := s.Create(t.Context(), r, e, texts, restored)
	if err != nil || !created {
		t.Fatalf("Create = %v, %v; want true", created, err)
	}
	revisions, err := s.Revisions(t.Context(), []eval.ID{r.ID})
	if err != nil {
		t.Fatal(err)
	}
	r.Revision = revisions[r.ID]
	return r
}

func TestCreatedEvaluationIsReadBack(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		_, e, texts := example()
		want := create(t, s)
		if again, err := s.Create(t.Context(), want, e, texts, nil); err != nil || again {
			t.Fatalf("second Create = %v, %v; want false", again, err)
		}
		got, err := s.Evaluation(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		plan, err := s.Questions(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if plan.ID() != want.ID {
			t.Errorf("the plan's id is %s, want %s", plan.ID(), want.ID)
		}
		hash := e.Documents[1].Hash
		read, err := s.Documents(t.Context(), want.ID, hash)
		if err != nil || read[hash] != texts[hash] {
			t.Errorf("Documents = %q, %v; want %q", read[hash], err, texts[hash])
		}
		if _, err := s.Evaluation(t.Context(), "ev-missing"); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("Evaluation of a missing one: %v; want ErrNoEvaluation", err)
		}
		if ttl := s.client.TTL(t.Context(), s.keys.Plan(want.ID)).Val(); ttl > 0 {
			t.Errorf("the plan of a recorded evaluation expires in %s", ttl)
		}
	})
}

func outcome(index, generation int) record.Run {
	return record.Run{Phase: 0, Index: index, Generation: generation, Kind: eval.KindPairwise, Queue: queue}
}

func (s *Store) entries(t *testing.T, id eval.ID) []record.Entry {
	t.Helper()
	messages, err := s.client.XRange(t.Context(), s.keys.Results(id), "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]record.Entry, len(messages))
	for i, m := range messages {
		if entries[i], err = record.DecodeEntry(m.Values); err != nil {
			t.Fatal(err)
		}
	}
	return entries
}

func TestRunIsRecordedOnce(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		call := record.Call{ID: "c1", Index: 1, Class: providers.Timeout}
		steps := []struct {
			name       string
			generation int
			state      eval.State
			calls      []record.Call
			recorded   bool
			succeeded  int
			failed     int
		}{
			{"older than the run", -1, eval.StateSucceeded, nil, false, 0, 0},
			{"first outcome", 0, eval.StateFailed, []record.Call{call}, true, 0, 1},
			{"same again", 0, eval.StateFailed, []record.Call{call}, false, 0, 1},
			{"of a later generation", 1, eval.StateSucceeded, nil, false, 0, 1},
			{"success replaces failure", 0, eval.StateSucceeded, nil, true, 1, 0},
			{"failure does not replace success", 0, eval.StateFailed, nil, false, 1, 0},
			{"nor does another success", 0, eval.StateSucceeded, nil, false, 1, 0},
		}
		for _, step := range steps {
			recorded, err := s.Record(ctx, r.ID, step.state, outcome(1, step.generation), step.calls)
			if err != nil || recorded != step.recorded {
				t.Fatalf("%s: Record = %v, %v; want %v", step.name, recorded, err, step.recorded)
			}
			standings, err := s.Standings(ctx, []eval.ID{r.ID})
			if err != nil {
				t.Fatal(err)
			}
			got := standings[r.ID]
			if got.Total(eval.StateSucceeded) != step.succeeded || got.Total(eval.StateFailed) != step.failed {
				t.Fatalf("%s: counts %v; want %d succeeded, %d failed", step.name, got.Counts, step.succeeded, step.failed)
			}
		}
		runs, calls := 0, 0
		for _, e := range s.entries(t, r.ID) {
			calls += len(e.Calls)
			if e.Run != nil {
				runs++
			}
		}
		if runs != 2 || calls != 2 {
			t.Errorf("the stream holds %d runs and %d calls; want 2 (failure, then success) and 2 (paid for twice)", runs, calls)
		}
		if _, err := s.Record(ctx, "ev-deleted", eval.StateSucceeded, outcome(0, 0), nil); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("Record for a deleted evaluation: %v; want ErrNoEvaluation", err)
		}
	})
}

func TestCheckDropsWhatMayNotRun(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		task := func(index, generation int) record.Task {
			return record.Task{Evaluation: r.ID, Index: index, Generation: generation, Kind: eval.KindPairwise}
		}
		if _, err := s.Record(ctx, r.ID, eval.StateSucceeded, outcome(0, 0), nil); err != nil {
			t.Fatal(err)
		}
		saved := Progress{
			Attempts: 2, Answers: 1, Cooled: 3, NotBefore: time.UnixMilli(1767323045123), Started: time.UnixMilli(1767323040000),
			Lacked: providers.Ungrounded, Answer: "10 lines\nof prose", AnswerBy: "google:gemini-2.5-pro",
		}
		if _, err := s.SaveProgress(ctx, task(1, 0), saved, nil); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			task   record.Task
			status record.Status
			want   Verdict
		}{
			{task(1, 0), record.StatusActive, VerdictRun},
			{task(0, 0), record.StatusActive, VerdictEnded},
			{task(1, 1), record.StatusActive, VerdictEnded},
			{task(1, 0), record.StatusPaused, VerdictPaused},
			{task(1, 0), record.StatusCancelled, VerdictCancelled},
			{record.Task{Evaluation: "ev-missing"}, record.StatusActive, VerdictGone},
		} {
			if err := s.client.HSet(ctx, s.keys.Record(r.ID), fieldStatus, string(tt.status)).Err(); err != nil {
				t.Fatal(err)
			}
			got, err := s.Check(ctx, tt.task)
			if err != nil || got.Verdict != tt.want {
				t.Errorf("Check(%s) while %s = %s, %v; want %s", tt.task.ID(), tt.status, got.Verdict, err, tt.want)
			}
			if got.Verdict == VerdictRun && !cmp.Equal(got.Progress, saved) {
				t.Errorf("progress = %+v, want %+v", got.Progress, saved)
			}
		}
	})
}

func TestDeathsAreCountedOnceEach(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		id := eval.RunID{Evaluation: r.ID, Index: 1}
		for i, step := range []struct {
			worker string
			want   int
		}{{"w1", 1}, {"w1", 1}, {"w2", 2}} {
			if got, err := s.Died(t.Context(), id, 0, step.worker); err != nil || got != step.want {
				t.Fatalf("step %d: Died(%s) = %d, %v; want %d", i, step.worker, got, err, step.want)
			}
		}
		if _, err := s.Record(t.Context(), r.ID, eval.StateSucceeded, outcome(1, 0), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Died(t.Context(), id, 0, "w3"); err != nil || got != 0 {
			t.Errorf("Died for an ended run = %d, %v; want 0", got, err)
		}
	})
}

func TestCursorMovesOnlyFromWhereItStands(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		for i, step := range []struct {
			from, to int
			want     bool
		}{{0, 2, true}, {0, 2, false}, {2, 0, true}, {1, 2, false}} {
			if got, err := s.Advance(t.Context(), r, record.CursorField(0, queue, false), step.from, step.to); err != nil || got != step.want {
				t.Fatalf("step %d: Advance(%d, %d) = %v, %v; want %v", i, step.from, step.to, got, err, step.want)
			}
		}
		deleted, cursor := record.Evaluation{ID: "ev-deleted"}, record.CursorField(0, queue, false)
		if _, err := s.Advance(t.Context(), deleted, cursor, 0, 1); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("Advance for a deleted evaluation: %v; want ErrNoEvaluation", err)
		}
	})
}

// Any number of evaluations is read, also by a Redis that does not know the script.
func TestStandingsOfMany(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var ids []eval.ID
		for i := range standingsAtOnce + 5 {
			id := eval.ID(fmt.Sprint("ev-", i))
			ids = append(ids, id)
			if err := s.client.HSet(ctx, s.keys.Record(id), fieldVersion, record.EvaluationVersion, fieldStatus, "active").Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.client.HSet(ctx, s.keys.Cursors(id), record.CursorField(0, queue, false), i).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, known := range []bool{false, true} {
			got, err := s.Standings(ctx, append(ids, "ev-missing"))
			if err != nil || len(got) != len(ids)+1 || got["ev-missing"].Status != "" {
				t.Fatalf("script known %v: %d standings, %v; want %d", known, len(got), err, len(ids)+1)
			}
			for i, id := range ids {
				if got[id].Status != record.StatusActive || got[id].Pushed(0, queue, false) != i {
					t.Fatalf("script known %v: %s is at %+v, want active at %d", known, id, got[id], i)
				}
			}
		}
	})
}

func TestRestoredRunsAreNotRunAgain(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s, Restored{Index: 1, Queue: queue, State: eval.StateSucceeded})
		states, err := s.States(ctx, r.ID, 0, 0, 1)
		if err != nil || !cmp.Equal(states, []byte{0, 1}) {
			t.Fatalf("States = %v, %v; want [0 1]", states, err)
		}
		if done, err := s.Finish(ctx, r); err != nil || done {
			t.Fatalf("Finish with one run left = %v, %v; want false", done, err)
		}
		// A second submitter that read an older results store must not undo anything.
		if _, err := s.Record(ctx, r.ID, eval.StateSucceeded, outcome(0, 0), nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.restore(ctx, r, []Restored{{Index: 1, Queue: queue, State: eval.StateFailed}}); err != nil {
			t.Fatal(err)
		}
		if states, err = s.States(ctx, r.ID, 0, 0, 1); err != nil || !cmp.Equal(states, []byte{1, 1}) {
			t.Errorf("States after a late restore = %v, %v; want [1 1]", states, err)
		}
		if done, err := s.Finish(ctx, r); err != nil || !done {
			t.Errorf("Finish with every run ended = %v, %v; want true", done, err)
		}
	})
}

func TestStatesSpanChunks(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		last := record.ChunkRuns // the first of the second chunk
		for _, index := range []int{last - 1, last} {
			if _, err := s.Record(t.Context(), r.ID, eval.StateFailed, outcome(index, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.States(t.Context(), r.ID, 0, last-2, last+1)
		if err != nil || !cmp.Equal(got, []byte{0, 2, 2, 0}) {
			t.Errorf("States = %v, %v; want [0 2 2 0]", got, err)
		}
		in, err := s.StatesIn(t.Context(), r.ID, 0, [][2]int{{0, 1}, {last - 1, last - 1}, {last, last + 5}})
		if err != nil {
			t.Fatal(err)
		}
		for index, want := range map[int]byte{0: 0, 1: 0, last - 1: 2, last: 2, last + 1: 0, last + 5: 0} {
			if got := in.Of(index); got != want {
				t.Errorf("StatesIn has state %d of run %d, want %d", got, index, want)
			}
		}
	})
}

func TestHeldTellsRecordsApartAndWhatNoStoreHas(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		if held, err := s.Held(ctx, "ev-unknown"); err != nil || !held.Created.IsZero() || !held.Oldest.None() {
			t.Errorf("Held of nothing = %+v, %v", held, err)
		}
		r := create(t, s)
		read, err := s.Evaluation(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if held, err := s.Held(ctx, r.ID); err != nil || !held.Created.Equal(read.Created) || !held.Oldest.None() {
			t.Errorf("Held without results = %+v, %v; want created %s, nothing waiting", held, err, read.Created)
		}
		var entries [4]Entry
		for i := range 2 {
			encoded, err := Encode(r.ID, eval.StateSucceeded, outcome(i, 0), nil)
			if err != nil {
				t.Fatal(err)
			}
			done, err := s.Put(ctx, encoded)
			if err != nil {
				t.Fatal(err)
			}
			entries[i] = done.Entry
		}
		calls := []record.Call{{ID: "c"}}
		if entries[2], err = s.AppendCalls(ctx, r.ID, calls); err != nil {
			t.Fatal(err)
		}
		if entries[3], err = s.SaveProgress(ctx, record.Task{Evaluation: r.ID, Index: 2}, Progress{}, calls); err != nil {
			t.Fatal(err)
		}
		for i, entry := range entries {
			held, err := s.Held(ctx, r.ID)
			if err != nil || held.Oldest != entry {
				t.Errorf("Held before entry %d was stored = %+v, %v; want %v", i, held, err, entry)
			}
			if i > 0 && !entries[i-1].Before(entry) {
				t.Errorf("entry %v comes before %v", entry, entries[i-1])
			}
			stream := s.keys.Results(r.ID)
			if err := s.client.XDel(ctx, stream, s.client.XRangeN(ctx, stream, "-", "+", 1).Val()[0].ID).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What is recorded and checked at the same time, of several evaluations and
// chunks and partly twice, gets the answers that it gets one by one.
func TestTogether(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		const runs = 40
		first := record.ChunkRuns - runs/2
		task := func(i int) record.Task {
			return record.Task{Evaluation: r.ID, Index: first + i, Kind: eval.KindPairwise}
		}
		var group sync.WaitGroup
		var recordings atomic.Int64
		for i := range 3 * runs {
			group.Go(func() {
				id, index := r.ID, first+i%runs
				if i >= 2*runs {
					id = "ev-deleted"
				}
				recorded, err := s.Record(ctx, id, eval.StateSucceeded, outcome(index, 0), []record.Call{{ID: fmt.Sprint("c", i), Index: index}})
				if want := i >= 2*runs; errors.Is(err, ErrNoEvaluation) != want || err != nil != want {
					t.Errorf("Record in %s: %v", id, err)
				}
				if recorded {
					recordings.Add(1)
				}
			})
		}
		group.Wait()
		standings, err := s.Standings(ctx, []eval.ID{r.ID})
		if got := standings[r.ID].Total(eval.StateSucceeded); err != nil || got != runs || recordings.Load() != runs {
			t.Errorf("%d recorded and %d counted, %v; want %d", recordings.Load(), got, err, runs)
		}
		times, calls := map[int]int{}, 0
		for _, e := range s.entries(t, r.ID) {
			calls += len(e.Calls)
			if e.Run != nil {
				times[e.Run.Index]++
			}
		}
		for i := range runs {
			if times[first+i] != 1 {
				t.Errorf("run %d is %d times in the stream", first+i, times[first+i])
			}
		}
		if calls != 2*runs {
			t.Errorf("%d calls in the stream, want all %d", calls, 2*runs)
		}

		fresh := task(runs)
		if _, err := s.SaveProgress(ctx, fresh, Progress{Attempts: 3}, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 2 * runs {
			group.Go(func() {
				want, attempts := VerdictEnded, 0
				switch {
				case i == runs:
					want, attempts = VerdictRun, 3
				case i > runs:
					want = VerdictRun
				}
				got, err := s.Check(ctx, task(i))
				if err != nil || got.Verdict != want || got.Progress.Attempts != attempts {
					t.Errorf("Check of run %d = %s, %+v, %v; want %s with %d attempts", first+i, got.Verdict, got.Progress, err, want, attempts)
				}
			})
		}
		group.Wait()
	})
}

// A user with write access to Redis can replace a document's text. No judge is sent it.
func TestTextsAreCheckedAgainstTheirHashes(t *testing.T) {
	t.Parallel()
	s := New(redistest.New(t).Client(), "")
	r := create(t, s)
	hash := eval.TextHash("the text of a.md")
	if err := s.client.HSet(t.Context(), s.keys.Documents(r.ID), hash, packing.Pack([]byte("another text"))).Err(); err != nil {
		t.Fatal(err)
	}
	if texts, err := s.Documents(t.Context(), r.ID, hash); err == nil || !strings.Contains(err.Error(), "its hash differs") {
		t.Errorf("got %q, %v, want a refusal", texts, err)
	}
}
