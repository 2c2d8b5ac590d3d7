package fleet

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// An evaluation that its submitter collects names the submitter's results store from the first:
// a controller that looks before the submitter has begun to collect leaves it alone. Without a
// submitter that waits, the first that collects has the results.
func TestSubmitterThatWaitsHasTheResults(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	s := submission(t, dir)
	client := redistest.New(t).Client()
	for _, waits := range []bool{false, true} {
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		d := &Connection{
			Store: store.New(client, ""), Dir: filepath.Join(dir, "out"),
			Screen: terminal.New(io.Discard), Log: zerolog.Nop(),
		}
		receipt, err := d.Submit(ctx, s, Options{Waits: waits})
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Store.Evaluation(ctx, receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if owned := r.ResultsID != ""; owned != waits {
			t.Errorf("submitted by one that waits: %v; results store in the record: %q", waits, r.ResultsID)
		}
		if !waits {
			continue
		}
		own, err := d.Open(context.WithoutCancel(ctx), r)
		if err != nil {
			t.Fatal(err)
		}
		if own.ID() != r.ResultsID {
			t.Errorf("the record names the results store %q, and the submitter's is %q", r.ResultsID, own.ID())
		}
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// submission is one of two documents in dir.
func submission(t *testing.T, dir string) *config.Submission {
	t.Helper()
	for name, text := range map[string]string{"a.md": "One.", "b.md": "Two."} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := config.InputAt(dir).Load([]string{"simulator:careful"}, config.Options{ForFleet: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A submission succeeds once the evaluation is stored, although another process, as a controller,
// holds the output folder. One that waits, waits for that process.
func TestSubmissionBesideAController(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	s := submission(t, dir)
	id := s.Evaluation.ID()
	s.Settings.Limits = append(s.Settings.Limits, ratelimit.Budget(string(id), ratelimit.Dollar))
	client := redistest.New(t).Client()
	var said bytes.Buffer
	d := &Connection{
		Store: store.New(client, ""), Dir: filepath.Join(dir, "out"),
		Screen: terminal.New(&said), Log: zerolog.Nop(),
	}
	if _, err := d.Submit(ctx, s, Options{}); err != nil {
		t.Fatal(err)
	}
	controller, err := outdir.Open(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Limits().ForgetSpent(ctx, string(id)); err != nil { // its budget is closed until results are collected
		t.Fatal(err)
	}

	receipt, err := d.Submit(ctx, s, Options{})
	if err != nil || receipt.ID != id {
		t.Errorf("submitted again beside a controller: receipt of %q, error %v; want %s", receipt.ID, err, id)
	}
	if !strings.Contains(said.String(), "is in use by another evalfleet") {
		t.Errorf("the submission says %q, want that the folder is in use", said.String())
	}

	// Only now: the evaluation ends for the one that waits.
	said.Reset()
	if _, err := d.Enqueuer().Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	stayed := make(chan error, 1)
	go func() {
		_, err := d.Stay(ctx, s, id, Options{})
		stayed <- err
	}()
	select {
	case err := <-stayed:
		t.Errorf("the submitter ended beside the controller: %v", err)
	case <-time.After(folderTime / 2):
	}
	if err := controller.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-stayed; !collect.IsEnding(err) {
		t.Errorf("the submitter ended with %v, want that the evaluation was cancelled", err)
	}
}
