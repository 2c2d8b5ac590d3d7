package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
)

// A worker that read an evaluation before one of its phases was chosen, and missed the announcement, executes the
// phase's runs all the same.
func TestRunOfAPhaseChosenSince(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(9, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.8}
	})
	ctx := t.Context()
	before := evaluations.New(b.store)
	old, err := before.Load(ctx, b.id)
	if err != nil {
		t.Fatal(err)
	}
	revision := func() record.Revision {
		t.Helper()
		revisions, err := b.store.Revisions(ctx, []eval.ID{b.id})
		if err != nil {
			t.Fatal(err)
		}
		return revisions[b.id]
	}
	task := func(phase int) record.Task {
		return record.Task{Evaluation: b.id, Phase: phase, Kind: eval.KindPairwise}
	}
	if _, _, err := before.Find(ctx, task(1), revision()); !errors.Is(err, evaluations.ErrNoRun) {
		t.Errorf("a run of an open phase: %v, want %v", err, evaluations.ErrNoRun)
	}
	stop := b.start(b.config())
	defer stop()
	b.waitFor("the first round has ended", func(s store.Standing) bool {
		return s.Total(eval.StateSucceeded) == old.Plans[0].Runs()
	})
	choose := func(_ context.Context, e *eval.Evaluation, r record.Evaluation, phase int) (*plan.Choice, error) {
		return plan.Choose(e, phase, r.Choices(), plan.Found{Abilities: make([]float64, len(e.Documents))})
	}
	if chosen, err := b.enqueuer().Choose(ctx, b.id, choose); err != nil || !chosen {
		t.Fatalf("Choose = %v, %v", chosen, err)
	}
	if e, run, err := before.Find(ctx, task(1), revision()); err != nil || e.Plans[1].Open() || run != e.Plans[1].Run(0) {
		t.Errorf("a run of the phase chosen since: %+v, %v", run, err)
	}
	b.waitFor("the second round has ended", func(s store.Standing) bool {
		return s.Total(eval.StateSucceeded) == old.Plans[0].Runs()+old.Plans[1].Runs()
	})
}
