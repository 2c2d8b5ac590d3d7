package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Progress that a process still knows replaces what Redis has of the run only if Redis is behind.
func TestRestoreProgress(t *testing.T) {
	t.Parallel()
	job := func(id string) *record.Job { return &record.Job{ID: id} }
	kept := Progress{
		Attempts: 3, Answers: 1, Answer: "prose", AnswerBy: "p:m", Started: time.UnixMilli(1000), Writer: "kept-1",
	}
	running := Progress{Attempts: 1, Job: job("ours"), Writer: "kept-1"}
	for name, test := range map[string]struct {
		has, kept Progress // has without Writer: Redis has no progress
		restored  bool
		had       string // job in Redis before
	}{
		"nothing":                   {Progress{}, kept, true, ""},
		"what a pull read after it": {Progress{Writer: "w", NotBefore: time.UnixMilli(5), Delay: 1}, kept, true, ""},
		"more calls, fewer answers": {Progress{Writer: "w", Attempts: 9}, kept, true, ""},
		"fewer calls, as many answers": {
			Progress{Writer: "w", Attempts: 2, Answers: 1, Said: []string{"other"}}, kept, true, "",
		},
		"the same":             {kept, kept, false, ""},
		"more answers":         {Progress{Writer: "w", Attempts: 2, Answers: 2}, kept, false, ""},
		"a job that has ended": {Progress{Writer: "w", Job: job("ended")}, kept, true, "ended"},
		"no job":               {Progress{Writer: "w", Attempts: 1}, running, true, ""},
		"a job that is being submitted": {
			Progress{Writer: "w", Attempts: 1, Submitting: time.UnixMilli(5)}, running, true, "",
		},
		"the job":     {running, running, false, "ours"},
		"another job": {Progress{Writer: "w", Attempts: 1, Job: job("other")}, running, false, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx, r := t.Context(), create(t, s)
				task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
				if test.has.Writer != "" {
					if _, err := s.SaveProgress(ctx, task, test.has, nil); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Died(ctx, task.RunID(), 0, "a death"); err != nil {
					t.Fatal(err)
				}

				done, err := s.RestoreProgress(ctx, task, test.kept)
				had := ""
				if done.Had != nil {
					had = done.Had.ID
				}
				if err != nil || done.Restored != test.restored || had != test.had {
					t.Errorf("restored %t instead of job %q, %v; want %t, %q", done.Restored, had, err, test.restored, test.had)
				}

				want := test.has
				if test.restored {
					want = test.kept
				}
				want.Deaths, want.Writer, want.Found = 1, "", want.Writer
				checked, err := s.Check(ctx, task)
				if diff := cmp.Diff(want, checked.Progress, cmpopts.EquateEmpty()); err != nil || diff != "" {
					t.Errorf("progress (-want +got), %v:\n%s", err, diff)
				}
				told := 0
				for _, entry := range s.entries(t, r.ID) {
					if entry.Job != nil {
						told++
					}
				}
				if wanted := test.restored && test.kept.Job != nil; (told == 1) != wanted {
					t.Errorf("the results stream tells of %d jobs; want one: %t", told, wanted)
				}
			})
		})
	}
}

// Nothing is restored for a run that has ended, and nothing of an evaluation that is gone.
func TestRestoreProgressOfAnEndedRun(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx, r := t.Context(), create(t, s)
		task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
		outcome, err := Encode(r.ID, eval.StateSucceeded, record.Run{Index: 1, Kind: eval.KindPairwise, Queue: "p"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(ctx, outcome); err != nil {
			t.Fatal(err)
		}
		done, err := s.RestoreProgress(ctx, task, Progress{Attempts: 1, Answers: 1, Writer: "kept-1"})
		if n := s.client.Exists(ctx, s.keys.Progress(task.RunID())).Val(); err != nil || !done.Ended || done.Restored || n != 0 {
			t.Errorf("got %+v, %v, and %d keys of progress; want that the run has ended", done, err, n)
		}
		s.client.FlushAll(ctx)
		if _, err := s.RestoreProgress(ctx, task, Progress{Attempts: 1, Writer: "kept-1"}); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("got %v, want that the evaluation is gone", err)
		}
		if n := s.client.DBSize(ctx).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
