package collect

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Redis loses an evaluation that a results store has. Once it is submitted again, no other
// results store can drain it, even if its own cannot be written to for a while.
func TestResultsStayInOneStoreAfterALoss(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t)
	at := func(name string) func(context.Context, record.Evaluation) (results.Store, error) {
		url := "sqlite://" + filepath.Join(t.TempDir(), name+".db")
		return func(ctx context.Context, _ record.Evaluation) (results.Store, error) { return results.Open(ctx, url) }
	}
	fleet := func(open func(context.Context, record.Evaluation) (results.Store, error)) *Collector {
		return &Collector{Store: store.New(server.Client(), ""), Open: open, Log: zerolog.Nop()}
	}
	own, other := at("own"), at("other")
	e, texts := pairOf("lost")
	s := enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}
	if _, _, err := fleet(own).Submit(ctx, s, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet(own).Once(ctx, e.ID()); err != nil {
		t.Fatal(err)
	}
	if err := server.Client().FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	db, err := own(ctx, record.Evaluation{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fleet(own).Submit(ctx, s, db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet(other).Once(ctx, e.ID()); !errors.Is(err, results.ErrOtherStore) {
		t.Errorf("another results store drains the evaluation: %v, want ErrOtherStore", err)
	}
	if _, err := fleet(own).Once(ctx, e.ID()); err != nil {
		t.Errorf("its own results store: %v", err)
	}
}
