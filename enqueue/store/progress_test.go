package store

import (
	"errors"
	"testing"

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
