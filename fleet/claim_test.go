package fleet

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
		d := &Connection{
			Client: client, Store: store.New(client, ""), Waits: waits, Dir: filepath.Join(dir, "out"),
			Screen: terminal.New(io.Discard), Log: zerolog.Nop(),
		}
		receipt, err := d.Submit(ctx, s, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Store.Evaluation(ctx, receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if owned := r.Sink != ""; owned != waits {
			t.Errorf("submitted by one that waits: %v; results store in the record: %q", waits, r.Sink)
		}
		if !waits {
			continue
		}
		own, err := d.Open(context.WithoutCancel(ctx), r)
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
