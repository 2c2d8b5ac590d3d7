package results

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// bestOf is an evaluation whose second phase compares the best n by score.
func bestOf(n int) (Evaluation, func(func(string, string) bool)) {
	e, texts := essays()
	e.Plan.Pairwise.TopN = n
	e.ID = e.Plan.ID()
	e.Phases[1].Open = true
	return e, texts
}

// The documents of a phase are stored once, by the first process, permanently.
func testChoices(t *testing.T, url string) {
	ctx := context.Background()
	db, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e, texts := bestOf(2)
	chosen := record.Phase{Kind: eval.KindPairwise, Runs: 2, Chosen: true, Choice: &plan.Choice{Documents: []int{1, 3}}}
	if _, err := db.Choose(ctx, e.ID, 1, chosen); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("before the evaluation is stored: %v, want %v", err, ErrNoEvaluation)
	}
	want := e
	for range 2 { // open, and stored again so
		if err := db.PutEvaluation(ctx, e, texts); err != nil {
			t.Fatal(err)
		}
		if got, err := db.Evaluation(ctx, e.ID); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("open: %v (-want +got):\n%s", err, cmp.Diff(want, got))
		}
	}

	stored := make([]*plan.Choice, 8)
	var writers sync.WaitGroup
	for i := range stored {
		writers.Go(func() {
			of := chosen
			of.Choice = &plan.Choice{Documents: []int{i % 3, 3}}
			var err error
			if stored[i], err = db.Choose(ctx, e.ID, 1, of); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	for _, choice := range stored {
		if diff := cmp.Diff(stored[0], choice); diff != "" {
			t.Errorf("two choices are stored:\n%s", diff)
		}
	}
	want.Phases = []record.Phase{e.Phases[0], chosen}
	want.Phases[1].Choice = stored[0]
	if got, err := db.Evaluation(ctx, e.ID); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("chosen: %v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	// Stored again, as at every submission, also with a choice of its own.
	again := want
	again.Phases = []record.Phase{e.Phases[0], chosen}
	again.Phases[1].Choice = &plan.Choice{Documents: []int{0, 1}}
	if err := db.PutEvaluation(ctx, again, texts); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Evaluation(ctx, e.ID); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("stored again: %v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}
