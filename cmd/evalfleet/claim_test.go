package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/internal/terminal"
	"github.com/evalfleet/evalfleet/store"
)

// An evaluation that its submitter collects names the submitter's results store from the first:
// a controller that looks before the submitter has begun to collect leaves it alone. Without a
// submitter that waits, the first that collects has the results.
func TestSubmitterThatWaitsHasTheResults(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	for name, text := range map[string]string{"a.md": "One.", "b.md": "Two."} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := config.FolderSubmission(dir, []string{"simulator:careful"}, config.Options{ForFleet: true})
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.New(t).Client()
	for _, waits := range []bool{false, true} {
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		d := &drain{
			client: client, store: store.New(client, ""), waits: waits, dir: filepath.Join(dir, "out"),
			console: terminal.New(io.Discard), log: zerolog.Nop(),
		}
		receipt, err := d.submit(ctx, s, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.store.Evaluation(ctx, receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if owned := r.Sink != ""; owned != waits {
			t.Errorf("submitted by one that waits: %v; results store in the record: %q", waits, r.Sink)
		}
		if !waits {
			continue
		}
		own, err := d.open(context.WithoutCancel(ctx), r)
		if err != nil {
			t.Fatal(err)
		}
		if own.ID() != r.Sink {
			t.Errorf("the record names the results store %q, and the submitter's is %q", r.Sink, own.ID())
		}
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
