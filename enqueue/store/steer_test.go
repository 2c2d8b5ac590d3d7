package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// everything is all that Redis holds, by key.
func (s *Store) everything(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range s.client.Keys(t.Context(), "*").Val() {
		if key == "{ef}:limits" {
			continue // what Redis remembers, the limiter's
		}
		switch kind := s.client.Type(t.Context(), key).Val(); kind {
		case "hash":
			fields := s.client.HGetAll(t.Context(), key).Val()
			var words []string
			for field, value := range fields {
				words = append(words, field+"="+value)
			}
			slices.Sort(words)
			all[key] = strings.Join(words, " ")
		case "string":
			all[key] = s.client.Get(t.Context(), key).Val()
		case "set":
			members := s.client.SMembers(t.Context(), key).Val()
			slices.Sort(members)
			all[key] = strings.Join(members, " ")
		default:
			all[key] = kind
		}
	}
	return all
}

// TestSteeringTwiceIsOnce: each script, sent again because its answer was lost,
// answers the same and changes nothing.
func TestSteeringTwiceIsOnce(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		if _, err := s.Record(ctx, r.ID, eval.StateFailed, outcome(1, 0), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Advance(ctx, r, record.CursorField(0, queue, false), 0, 2); err != nil {
			t.Fatal(err)
		}
		resume := func() (any, error) { return s.Resume(ctx, r) }
		task := record.Task{Evaluation: r.ID, Index: 0, Kind: eval.KindPairwise}
		for _, step := range []struct {
			name string
			do   func() (any, error)
			want [2]any
		}{
			{"progress", func() (any, error) {
				entry, err := s.SaveProgress(ctx, task, Progress{Attempts: 1}, nil)
				return entry.None(), err
			}, [2]any{true, true}},
			{"pause", func() (any, error) { return s.Pause(ctx, r.ID, record.StoppedByBudget) }, [2]any{record.StatusPaused, record.StatusPaused}},
			{"resume", resume, [2]any{record.StatusActive, record.StatusActive}},
			{"pause a provider", func() (any, error) {
				paused, first, err := s.PauseProvider(ctx, r.ID, "p", record.Pause{Class: providers.Auth})
				return [2]bool{paused, first}, err
			}, [2]any{[2]bool{true, true}, [2]bool{true, false}}},
			{"resume it", resume, [2]any{record.StatusActive, record.StatusActive}},
			{"retry", func() (any, error) { return s.Retry(ctx, r, 0, []Failed{{Index: 1, Queue: queue}}) }, [2]any{1, 0}},
			{"cancel", func() (any, error) { return s.Cancel(ctx, r) }, [2]any{record.StatusCancelled, record.StatusCancelled}},
			{"delete", func() (any, error) { return nil, s.Delete(ctx, r.ID) }, [2]any{nil, nil}},
		} {
			var after map[string]string
			for i, want := range step.want {
				got, err := step.do()
				if err != nil || got != want {
					t.Errorf("%s, time %d: %v, %v; want %v", step.name, i+1, got, err, want)
				}
				if i == 0 {
					after = s.everything(t)
				} else if diff := cmp.Diff(after, s.everything(t)); diff != "" {
					t.Errorf("%s changed something the second time (-first +second):\n%s", step.name, diff)
				}
			}
		}
		if left := s.everything(t); len(left) != 0 {
			t.Errorf("left after the deletion: %v", left)
		}
	})
}

func TestResumePushesAnew(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		if _, err := s.Advance(ctx, r, record.CursorField(0, queue, false), 0, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pause(ctx, r.ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Resume(ctx, r); err != nil {
			t.Fatal(err)
		}
		standing := s.standing(t, r.ID)
		if standing.Status != record.StatusActive || standing.Pushed(0, queue, false) != 0 {
			t.Errorf("after a pause: %+v; want it active with nothing pushed", standing)
		}
	})
}

func (s *Store) standing(t *testing.T, id eval.ID) Standing {
	t.Helper()
	standings, err := s.Standings(t.Context(), []eval.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return standings[id]
}

// TestLateOutcomesChangeNothing: a worker that was frozen comes back with the
// outcome of a run that was cancelled, retried or deleted meanwhile.
func TestLateOutcomesChangeNothing(t *testing.T) {
	t.Parallel()
	calls := []record.Call{{ID: "0.1.0-late-1", Index: 1}}
	for _, tt := range []struct {
		name  string
		steer func(ctx context.Context, s *Store, r record.Evaluation) error
		fault error // of the late record
		calls int   // of it that are kept
	}{
		{"cancelled", func(ctx context.Context, s *Store, r record.Evaluation) error {
			_, err := s.Cancel(ctx, r)
			return err
		}, nil, 1},
		{"retried", func(ctx context.Context, s *Store, r record.Evaluation) error {
			_, err := s.Retry(ctx, r, 0, []Failed{{Index: 1, Queue: queue}})
			return err
		}, nil, 1},
		{"deleted", func(ctx context.Context, s *Store, r record.Evaluation) error { return s.Delete(ctx, r.ID) }, ErrNoEvaluation, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx := t.Context()
				r := create(t, s)
				if _, err := s.Record(ctx, r.ID, eval.StateFailed, outcome(1, 0), nil); err != nil {
					t.Fatal(err)
				}
				if err := tt.steer(ctx, s, r); err != nil {
					t.Fatal(err)
				}
				before := s.everything(t)
				entries := len(s.entries(t, r.ID))
				for _, state := range []eval.State{eval.StateSucceeded, eval.StateFailed} {
					recorded, err := s.Record(ctx, r.ID, state, outcome(1, 0), calls)
					if recorded || !errors.Is(err, tt.fault) {
						t.Errorf("late %s: recorded %v, %v; want false, %v", state, recorded, err, tt.fault)
					}
				}
				if _, err := s.AppendCalls(ctx, r.ID, calls); !errors.Is(err, tt.fault) {
					t.Errorf("late calls: %v; want %v", err, tt.fault)
				}
				late := record.Task{Evaluation: r.ID, Index: 1, Kind: eval.KindPairwise}
				if _, err := s.SaveProgress(ctx, late, Progress{Attempts: 7}, calls); !errors.Is(err, tt.fault) {
					t.Errorf("late progress: %v; want %v", err, tt.fault)
				}
				if _, err := s.Advance(ctx, r, record.CursorField(0, queue, false), 1, 2); err != nil && !errors.Is(err, tt.fault) {
					t.Error(err)
				}
				if diff := cmp.Diff(before, s.everything(t)); diff != "" {
					t.Errorf("late outcomes changed something (-before +after):\n%s", diff)
				}
				if got := len(s.entries(t, r.ID)) - entries; got != 4*tt.calls {
					t.Errorf("%d late entries are kept, want %d", got, 4*tt.calls)
				}
			})
		})
	}
}

func TestRetryReopensWhatIsDone(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		for index, state := range []eval.State{eval.StateSucceeded, eval.StateFailed} {
			if _, err := s.Record(ctx, r.ID, state, outcome(index, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := s.Finish(ctx, r); err != nil || !done {
			t.Fatalf("Finish = %v, %v; want true", done, err)
		}
		if err := s.Expire(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		both := []Failed{{Index: 0, Queue: queue}, {Index: 1, Queue: queue}}
		if n, err := s.Retry(ctx, r, 0, both); err != nil || n != 1 {
			t.Fatalf("Retry = %d, %v; want only the failed one", n, err)
		}
		standing := s.standing(t, r.ID)
		if standing.Status != record.StatusActive || standing.Total(eval.StateFailed) != 0 || standing.Total(eval.StateSucceeded) != 1 {
			t.Errorf("after the retry: %+v; want it active, 1 succeeded, none failed", standing)
		}
		if states, err := s.States(ctx, r.ID, 0, 0, 1); err != nil || !cmp.Equal(states, []byte{1, 4}) {
			t.Errorf("States = %v, %v; want [1 4]", states, err)
		}
		for key := range s.everything(t) {
			if ttl := s.client.TTL(ctx, key).Val(); ttl > 0 {
				t.Errorf("%s expires in %s", key, ttl)
			}
		}
		if recorded, err := s.Record(ctx, r.ID, eval.StateSucceeded, outcome(1, 1), nil); err != nil || !recorded {
			t.Errorf("outcome of the next generation: recorded %v, %v; want true", recorded, err)
		}
		if _, err := s.Cancel(ctx, r); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Retry(ctx, r, 0, both); !errors.Is(err, ErrCancelled) {
			t.Errorf("Retry after Cancel: %v; want ErrCancelled", err)
		}
	})
}

func TestCancelCountsWhatHadNotEnded(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		if _, err := s.Record(ctx, r.ID, eval.StateSucceeded, outcome(0, 0), nil); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Cancel(ctx, r); err != nil || status != record.StatusCancelled {
			t.Fatalf("Cancel = %s, %v", status, err)
		}
		standing := s.standing(t, r.ID)
		if standing.Total(eval.StateSucceeded) != 1 || standing.Total(eval.StateCancelled) != 1 {
			t.Errorf("after the cancellation: %+v; want 1 succeeded, 1 cancelled", standing)
		}
		for what, steer := range map[string]func(context.Context, record.Evaluation) (record.Status, error){
			"Pause":  func(ctx context.Context, r record.Evaluation) (record.Status, error) { return s.Pause(ctx, r.ID, "") },
			"Resume": s.Resume,
		} {
			if status, err := steer(ctx, r); err != nil || status != record.StatusCancelled {
				t.Errorf("%s afterwards = %s, %v; want cancelled", what, status, err)
			}
		}
		if _, err := s.Pause(ctx, "ev-missing", ""); !errors.Is(err, ErrNoEvaluation) {
			t.Errorf("Pause of a missing one: %v; want ErrNoEvaluation", err)
		}
	})
}

// TestDeletionGoesOnAfterAKill: the record went first, and the rest goes when
// the deletion is repeated.
func TestDeletionGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		task := record.Task{Evaluation: r.ID, Index: 1, Kind: eval.KindPairwise}
		if _, err := s.SaveProgress(ctx, task, Progress{Attempts: 1}, nil); err != nil {
			t.Fatal(err)
		}
		phases := s.client.HGet(ctx, s.keys.Record(r.ID), fieldPhases).Val()
		if n, err := deleteScript.Run(ctx, s.client, s.keysOf(r), string(r.Revision), "other phases").Int(); err != nil || n != 0 {
			t.Fatalf("delete of a record that has changed = %d, %v; want 0", n, err)
		}
		if n, err := deleteScript.Run(ctx, s.client, s.keysOf(r), string(r.Revision), phases).Int(); err != nil || n != 1 {
			t.Fatalf("delete = %d, %v; want 1", n, err)
		}
		if ids, err := s.Evaluations(ctx); err != nil || len(ids) != 1 {
			t.Errorf("listed half-way: %v, %v; want the evaluation", ids, err)
		}
		fault := &noScan{}
		Universal(s).AddHook(fault)
		if err := s.Delete(ctx, r.ID); !errors.Is(err, errNoScan) {
			t.Fatalf("Delete that is cut short: %v", err)
		}
		if ids, err := s.Evaluations(ctx); err != nil || len(ids) != 1 {
			t.Errorf("listed before the rest is gone: %v, %v; want the evaluation", ids, err)
		}
		fault.over = true
		if err := s.Delete(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		if left := s.everything(t); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// The runs with progress are listed for as long as they have it: until they are
// recorded, or their progress is forgotten.
func TestRunsInProgressAreListed(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		run := func(index int) eval.RunID { return eval.RunID{Evaluation: r.ID, Index: index} }
		want := func(when string, runs ...string) {
			t.Helper()
			listed := s.client.SMembers(ctx, s.keys.InProgress(r.ID)).Val()
			slices.Sort(listed)
			if diff := cmp.Diff(runs, listed); diff != "" {
				t.Errorf("listed %s (-want +got):\n%s", when, diff)
			}
		}
		for index := range 2 {
			task := record.Task{Evaluation: r.ID, Index: index, Kind: eval.KindPairwise}
			if _, err := s.SaveProgress(ctx, task, Progress{Attempts: 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Died(ctx, run(2), 0, "w1"); err != nil {
			t.Fatal(err)
		}
		want("when two are saved and one was died with", "0.0", "0.1", "0.2")
		if life := s.client.TTL(ctx, s.keys.InProgress(r.ID)).Val(); life <= 0 {
			t.Errorf("the list lives %s, want as long as what it lists", life)
		}
		for _, index := range []int{1, 3} {
			if _, err := s.Record(ctx, r.ID, eval.StateSucceeded, outcome(index, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		want("when one of them is recorded", "0.0", "0.2")
		forget := func() {
			t.Helper()
			if err := s.ForgetProgress(ctx, run(0)); err != nil {
				t.Fatal(err)
			}
		}
		forget() // late: it was submitted again
		want("when one is forgotten of an active evaluation", "0.0", "0.2")
		if _, err := s.Cancel(ctx, r); err != nil {
			t.Fatal(err)
		}
		forget()
		want("when one is forgotten", "0.2")
	})
}

// Of the runs in progress of a deleted evaluation, those with a job at a provider stay
// known: the worker that drops their tasks cancels the jobs.
func TestDeletionKeepsJobs(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		r := create(t, s)
		want := map[string]bool{}
		for i := range 20 {
			task := record.Task{Evaluation: r.ID, Index: i, Kind: eval.KindPairwise}
			saved := Progress{Attempts: 1}
			if i%5 == 2 {
				saved.Job = &record.Job{ID: "job"}
				want[s.keys.Progress(task.RunID())] = true
			}
			if _, err := s.SaveProgress(ctx, task, saved, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		left := map[string]bool{}
		for _, key := range s.client.Keys(ctx, "*run:*").Val() {
			left[key] = true
		}
		if listed := s.client.SCard(ctx, s.keys.InProgress(r.ID)).Val(); listed != int64(len(want)) {
			t.Errorf("%d runs are still listed, want the %d with a job", listed, len(want))
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

var errNoScan = errors.New("the connection is gone")

// noScan is a client whose connection breaks when runs in progress are looked for.
type noScan struct{ over bool }

func (*noScan) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*noScan) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (n *noScan) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "sscan" && !n.over {
			command.SetErr(errNoScan)
			return errNoScan
		}
		return next(ctx, command)
	}
}
