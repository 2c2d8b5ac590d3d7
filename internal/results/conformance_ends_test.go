package results

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
)

// A cancellation is stored once, applies to every process that opens the results store, and
// ends when the evaluation resumes.
func testCancelled(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	noTexts := func(func(string, string) bool) {}
	want := func(step string, at time.Time) {
		t.Helper()
		got, err := db.Evaluation(ctx, e.ID)
		list, listErr := db.Evaluations(ctx)
		if err != nil || listErr != nil || len(list) != 1 || !got.Cancelled.Equal(at) || !list[0].Cancelled.Equal(at) {
			t.Errorf("%s: cancelled at %s, in the list %+v, %v, %v; want %s", step, got.Cancelled, list, err, listErr, at)
		}
	}
	cancel := func(at time.Time) {
		t.Helper()
		if err := db.Cancel(ctx, e.ID, at); err != nil {
			t.Fatal(err)
		}
	}
	put := func(at time.Time) {
		t.Helper()
		e.Cancelled = at
		if err := db.PutEvaluation(ctx, e, noTexts); err != nil {
			t.Fatal(err)
		}
	}
	want("never", time.Time{})
	cancel(epoch.Add(time.Minute))
	cancel(epoch.Add(time.Hour))
	want("twice", epoch.Add(time.Minute))
	put(epoch.Add(2 * time.Hour))
	want("stored again as cancelled", epoch.Add(time.Minute))
	put(time.Time{})
	want("going on", time.Time{})
	cancel(epoch.Add(3 * time.Hour))
	want("again", epoch.Add(3*time.Hour))
	if err := db.Cancel(ctx, "ev-222222222222", epoch); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("an evaluation that is not stored: got %v, want ErrNoEvaluation", err)
	}
}

// The reason for a stop is kept with the evaluation until it resumes. A later stop replaces
// it.
func testStoppedByFleet(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	want := func(step string, why *Stop) {
		t.Helper()
		got, err := db.Evaluation(ctx, e.ID)
		list, listErr := db.Evaluations(ctx)
		if err != nil || listErr != nil || len(list) != 1 || cmp.Diff(why, got.Stopped) != "" || cmp.Diff(why, list[0].Stopped) != "" {
			t.Errorf("%s: stopped %+v, in the list %+v, %v, %v; want %+v", step, got.Stopped, list, err, listErr, why)
		}
	}
	put := func(why *Stop) {
		t.Helper()
		e.Stopped = why
		if err := db.PutEvaluation(ctx, e, func(func(string, string) bool) {}); err != nil {
			t.Fatal(err)
		}
	}
	stop := func(why Stop) {
		t.Helper()
		if err := db.Stop(ctx, e.ID, why); err != nil {
			t.Fatal(err)
		}
	}
	budget := &Stop{At: epoch, Budget: 2_000_000_000, Spent: 1_990_000_000}
	paused := &Stop{At: epoch, Paused: map[string]record.Pause{"openai": {Class: providers.Auth, Message: "no \"key\"", At: epoch}}}
	want("never", nil)
	put(nil)
	want("stored again", nil)
	stop(*budget)
	want("by its budget", budget)
	put(budget)
	want("stored again as stopped", budget)
	put(nil)
	want("going on", nil)
	stop(*paused)
	want("by a pause", paused)
	if got, _ := db.Evaluation(ctx, e.ID); !got.Cancelled.IsZero() {
		t.Errorf("it is cancelled at %s", got.Cancelled)
	}
	if err := db.Cancel(ctx, e.ID, epoch); err != nil {
		t.Fatal(err)
	}
	want("cancelled", nil)
	if err := db.Stop(ctx, "ev-222222222222", *budget); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("an evaluation that is not stored: got %v, want ErrNoEvaluation", err)
	}
}
