package enqueue

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func every(Recorded) bool { return true }

// recorded are outcomes that a results store has.
func recorded(runs ...Recorded) iter.Seq2[Recorded, error] {
	return func(yield func(Recorded, error) bool) {
		for _, run := range runs {
			if !yield(run, nil) {
				return
			}
		}
	}
}

// storedOf6 is what the results store of a submission of three documents has: two runs
// succeeded, one failed, and another for the last time that it can.
func storedOf6() iter.Seq2[Recorded, error] {
	return recorded(
		Recorded{Index: 0, State: eval.StateSucceeded},
		Recorded{Index: 1, State: eval.StateFailed, Generation: 3},
		Recorded{Index: 2, State: eval.StateFailed, Generation: record.MaxGeneration},
		Recorded{Index: 3, State: eval.StateSucceeded},
	)
}

func (b *bench) states(id eval.ID, n int) []byte {
	b.t.Helper()
	states, err := b.store.States(b.t.Context(), id, 0, 0, n-1)
	if err != nil {
		b.t.Fatal(err)
	}
	return states
}

func TestRetryPushesFailedRunsOfTheNextGeneration(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		retry func(b *bench, s Submission) // makes the failed runs of s again
	}{
		{"afterwards", func(b *bench, s Submission) {
			receipt := b.submit(s)
			b.pull("p", 10)
			got, err := b.enqueuer(b.store).Retry(b.t.Context(), receipt.ID, every)
			if err != nil || got != (Retried{Runs: 1, Exhausted: 1}) {
				b.t.Fatalf("Retry = %+v, %v; want one run, one exhausted", got, err)
			}
		}},
		{"with a submission that restores", func(b *bench, s Submission) {
			s.Retry = every
			b.submit(s)
			b.pull("p", 10)
		}},
		{"with a submission that Redis knows", func(b *bench, s Submission) {
			b.submit(s)
			b.pull("p", 10)
			s.Recorded, s.Retry = nil, every
			b.submit(s)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := submission("retried", 3) // 6 runs
			s.Settings.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 4}}
			s.Recorded = storedOf6()
			id := s.Evaluation.ID()
			tt.retry(b, s)
			if len(b.limits.of[string(id)]) != 1 {
				t.Errorf("limits pinned: %v", b.limits.of)
			}
			b.pull("p", 10)
			if got, want := b.states(id, 6)[1], record.StateByte(eval.StateSucceeded, 4); got != want {
				t.Errorf("the failed run's byte is %#x, want %#x", got, want)
			}
			if got, want := b.states(id, 6)[2], record.StateByte(eval.StateFailed, record.MaxGeneration); got != want {
				t.Errorf("the byte of a run without a further generation is %#x, want %#x", got, want)
			}
			standing := b.standing(id)
			if standing.Total(eval.StateSucceeded) != 5 || standing.Total(eval.StateFailed) != 1 {
				t.Errorf("%+v; want 5 succeeded, 1 failed", standing)
			}
			ended := 0
			for _, n := range standing.Counts {
				ended += n
			}
			if ended != 6 {
				t.Errorf("%d runs are counted as ended, want 6: %v", ended, standing.Counts)
			}
		})
	}
}

func TestSubmissionResumesWhatIsPausedAndNotWhatIsCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("paused", 3)
	receipt := b.submit(s)
	for range 2 {
		if status, err := b.enqueuer(b.store).Pause(t.Context(), receipt.ID); err != nil || status != record.StatusPaused {
			t.Fatalf("Pause = %s, %v; want paused", status, err)
		}
	}
	if !b.limits.closed(string(receipt.ID), "") {
		t.Error("calls of a paused evaluation are admitted")
	}
	if done := b.pull("p", 10); len(done) != 0 {
		t.Fatalf("%d runs of a paused evaluation were carried out", len(done))
	}
	b.submit(s)
	if b.limits.closed(string(receipt.ID), "") {
		t.Error("calls of an evaluation that goes on are not admitted")
	}
	if done := b.pull("p", 3); len(done) != 3 {
		t.Fatalf("%d runs after the submission, want 3", len(done))
	}
	for range 2 {
		if status, err := b.enqueuer(b.store).Cancel(t.Context(), receipt.ID); err != nil || status != record.StatusCancelled {
			t.Fatalf("Cancel = %s, %v; want cancelled", status, err)
		}
	}
	if !b.limits.closed(string(receipt.ID), "") {
		t.Error("calls of a cancelled evaluation are admitted")
	}
	if status, err := b.enqueuer(b.store).Pause(t.Context(), receipt.ID); err != nil || status != record.StatusCancelled {
		t.Errorf("Pause = %s, %v; want cancelled", status, err)
	}
	if _, err := b.enqueuer(b.store).Submit(t.Context(), s); !errors.Is(err, store.ErrCancelled) {
		t.Errorf("submission of a cancelled evaluation: %v; want ErrCancelled", err)
	}
	if status, err := b.enqueuer(b.store).Resume(t.Context(), receipt.ID); err != nil || status != record.StatusCancelled {
		t.Errorf("Resume = %s, %v; want cancelled", status, err)
	}
	if _, err := b.enqueuer(b.store).Retry(t.Context(), receipt.ID, every); !errors.Is(err, store.ErrCancelled) {
		t.Errorf("Retry of a cancelled evaluation: %v; want ErrCancelled", err)
	}
	for range 2 {
		if err := b.enqueuer(b.store).Delete(t.Context(), receipt.ID, false); err != nil {
			t.Fatal(err)
		}
	}
	if keys := b.store.Client().Keys(t.Context(), "ef:*").Val(); len(keys) != 0 || len(b.limits.of) != 0 {
		t.Errorf("left after the deletion: %v, limits %v", keys, b.limits.of)
	}
	if again := b.submit(s); !again.Created {
		t.Error("a deleted evaluation is not created anew")
	}
}

// pausing is a limiter with something that happens before and after an evaluation's
// closures are read, and before they are opened.
type pausing struct {
	Limits
	before, after, open func()
}

func (p pausing) Closures(ctx context.Context, evaluation string) ([]ratelimit.Closure, error) {
	p.before()
	closures, err := p.Limits.Closures(ctx, evaluation)
	p.after()
	return closures, err
}

func (p pausing) Open(ctx context.Context, closures ...ratelimit.Closure) error {
	p.open()
	return p.Limits.Open(ctx, closures...)
}

// Resuming or ending an evaluation undoes no later pause that was already answered: neither its
// status nor its closed limits.
func TestPauseIsNotTakenBackByOneDecidedBefore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		open func(q *Enqueuer, s Submission) error
	}{
		{"resume", func(q *Enqueuer, s Submission) error {
			_, err := q.Resume(context.Background(), s.Evaluation.ID())
			return err
		}},
		{"submission", func(q *Enqueuer, s Submission) error {
			_, err := q.Submit(context.Background(), s)
			return err
		}},
		{"end", func(q *Enqueuer, s Submission) error {
			return unpin(context.Background(), q.Store, q.Limits, s.Evaluation.ID())
		}},
	} {
		for _, when := range []string{"before closures are read", "after that", "before they are opened"} {
			t.Run(tt.name+", "+when, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
				person := &Enqueuer{Store: b.store, Limits: limiter, Log: zerolog.Nop()}
				s := submission("raced", 3)
				id := s.Evaluation.ID()
				if _, err := person.Submit(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				pause := func() {
					if status, err := person.Pause(t.Context(), id); err != nil || status != record.StatusPaused {
						t.Errorf("Pause = %s, %v; want paused", status, err)
					}
				}
				pause() // so that there is a closure to open
				r, err := b.store.Evaluation(t.Context(), id)
				if err == nil {
					_, err = b.store.Resume(t.Context(), r)
				}
				if err != nil {
					t.Fatal(err)
				}
				raced := pausing{Limits: limiter, before: func() {}, after: func() {}, open: func() {}}
				switch when {
				case "before closures are read":
					raced.before = sync.OnceFunc(pause)
				case "after that":
					raced.after = sync.OnceFunc(pause)
				default:
					raced.open = sync.OnceFunc(pause)
				}
				if err := tt.open(&Enqueuer{Store: b.store, Limits: raced, Log: zerolog.Nop()}, s); err != nil {
					t.Fatal(err)
				}
				r, err = b.store.Evaluation(t.Context(), id)
				if err != nil || r.Status != record.StatusPaused {
					t.Errorf("the evaluation is %s, %v; want paused", r.Status, err)
				}
				if closures, err := limiter.Closures(t.Context(), string(id)); err != nil || len(closures) == 0 {
					t.Errorf("calls of a paused evaluation are admitted: %v, %v", closures, err)
				}
			})
		}
	}
}

// Two concurrent commands leave an evaluation either paused and closed, or active and open, in
// either order.
func TestPauseAndResumeAtOnceAgree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	q := &Enqueuer{Store: b.store, Limits: limiter, Log: zerolog.Nop()}
	s := submission("at-once", 3)
	id := s.Evaluation.ID()
	if _, err := q.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := q.Pause(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := q.Resume(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		r, err := b.store.Evaluation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		closures, err := limiter.Closures(t.Context(), string(id))
		if err != nil || (r.Status == record.StatusPaused) != (len(closures) > 0) {
			t.Fatalf("the evaluation is %s with closures %v, %v", r.Status, closures, err)
		}
	}
}

// A program that resubmits an evaluation lost by Redis leaves alone a pause that was requested
// meanwhile.
func TestResubmissionLeavesAPause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("lost", 3)
	id := b.submit(s).ID
	if _, err := b.enqueuer(b.store).Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s.Lost = true
	b.submit(s)
	if r, err := b.store.Evaluation(t.Context(), id); err != nil || r.Status != record.StatusPaused || !b.limits.closed(string(id), "") {
		t.Errorf("the evaluation is %s, %v, closed: %t; want paused and closed", r.Status, err, b.limits.closed(string(id), ""))
	}
}
