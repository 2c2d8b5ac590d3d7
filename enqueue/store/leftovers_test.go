package store

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Results that are written after a cancelled evaluation was given an end go with its
// record, also when they make the stream.
func TestResultsGoWithTheRecord(t *testing.T) {
	t.Parallel()
	calls := []record.Call{{ID: "0.0.0-w-1"}}
	for name, write := range map[string]func(t *testing.T, s *Store, id eval.ID) error{
		"outcome": func(t *testing.T, s *Store, id eval.ID) error {
			encoded, err := Encode(id, eval.StateFailed, outcome(0, 0), calls)
			if err != nil {
				return err
			}
			done, err := s.Put(t.Context(), encoded)
			if done.Once || !done.Cancelled {
				t.Errorf("Record = %+v, want it cancelled", done)
			}
			return err
		},
		"calls": func(t *testing.T, s *Store, id eval.ID) error {
			_, err := s.AppendCalls(t.Context(), id, calls)
			return err
		},
		"progress": func(t *testing.T, s *Store, id eval.ID) error {
			_, err := s.SaveProgress(t.Context(), record.Task{Evaluation: id}, Progress{}, calls)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				r := create(t, s)
				if _, err := s.Cancel(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if err := s.Expire(t.Context(), r.ID); err != nil {
					t.Fatal(err)
				}
				if err := write(t, s, r.ID); err != nil {
					t.Fatal(err)
				}
				if n := s.client.XLen(t.Context(), s.keys.Results(r.ID)).Val(); n != 1 {
					t.Errorf("%d entries, want 1", n)
				}
				if left := s.client.PTTL(t.Context(), s.keys.Results(r.ID)).Val(); left <= 0 || left > endedLife {
					t.Errorf("the stream is kept for %s, want the record's time", left)
				}
			})
		})
	}
}

// An evaluation is given an end once it has ended: by the process that drained it, and by ExpireEnded
// only where that was left out and nothing waits.
func TestExpire(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		lasts := func() time.Duration { return s.client.PTTL(t.Context(), s.keys.Record(r.ID)).Val() }
		if err := s.Expire(t.Context(), r.ID); err != nil || lasts() > 0 {
			t.Errorf("an active evaluation is kept for %s, %v; want without an end", lasts(), err)
		}
		if _, err := s.AppendCalls(t.Context(), r.ID, []record.Call{{ID: "x"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if ends, err := s.ExpireEnded(t.Context(), r.ID); err != nil || ends || lasts() > 0 {
			t.Errorf("while a result waits: %v, %v, kept for %s; want without an end", ends, err, lasts())
		}
		s.client.Del(t.Context(), s.keys.Results(r.ID))
		if ends, err := s.ExpireEnded(t.Context(), r.ID); err != nil || !ends || lasts() <= 0 {
			t.Errorf("afterwards: %v, %v, kept for %s; want an end", ends, err, lasts())
		}
		s.client.Expire(t.Context(), s.keys.Record(r.ID), time.Hour)
		if ends, err := s.ExpireEnded(t.Context(), r.ID); err != nil || !ends || lasts() > time.Hour {
			t.Errorf("once more: %v, %v, kept for %s; want the hour that was set", ends, err, lasts())
		}
	})
}

// An evaluation whose best candidates are known has ended, too; resumed, it is kept again. One
// that is paused for another reason is kept all along.
func TestExpireEndedEarly(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		for _, tt := range []struct {
			why  string
			ends bool
		}{{"", false}, {record.StoppedByBudget, false}, {record.StoppedByUntil, true}} {
			if status, err := s.Pause(t.Context(), r.ID, tt.why); err != nil || status != record.StatusPaused {
				t.Fatalf("Pause = %s, %v", status, err)
			}
			if ends, err := s.ExpireEnded(t.Context(), r.ID); err != nil || ends != tt.ends {
				t.Errorf("stopped by %q: %v, %v; want an end: %t", tt.why, ends, err, tt.ends)
			}
			uses, err := s.Uses(t.Context(), []eval.ID{r.ID})
			if err != nil || uses[r.ID].Stopped != tt.why || uses[r.ID].Status != record.StatusPaused {
				t.Errorf("Uses = %+v, %v", uses[r.ID], err)
			}
			if status, err := s.Resume(t.Context(), r); err != nil || status != record.StatusActive {
				t.Fatalf("Resume = %s, %v", status, err)
			}
			for _, key := range s.keysOf(r) {
				if s.client.Exists(t.Context(), key).Val() > 0 && s.client.PTTL(t.Context(), key).Val() > 0 {
					t.Errorf("stopped by %q and resumed: %s has an end", tt.why, key)
				}
			}
		}
	})
}

// What Vacate removes has no record; where there is one, all stays and is listed.
func TestVacate(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		save := func(index int, p Progress) {
			t.Helper()
			if _, err := s.SaveProgress(t.Context(), record.Task{Evaluation: r.ID, Index: index}, p, []record.Call{{ID: "x"}}); err != nil {
				t.Fatal(err)
			}
		}
		save(0, Progress{Attempts: 1})
		save(1, Progress{Job: &record.Job{ID: "job"}})
		before := s.everything(t)
		if err := s.Vacate(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		if after := s.everything(t); len(after) != len(before) || !s.client.SIsMember(t.Context(), s.keys.Evaluations(), string(r.ID)).Val() {
			t.Errorf("with a record: %d keys of %d are left", len(after), len(before))
		}
		s.client.Del(t.Context(), s.keys.Record(r.ID))
		if err := s.Vacate(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		job := eval.RunID{Evaluation: r.ID, Index: 1}
		for key, want := range map[string]int64{
			s.keys.Results(r.ID): 0, s.keys.Progress(eval.RunID{Evaluation: r.ID}): 0, s.keys.Evaluations(): 0,
			s.keys.Progress(job): 1, s.keys.InProgress(r.ID): 1,
		} {
			if n := s.client.Exists(t.Context(), key).Val(); n != want {
				t.Errorf("%s: %d, want %d", key, n, want)
			}
		}
	})
}

// Which queues evaluations use is read of every record that can be read.
func TestUses(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		r := create(t, s)
		s.client.HSet(t.Context(), s.keys.Record("ev-newer"), fieldVersion, record.EvaluationVersionExtended+1, fieldStatus, "active")
		s.client.Set(t.Context(), s.keys.Record("ev-broken"), "text", 0)
		uses, err := s.Uses(t.Context(), []eval.ID{r.ID, "ev-gone", "ev-newer", "ev-broken"})
		if err != nil {
			t.Fatal(err)
		}
		if use := uses[r.ID]; use.Gone() || use.Status != record.StatusActive || len(use.Queues) != 1 || use.Queues[0] != queue {
			t.Errorf("use = %+v", use)
		}
		if !uses["ev-gone"].Gone() || uses["ev-newer"].Gone() || uses["ev-broken"].Gone() {
			t.Errorf("gone: %v, %v, %v; want the first alone", uses["ev-gone"].Gone(), uses["ev-newer"].Gone(), uses["ev-broken"].Gone())
		}
	})
}
