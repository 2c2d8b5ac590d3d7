package collect

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Redis dies between the last result and the note that the evaluation may expire: the
// collector waits for Redis, instead of failing with everything collected.
func TestFollowOutlivesRedisAtTheEnd(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	s := store.New(server.Client(), "")
	e, texts := pairOf("ended")
	id := e.ID()
	if _, _, err := (&Collector{Store: s, Log: zerolog.Nop()}).Submit(ctx, enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := s.Evaluation(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(ctx, r); err != nil {
		t.Fatal(err)
	}
	back := &startOnFailure{start: server.Start}
	client := server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	client.AddHook(back)
	f := &Collector{Store: store.New(client, ""), Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
		db, err := results.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "results.db"))
		return endStore{db, server.Kill}, err
	}}
	if outcome, err := f.Follow(ctx, id); err != nil || !outcome.Cancelled {
		t.Errorf("Follow = %+v, %v; want a cancelled evaluation", outcome, err)
	}
	if !back.started.Load() {
		t.Error("Redis was asked for nothing while it was dead")
	}
	if left := server.Client().TTL(ctx, s.Keys().Record(id)).Val(); left <= 0 {
		t.Errorf("the record expires in %v, want a time", left)
	}
}

// endStore does something when a cancelled evaluation's end is stored.
type endStore struct {
	results.Store
	do func()
}

func (s endStore) Cancel(ctx context.Context, id eval.ID, at time.Time) error {
	defer s.do()
	return s.Store.Cancel(ctx, id, at)
}

// startOnFailure starts a dead server when the first command for it has failed.
type startOnFailure struct {
	uponCommand
	start   func()
	started atomic.Bool
}

func (s *startOnFailure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if outage.Is(err) && s.started.CompareAndSwap(false, true) {
			s.start()
		}
		return err
	}
}
