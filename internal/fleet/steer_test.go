package fleet

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// TestPauseNamesBatches: a pause says how many runs are in batches that go on at their provider, and what stops them. A job
// of one run is none.
func TestPauseNamesBatches(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	d := &Connection{
		Store: store.New(redistest.New(t).Client(), ""), Dir: filepath.Join(dir, "out"),
		Screen: terminal.New(io.Discard), Log: zerolog.Nop(),
	}
	receipt, err := d.Submit(ctx, submission(t, dir), Options{})
	if err != nil {
		t.Fatal(err)
	}

	target := &Target{Connection: d, ID: receipt.ID, Name: string(receipt.ID)}
	saves := func(index int, job record.Job) {
		t.Helper()
		job.Call.Phase, job.Call.Index, job.Ends = 0, index, time.Now().Add(time.Hour)
		task := record.Task{Evaluation: receipt.ID, Index: index, Model: job.Call.Model}
		if _, err := d.Store.SaveProgress(ctx, task, store.Progress{Writer: "w-1", Job: &job}, nil); err != nil {
			t.Fatal(err)
		}
	}
	said := func() string {
		t.Helper()
		said, err := target.Pause(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}

	saves(0, record.Job{ID: "alone", Call: record.Call{Model: "p:m"}})
	if got := said(); !strings.HasSuffix(got, " is paused; resume it with `evalfleet resume "+target.Name+"`") {
		t.Errorf("without a batch, pause says %q", got)
	}
	saves(1, record.Job{ID: "b1", Runs: 40, Call: record.Call{Model: "p:m"}})
	saves(2, record.Job{ID: "b2", Runs: 2, Call: record.Call{Model: "p:m"}})
	want := "\n42 runs in 2 batches go on at the provider; `evalfleet cancel " + target.Name + "` stops them"
	if got := said(); !strings.HasSuffix(got, want) {
		t.Errorf("with two batches, pause says %q, want %q at its end", got, want)
	}
}
