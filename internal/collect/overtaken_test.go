package collect

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// before is a client's hook that does something once, before one of the commands that the client sends.
type before struct {
	left atomic.Int64 // commands until then
	do   func()
}

func (b *before) count() {
	if b.left.Add(-1) == 0 {
		b.do()
	}
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.count()
		return next(ctx, cmd)
	}
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.count()
		return next(ctx, cmds)
	}
}

// TestFlushBeforeAnyCommand flushes Redis before the first, second, third … command of everything that collects or
// submits an evaluation that Redis has. Either nothing notices, or the error says that the evaluation is gone, after
// which `enqueue --wait` submits it again.
func TestFlushBeforeAnyCommand(t *testing.T) {
	t.Parallel()
	e, texts := pairOf("overtaken")
	s := enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}
	for name, act := range map[string]func(context.Context, *Fleet) error{
		"open": func(ctx context.Context, f *Fleet) error {
			_, db, err := f.OpenEvaluation(ctx, e.ID())
			if err == nil {
				err = db.Close()
			}
			return err
		},
		"collect": func(ctx context.Context, f *Fleet) error { _, err := f.Once(ctx, e.ID()); return err },
		"follow":  func(ctx context.Context, f *Fleet) error { _, err := f.Follow(ctx, e.ID()); return err },
		"submit":  func(ctx context.Context, f *Fleet) error { _, _, err := f.Submit(ctx, s, nil); return err },
	} {
		for n := range int64(25) { // more than any but follow sends, which sends without end
			t.Run(fmt.Sprintf("%s, %d", name, n+1), func(t *testing.T) {
				if name == "follow" && n >= 4 { // it notices a flush after seconds
					testrun.Slow(t)
				}
				t.Parallel()
				server := redistest.New(t)
				client, hook := server.Client(), &before{do: func() { server.Client().FlushAll(t.Context()) }}
				client.AddHook(hook)
				url := "sqlite://" + filepath.Join(t.TempDir(), "results.db")
				f := &Fleet{
					Store: store.New(client, ""), Log: zerolog.Nop(),
					Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) { return results.Open(ctx, url) },
				}
				if _, _, err := f.Submit(t.Context(), s, nil); err != nil {
					t.Fatal(err)
				}

				hook.left.Store(n + 1)
				err := act(t.Context(), f)
				if err != nil && !errors.Is(err, store.ErrNoEvaluation) && !errors.Is(err, results.ErrNoEvaluation) {
					t.Error(err)
				}
			})
		}
	}
}
