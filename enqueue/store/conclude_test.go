package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// The result of an evaluation is read back once it has ended, does not make its record stay,
// and is not that of one that is active again.
func TestConclude(t *testing.T) {
	t.Parallel()
	s := New(redistest.New(t).Client(), "")
	ctx := t.Context()
	const id = eval.ID("ev-aaaaaaaaaaaa")
	key := s.keys.Record(id)
	want := record.Result{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Headline: "“a.md” is ahead."}
	read := func() *record.Result {
		t.Helper()
		r, err := s.Evaluation(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.Result
	}
	if err := s.Conclude(ctx, id, want); err != nil || s.client.Exists(ctx, key).Val() != 0 {
		t.Fatalf("without a record: %v, want none to be made", err)
	}
	for _, tt := range []struct {
		status  record.Status
		stopped string
		ended   bool
	}{
		{record.StatusActive, "", false}, {record.StatusPaused, "", false}, {record.StatusPaused, record.StoppedByBudget, false},
		{record.StatusPaused, record.StoppedByUntil, true}, {record.StatusDone, "", true}, {record.StatusCancelled, "", true},
	} {
		status, ended := tt.status, tt.ended
		if record.HasEnded(status, tt.stopped) != ended {
			t.Errorf("%s, stopped by %q: HasEnded is %t", status, tt.stopped, !ended)
		}
		s.client.Del(ctx, key)
		s.client.HSet(ctx, key, fieldVersion, record.EvaluationVersion, fieldName, "x", fieldCreated, 1, fieldStatus, string(status), fieldStopped, tt.stopped,
			fieldSettings, `{"priority":1,"retry":{"max_attempts":1}}`, fieldPhases, "[]")
		s.client.Expire(ctx, key, time.Hour)
		if err := s.Conclude(ctx, id, want); err != nil {
			t.Fatal(err)
		}
		concluded, err := s.Concluded(ctx, []eval.ID{id, "ev-bbbbbbbbbbbb"})
		if err != nil || concluded[id] != ended || concluded["ev-bbbbbbbbbbbb"] {
			t.Errorf("%s %s: concluded %v, %v", status, tt.stopped, concluded, err)
		}
		var expected *record.Result
		if ended {
			expected = &want
		}
		if diff := cmp.Diff(expected, read()); diff != "" {
			t.Errorf("%s %s: %s", status, tt.stopped, diff)
		}
		if left := s.client.TTL(ctx, key).Val(); left <= 0 {
			t.Errorf("%s: the record stays for %s", status, left)
		}
	}
	s.client.HSet(ctx, key, fieldStatus, string(record.StatusActive))
	if got := read(); got != nil {
		t.Errorf("an evaluation that is active again has the result %v", got)
	}
}

// An evaluation that becomes active again loses its result. The old one would otherwise be
// shown at its next end, and let controllers believe that this end is handled.
func TestActiveAgainHasNoResult(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(s *Store, r record.Evaluation) error{
		"resume": func(s *Store, r record.Evaluation) error {
			_, err := s.Resume(t.Context(), r)
			return err
		},
		"reopen": func(s *Store, r record.Evaluation) error {
			_, err := s.Reopen(t.Context(), r, nil)
			return err
		},
		"retry": func(s *Store, r record.Evaluation) error {
			_, err := s.Retry(t.Context(), r, 0, []Failed{{Index: 1, Queue: queue}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx := t.Context()
				r := create(t, s)
				for index, state := range []eval.State{eval.StateSucceeded, eval.StateFailed} {
					if _, err := s.Record(ctx, r.ID, state, outcome(index, 0), nil); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				if name == "resume" {
					_, err = s.Pause(ctx, r.ID, record.StoppedByUntil)
				} else {
					_, err = s.Finish(ctx, r)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Conclude(ctx, r.ID, record.Result{Headline: "“a.md” is ahead."}); err != nil {
					t.Fatal(err)
				}
				if concluded, err := s.Concluded(ctx, []eval.ID{r.ID}); err != nil || !concluded[r.ID] {
					t.Fatalf("concluded %v, %v", concluded, err)
				}
				if err := again(s, r); err != nil {
					t.Fatal(err)
				}
				if now := s.standing(t, r.ID); now.Status != record.StatusActive {
					t.Fatalf("%s, want active", now.Status)
				}
				if concluded, err := s.Concluded(ctx, []eval.ID{r.ID}); err != nil || concluded[r.ID] {
					t.Errorf("concluded %v, %v, want no result", concluded, err)
				}
			})
		})
	}
}

// A notice is sent by one process; one that dies at it leaves it to another.
func TestClaimNotice(t *testing.T) {
	t.Parallel()
	s := New(redistest.New(t).Client(), "")
	ctx := t.Context()
	claim := func(id eval.ID, notice string, want bool) {
		t.Helper()
		if got, err := s.ClaimNotice(ctx, id, notice); err != nil || got != want {
			t.Errorf("claim of %s: %v, %v, want %v", notice, got, err, want)
		}
	}
	claim("ev-a", "x", true)
	claim("ev-a", "x", false)
	claim("ev-a", "y", true)
	claim("ev-b", "x", true)
	if left := s.client.TTL(ctx, s.keys.Notice("ev-a", "x")).Val(); left <= 0 || left > noticeClaim {
		t.Errorf("a claim lasts %s, want at most %s", left, noticeClaim)
	}
	if err := s.KeepNotice(ctx, "ev-a", "x"); err != nil {
		t.Fatal(err)
	}
	if left := s.client.TTL(ctx, s.keys.Notice("ev-a", "x")).Val(); left <= noticeClaim {
		t.Errorf("a notice is known for %s, want longer than a claim", left)
	}
}
