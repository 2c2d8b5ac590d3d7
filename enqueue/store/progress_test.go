package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Progress is saved by one pull after the other, and never by one that has not read
// what another has saved since.
func TestProgressIsSavedByTheCurrentPull(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx, r := t.Context(), create(t, s)
		task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
		pull := func(writer string) Progress {
			t.Helper()
			checked, err := s.Check(ctx, task)
			if err != nil {
				t.Fatal(err)
			}
			p := checked.Progress
			p.Writer = writer
			return p
		}
		save := func(p Progress, want error, calls ...record.Call) {
			t.Helper()
			if _, err := s.SaveProgress(ctx, task, p, calls); !errors.Is(err, want) {
				t.Errorf("saved by %s after %q: %v, want %v", p.Writer, p.Found, err, want)
			}
		}
		old, current := pull("old-1"), pull("new-1")
		current.Attempts, current.Job = 2, &record.Job{ID: "job-2"}
		save(current, nil)
		save(current, nil)
		old.Attempts, old.Job = 7, &record.Job{ID: "job-1"}
		save(old, ErrTaken, record.Call{ID: "paid"})
		next := pull("new-2")
		if next.Found != "new-1" || next.Attempts != 2 || next.Job == nil || next.Job.ID != "job-2" {
			t.Errorf("the next pull reads %+v, want what the current one saved", next)
		}
		save(next, nil)
		save(current, ErrTaken)
		var calls []string
		for _, e := range s.entries(t, r.ID) {
			for _, c := range e.Calls {
				calls = append(calls, c.ID)
			}
		}
		if !cmp.Equal(calls, []string{"paid"}) {
			t.Errorf("calls %v are kept, want that of the pull that was refused", calls)
		}
	})
}

// A job that Redis has forgotten comes back to its run, unless the run goes on without it.
func TestForgottenJobComesBack(t *testing.T) {
	t.Parallel()
	job := record.Job{ID: "job-1", Call: record.Call{Index: 1, Attempt: 2}}
	for name, test := range map[string]struct {
		saved *Progress // by a pull since the record is there; nil: nothing
		want  bool
	}{
		"nothing was saved":          {want: true},
		"a pull waits for a limit":   {saved: &Progress{NotBefore: time.UnixMilli(1767323045000), Delay: time.Minute}, want: true},
		"the run has it already":     {saved: &Progress{Attempts: 4, Job: &record.Job{ID: "job-1"}}, want: true},
		"the run has another job":    {saved: &Progress{Job: &record.Job{ID: "job-2"}}},
		"a pull submits another":     {saved: &Progress{Submitting: time.UnixMilli(1767323045000)}},
		"its model has failed since": {saved: &Progress{Attempts: 1}},
		"it has answered since":      {saved: &Progress{Answers: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx, r := t.Context(), create(t, s)
				task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
				pull := Progress{Writer: "pull-1"}
				if test.saved != nil {
					pull = *test.saved
					pull.Writer = "pull-1"
					if _, err := s.SaveProgress(ctx, task, pull, nil); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					if got, err := s.RestoreJob(ctx, r.ID, job); err != nil || got != test.want {
						t.Errorf("RestoreJob = %v, %v; want %v", got, err, test.want)
					}
				}
				checked, err := s.Check(ctx, task)
				if err != nil {
					t.Fatal(err)
				}
				has := checked.Progress.Job
				if got := has != nil && has.ID == job.ID; got != test.want {
					t.Errorf("the run has job %+v, want the forgotten one: %v", has, test.want)
				}
				if test.saved != nil && test.saved.Job != nil && checked.Progress.Attempts != test.saved.Attempts {
					t.Errorf("%d attempts, want the %d that were saved", checked.Progress.Attempts, test.saved.Attempts)
				}
				pull.Attempts++
				_, err = s.SaveProgress(ctx, task, pull, nil)
				if loses := test.want && (test.saved == nil || test.saved.Job == nil); errors.Is(err, ErrTaken) != loses {
					t.Errorf("the pull that had the run saves with %v; want ErrTaken: %v", err, loses)
				}
			})
		})
	}
}
