package ledger

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	k := New(nil, nil)
	for i := range 20 {
		o, err := store.Encode("ev-a", eval.StateSucceeded, record.Run{Index: i}, []record.Call{{Text: strings.Repeat("x", keptBytes/10)}})
		if err != nil {
			t.Fatal(err)
		}
		k.Put(o, time.Time{}, store.Entry{})
	}
	if k.bytes > keptBytes || len(k.outcomes) != 9 || k.outcomes[8].Run().Index != 19 {
		t.Errorf("%d outcomes of %d bytes are kept, want the last 9", len(k.outcomes), k.bytes)
	}
}

// An outcome is in a results store when its entry has left the stream, by the memory that has
// acknowledged it alone: the stream of another may never have had the entry.
func TestStoredByItsMemoryAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		acknowledged, now store.Memory
		want              bool
	}{
		{"m", "m", true},
		{"m", "another", false},
		{"", "m", false},
		{"", "", true}, // an embedded Redis, which ends with its process
	} {
		o := keptOutcome{entry: store.Entry{Memory: c.acknowledged}}
		if got := o.stored(store.Entry{Memory: c.now}); got != c.want {
			t.Errorf("acknowledged in memory %q and nothing waits in %q: stored is %t, want %t", c.acknowledged, c.now, got, c.want)
		}
	}
}

// The progress of a run is kept once. What a pull read from a Redis that had lost it does not replace it; what became of
// it does, and the outcome ends it. A job that it had before has ended.
func TestKeptProgress(t *testing.T) {
	t.Parallel()
	task := record.Task{Evaluation: "ev-a", Phase: 0, Index: 3}
	answered := store.Progress{Attempts: 1, Answers: 1, Answer: "prose", Writer: "a-1", Found: "a-0"}
	job := store.Progress{Job: &record.Job{ID: "job"}, Writer: "a-0"}
	for name, test := range map[string]struct {
		saved []store.Progress
		want  store.Progress
		over  string
	}{
		"its job's answer": {[]store.Progress{job, answered}, answered, "job"},
		"read after a loss": {
			[]store.Progress{answered, {Writer: "b-1"}, {Attempts: 1, Writer: "b-2", Found: "b-1"}}, answered, "",
		},
		"one call fewer, counted anew": {
			[]store.Progress{answered, {Answers: 1, Cooled: 1, Writer: "b-1", Found: "a-1"}},
			store.Progress{Answers: 1, Cooled: 1, Writer: "b-1", Found: "a-1"}, "",
		},
		"as far, of another worker": {
			[]store.Progress{answered, {Attempts: 2, Answers: 1, Writer: "b-2", Found: "b-1"}},
			store.Progress{Attempts: 2, Answers: 1, Writer: "b-2", Found: "b-1"}, "",
		},
	} {
		k := New(nil, nil)
		for _, p := range test.saved {
			k.PutProgress(task, p, time.Time{}, "")
		}
		kept := k.progress[task.RunID()]
		if n, _ := k.Kept(); n != 1 || !reflect.DeepEqual(kept.progress.Progress, test.want) || kept.progress.over != test.over {
			t.Errorf("%s: kept %d times, as %+v; want once, as %+v, after job %q", name, n, kept.progress, test.want, test.over)
		}
		o, err := store.Encode(task.Evaluation, eval.StateSucceeded, record.Run{Index: 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.Put(o, time.Time{}, store.Entry{})
		if n, _ := k.Kept(); n != 1 || len(k.progress) != 0 {
			t.Errorf("%s: %d items and %d runs' progress are kept after the outcome, want the outcome", name, n, len(k.progress))
		}
	}

	k := New(nil, nil)
	k.PutProgress(task, store.Progress{Writer: "a-1", NotBefore: time.Now()}, time.Time{}, "")
	if n, bytes := k.Kept(); n != 0 || bytes != 0 {
		t.Errorf("%d items of %d bytes are kept of a run without a call", n, bytes)
	}
	for i := range 20 {
		task.Index = i
		k.PutProgress(task, store.Progress{Attempts: 1, Answer: strings.Repeat("x", keptBytes/10)}, time.Time{}, "")
	}
	if n, bytes := k.Kept(); n != 9 || bytes > keptBytes || len(k.progress) != 9 || k.progress[task.RunID()] == nil {
		t.Errorf("%d items of %d bytes, and the progress of %d runs, are kept; want the last 9", n, bytes, len(k.progress))
	}
}
