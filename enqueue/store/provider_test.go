package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// The tasks of a provider that is paused for an evaluation are dropped, and those
// of its others are not, until the evaluation is resumed or submitted anew.
func TestPausedProvider(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		verdict := func(model string) Verdict {
			t.Helper()
			got, err := s.Check(ctx, record.Task{Evaluation: r.ID, Kind: eval.KindPairwise, Model: model})
			if err != nil {
				t.Fatal(err)
			}
			return got.Verdict
		}
		if _, err := s.Advance(ctx, r, record.CursorField(0, queue, false), 0, 2); err != nil {
			t.Fatal(err)
		}
		why := record.Pause{Class: providers.Auth, Message: `a "wrong" key: sk-…/`, At: time.UnixMilli(1).UTC()}
		if _, first, err := s.PauseProvider(ctx, r.ID, "a", why); err != nil || !first {
			t.Fatalf("PauseProvider = %v, %v; want true", first, err)
		}
		if _, first, err := s.PauseProvider(ctx, r.ID, "b", record.Pause{Class: providers.QuotaBilling}); err != nil || !first {
			t.Fatalf("PauseProvider of another = %v, %v; want true", first, err)
		}
		for model, want := range map[string]Verdict{"a:m": VerdictPaused, "b:m:2": VerdictPaused, "c:m": VerdictRun} {
			if got := verdict(model); got != want {
				t.Errorf("a task of %s is checked as %s, want %s", model, got, want)
			}
		}
		if diff := cmp.Diff(why, s.standing(t, r.ID).Paused["a"]); diff != "" {
			t.Errorf("standing (-want +got):\n%s", diff)
		}
		if read, err := s.Evaluation(ctx, r.ID); err != nil || len(read.Paused) != 2 || read.Paused["a"] != why {
			t.Errorf("record says %v, %v", read.Paused, err)
		}
		if going, err := s.Going(ctx, []eval.ID{r.ID}); err != nil || going[r.ID].Begins("a") || !going[r.ID].Begins("c") {
			t.Errorf("Going = %v, %v; want that a does not and c does", going, err)
		}
		if status, err := s.Resume(ctx, r); err != nil || status != record.StatusActive {
			t.Fatalf("Resume = %s, %v", status, err)
		}
		if got := s.standing(t, r.ID); verdict("a:m") != VerdictRun || len(got.Paused) != 0 || got.Pushed(0, queue, false) != 0 {
			t.Errorf("after resume: %s, standing %+v; want its runs pushed anew", verdict("a:m"), got)
		}
		if _, _, err := s.PauseProvider(ctx, "ev-deleted", "a", why); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("PauseProvider of a deleted evaluation: %v; want ErrNoEvaluation", err)
		}
	})
}

// Failures of one class in a row are counted by provider, whatever other providers' failures
// are between them; a success, another class, and resume restart the count.
func TestStreaksOfFailures(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		index := 0
		end := func(provider string, class providers.Class) int {
			t.Helper()
			run, state := outcome(index, 0), eval.StateFailed
			run.Model, run.Class, run.AnsweredBy = provider+":m", class, ""
			if class == "" {
				state, run.AnsweredBy = eval.StateSucceeded, provider+":m"
			}
			index++
			encoded, err := Encode(r.ID, state, run, nil)
			if err != nil {
				t.Fatal(err)
			}
			var first Recorded
			for i := range 2 { // recorded twice, counted once
				done, err := s.Put(ctx, encoded)
				if err != nil || done.Once != (i == 0) {
					t.Fatalf("Put, time %d = %+v, %v", i+1, done, err)
				}
				if i == 0 {
					first = done
				}
			}
			return first.Streak
		}
		for i, step := range []struct {
			provider string
			class    providers.Class
			want     int
		}{
			{"a", providers.Timeout, 1}, {"b", providers.Timeout, 1}, {"a", providers.Timeout, 2},
			{"a", providers.Malformed, 0}, {"a", providers.Refused, 0}, {"a", providers.Lost, 0}, {"b", "", 0},
			{"a", providers.Timeout, 3}, {"a", providers.BadRequest, 1}, {"a", providers.Timeout, 1},
			{"a", "", 0}, {"a", providers.Timeout, 1}, {"b", providers.Timeout, 1},
		} {
			if got := end(step.provider, step.class); got != step.want {
				t.Errorf("step %d: streak %d after %s %q, want %d", i, got, step.provider, step.class, step.want)
			}
		}
		if _, _, err := s.PauseProvider(ctx, r.ID, "a", record.Pause{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Resume(ctx, r); err != nil {
			t.Fatal(err)
		}
		if got := end("a", providers.Timeout); got != 1 {
			t.Errorf("streak %d after resume, want 1", got)
		}
	})
}
