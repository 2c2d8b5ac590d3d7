package collect

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
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

// TestJobsComeBackAfterALoss: a job that runs at its provider, and that only the results store knows after Redis has
// lost its memory, goes back to its run with the next submission.
func TestJobsComeBackAfterALoss(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t)
	url := "sqlite://" + filepath.Join(t.TempDir(), "results.db")
	open := func(ctx context.Context, _ record.Evaluation) (results.Store, error) { return results.Open(ctx, url) }
	f := &Collector{Store: store.New(server.Client(), ""), Open: open, Log: zerolog.Nop()}
	e, texts := pairOf("jobs")
	s := enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}
	if _, _, err := f.Submit(ctx, s, nil); err != nil {
		t.Fatal(err)
	}

	now := time.Now().UTC()
	job := record.Job{ID: "batch_1", Ends: now.Add(time.Hour), Runs: 2, To: 2, Call: record.Call{ID: "0.0.0-w-1", Model: "p:m", Asked: now, Started: now}}
	task := record.Task{Evaluation: e.ID(), Kind: eval.KindPairwise, Model: "p:m"}
	if _, err := f.Store.SaveJob(ctx, task, store.Progress{Job: &job, Started: now, Writer: "w-1"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Once(ctx, e.ID()); err != nil {
		t.Fatal(err)
	}
	if err := server.Client().FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	db, err := results.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, _, err := f.Submit(ctx, s, db); err != nil {
		t.Fatal(err)
	}
	checked, err := f.Store.Check(ctx, task)
	if err != nil || checked.Progress.Job == nil || checked.Progress.Job.ID != job.ID || checked.Progress.Job.Runs != job.Runs {
		t.Errorf("the run has the job %+v, %v; want %s", checked.Progress.Job, err, job.ID)
	}
}
