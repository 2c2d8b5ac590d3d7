package collect

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestFlushBeforeAnyCommand flushes Redis before the first, second, third … command of everything that collects or
// submits an evaluation that Redis has. Either nothing notices, or the error says that the evaluation is gone, after
// which `enqueue --wait` submits it again.
func TestFlushBeforeAnyCommand(t *testing.T) {
	t.Parallel()
	e, texts := pairOf("overtaken")
	s := enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}
	for name, act := range map[string]func(context.Context, *Collector) error{
		"open": func(ctx context.Context, f *Collector) error {
			_, db, err := f.OpenEvaluation(ctx, e.ID())
			if err == nil {
				err = db.Close()
			}
			return err
		},
		"collect": func(ctx context.Context, f *Collector) error { _, err := f.Once(ctx, e.ID()); return err },
		"follow":  func(ctx context.Context, f *Collector) error { _, err := f.Follow(ctx, e.ID()); return err },
		"submit":  func(ctx context.Context, f *Collector) error { _, _, err := f.Submit(ctx, s, nil); return err },
	} {
		for n := range 25 { // more than any but follow sends, which sends without end
			t.Run(fmt.Sprintf("%s, %d", name, n+1), func(t *testing.T) {
				if name == "follow" && n >= 4 { // it notices a flush after seconds
					testrun.Slow(t)
				}
				t.Parallel()
				server := redistest.New(t)
				client, hook := server.Client(), &redistest.Meeting{Do: func() { server.Client().FlushAll(t.Context()) }}
				client.AddHook(hook)
				url := "sqlite://" + filepath.Join(t.TempDir(), "results.db")
				f := &Collector{
					Store: store.New(client, ""), Log: zerolog.Nop(),
					Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) { return results.Open(ctx, url) },
				}
				if _, _, err := f.Submit(t.Context(), s, nil); err != nil {
					t.Fatal(err)
				}

				hook.Before(n + 1)
				err := act(t.Context(), f)
				if err != nil && !errors.Is(err, store.ErrNoEvaluation) && !errors.Is(err, results.ErrNoEvaluation) {
					t.Error(err)
				}
			})
		}
	}
}
