package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// An evaluation that was being collected is lost, whichever read of Redis notices it first.
func TestLostWhileCollecting(t *testing.T) {
	t.Parallel()
	f := &Connection{Dir: "out"}
	for _, cause := range []error{results.ErrNoEvaluation, store.ErrNoEvaluation} {
		err := f.lost(collect.Outcome{Record: record.Evaluation{ID: "ev-a"}}, fmt.Errorf("ev-a: %w", cause))
		var lost *LostError
		if kind := failure.KindOf(err); kind != failure.Unavailable || !errors.As(err, &lost) || lost.Dir != "out" {
			t.Errorf("%v: got %v of kind %d, want a LostError of out of kind %d", cause, err, kind, failure.Unavailable)
		}
	}
}

// submitAnswered submits the evaluation of two documents in dir, and records all its runs, as workers do. No worker marks
// it as done.
func submitAnswered(t *testing.T, f *Connection, dir string) eval.ID {
	t.Helper()
	receipt, err := f.Submit(t.Context(), submission(t, dir), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Store.Evaluation(t.Context(), receipt.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range receipt.Runs {
		run := record.Run{
			Index: i, Kind: eval.KindPairwise, Queue: r.QueueNames()[0], Winner: "a.md", Trial: 1,
			Documents: []string{"a.md", "b.md"}, Candidates: []string{"a.md", "b.md"},
			Judge: "simulator:careful", Model: "simulator:careful", AnsweredBy: "simulator:careful",
			Attempts: 1, Started: time.Now(), Ended: time.Now(),
		}
		if _, err := f.Store.Record(t.Context(), receipt.ID, eval.StateSucceeded, run, nil); err != nil {
			t.Fatal(err)
		}
	}
	return receipt.ID
}

// A process that has collected all results stores who won, although no worker has marked the evaluation as done yet.
func TestWinnerIsStoredBeforeAWorkerNoticesTheEnd(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]bool{"once": false, "follow": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ended := t.TempDir(), 0
			var said bytes.Buffer
			f := &Connection{
				Store: store.New(redistest.New(t).Client(), ""), Dir: filepath.Join(dir, "out"),
				Ended:  func(*report.Report, string, []string) error { ended++; return nil },
				Screen: terminal.New(&said), Log: zerolog.Nop(),
			}
			id := submitAnswered(t, f, dir)

			if err := f.Collect(t.Context(), id, follow); err != nil {
				t.Fatal(err)
			}
			r, err := f.Store.Evaluation(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != record.StatusDone || r.Result == nil || ended != 1 {
				t.Errorf("its record says %s with result %v, and its report was shown %d times; want a result, shown once\n%s",
					r.Status, r.Result, ended, &said)
			}
			if left := f.Store.Client().TTL(t.Context(), f.Store.Keys().Record(id)).Val(); left <= 0 {
				t.Errorf("its record expires in %v, want a time", left)
			}
		})
	}
}

// Collecting all goes on past an evaluation whose folder another process uses, and names it at the end.
func TestCollectingGoesOnPastAFolderInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	var said bytes.Buffer
	f := &Connection{Store: store.New(redistest.New(t).Client(), ""), Screen: terminal.New(&said), Log: zerolog.Nop()}
	ids := map[eval.ID]bool{}
	for _, dir := range []string{"first", "second", "third"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		ids[submitAnswered(t, f, dir)] = true
	}
	listed, err := f.Store.Evaluations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	used := listed[0] // it is collected first
	r, err := f.Store.Evaluation(t.Context(), used)
	if err != nil {
		t.Fatal(err)
	}
	other, err := outdir.Open(f.FolderOf(r))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	err = f.Collect(t.Context(), "", false)
	if kind := failure.KindOf(err); kind == failure.Unforeseen || !errors.Is(err, outdir.ErrInUse) || !strings.HasPrefix(err.Error(), string(used)+": ") {
		t.Errorf("collecting ended with %v of kind %d, want an error that names %s", err, kind, used)
	}
	for id := range ids {
		r, err := f.Store.Evaluation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if collected := r.Result != nil; collected == (id == used) {
			t.Errorf("%s is collected: %t", id, collected)
		}
	}
}
