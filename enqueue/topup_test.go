package enqueue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// work completes an evaluation with a fleet of one: it tops up, pulls, and returns how often
// each run ran.
func (b *bench) work(id eval.ID, runs int, perTick int) map[int]int {
	b.t.Helper()
	topUp := b.topUp(b.store)
	times := map[int]int{}
	deadline := testrun.Deadline(b.t)
	for {
		if err := topUp.Tick(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		pulled := b.pull("p", perTick)
		for _, task := range pulled {
			if task.Evaluation == id {
				times[task.Index]++
			}
		}
		standing := b.standing(id)
		if standing.Ended(0, "p") == runs {
			return times
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%d of %d runs ended, cursor %d, status %s", standing.Ended(0, "p"), runs, standing.Pushed(0, "p", true), standing.Status)
		}
		if len(pulled) == 0 { // tasks may be lost, which is looked for after a while
			for queue, stall := range topUp.stalled {
				stall.since = stall.since.Add(-2 * stallTimes.First)
				topUp.stalled[queue] = stall
			}
		}
	}
}

func wantEachOnce(t *testing.T, times map[int]int, runs int) {
	t.Helper()
	for index := range runs {
		if times[index] != 1 {
			t.Errorf("run %d was carried out %d times", index, times[index])
		}
	}
}

// A release that does not know the balanced order moves a cursor of its own. Whatever it has pushed, this release goes
// through all runs once more, and no run is left out or recorded twice.
func TestCursorOfTheOtherOrderLeavesNothingOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("two orders", 36)) // 1,260 runs
	other := record.CursorField(0, "p", false)
	if err := b.store.Client().HSet(t.Context(), b.store.Keys().Cursors(receipt.ID), other, receipt.Runs).Err(); err != nil {
		t.Fatal(err)
	}
	if got := b.standing(receipt.ID).Pushed(0, "p", true); got >= receipt.Runs {
		t.Fatalf("%d of %d runs are pushed at once, want a window", got, receipt.Runs)
	}
	wantEachOnce(t, b.work(receipt.ID, receipt.Runs, 200), receipt.Runs)
}

// Documents of an evaluation that ends early have all been compared.
func TestFirstRunsCompareAllDocuments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const documents = 30
	b.submit(submission("begun", documents))
	times := map[string]int{}
	for _, task := range b.pull("p", documents) { // both orders of half as many pairs
		for _, document := range task.Documents {
			times[document]++
		}
	}
	if len(times) < documents {
		t.Errorf("the first %d runs compare %d of %d documents: %v", documents, len(times), documents, times)
	}
}

func TestTopUpKeepsAWindowAndNotTheWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const documents = 36 // 1,260 runs
	receipt := b.submit(submission("window", documents))
	pending := b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val()
	if pending != firstWindow {
		t.Errorf("%d tasks pending after the submission, want the first window of %d", pending, firstWindow)
	}
	times := b.work(receipt.ID, receipt.Runs, 300)
	wantEachOnce(t, times, receipt.Runs)
}

// A queue that was used up before its pace is known is looked at often, and one
// that is full is not.
func TestUsedUpQueueIsFilledAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(submission("fast", 72)) // 5,112 runs: more than were pulled and the largest window
	topUp := b.topUp(b.store)
	next := func(pull int) time.Duration {
		b.pull("p", pull)
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		return topUp.nextTick(1)
	}
	if full := next(0); full <= fastTick {
		t.Errorf("a full queue is looked at again in %s", full)
	}
	if usedUp := next(480); usedUp != fastTick {
		t.Errorf("a queue with 20 tasks of %d left is looked at again in %s, want %s", firstWindow, usedUp, fastTick)
	}
	// The pace is known a moment later, and the window may be larger then.
	testrun.Eventually(t, "a queue that was filled is looked at less often", func() bool { return next(0) > fastTick })
}

// Tasks that were begun leave room for others, however long they take: calls of
// minutes must not keep the rest of the slots idle.
func TestTasksUnderWayLeaveTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(submission("slow", 60)) // 3,540 runs
	topUp, client := b.topUp(b.store), b.store.Client()
	for range 3 {
		for range 450 {
			if err := client.LMove(t.Context(), "asynq:{p}:pending", "asynq:{p}:active", "right", "left").Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := client.LLen(t.Context(), "asynq:{p}:pending").Val(); n < firstWindow || n > firstWindow+smallWindow {
			t.Errorf("%d tasks wait beside %d that were begun, want the window of %d", n, client.LLen(t.Context(), "asynq:{p}:active").Val(), firstWindow)
		}
	}
}

func TestTwoTopUpsAtOncePushEveryRunOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("two", 28)) // 756 runs
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			topUp := b.topUp(b.store)
			for ctx.Err() == nil {
				if err := topUp.Tick(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond) // and leave the cores to the others
			}
		})
	}
	times := b.work(receipt.ID, receipt.Runs, 50)
	stop()
	others.Wait()
	wantEachOnce(t, times, receipt.Runs)
}

func TestEvaluationsShareAQueueByPriority(t *testing.T) {
	t.Parallel()
	b := setup(t)
	light, heavy := submission("light", 52), submission("heavy", 52) // 2,652 runs each, more than are pulled
	heavy.Settings.Priority = 3
	first := b.submit(light)
	second := b.submit(heavy)
	topUp := b.topUp(b.store)
	// The queue's window is 600, however fast this machine is: its pace is not
	// measured before an hour has gone by.
	topUp.pace["p"] = &pace{perSecond: 20, at: time.Now().Add(time.Hour)}
	counts := map[eval.ID]int{}
	for round := range 26 {
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, task := range b.pull("p", 100) {
			if round >= 14 { // the windows of the beginning have passed
				counts[task.Evaluation]++
			}
		}
	}
	ratio := float64(counts[second.ID]) / float64(counts[first.ID])
	if ratio < 2.8 || ratio > 3.2 {
		t.Errorf("priority 3 got %.2f times the runs of priority 1 (%d and %d)", ratio, counts[second.ID], counts[first.ID])
	}
}

func TestTasksDeletedByHandArePushedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("deleted", 5)) // 20 runs
	b.pull("p", 5)
	// As asynqmon's "delete all" does it.
	ids := b.store.Client().LRange(t.Context(), "asynq:{p}:pending", 0, -1).Val()
	for _, id := range ids {
		b.store.Client().Del(t.Context(), "asynq:{p}:t:"+id)
	}
	b.store.Client().Del(t.Context(), "asynq:{p}:pending")
	times := b.work(receipt.ID, receipt.Runs, 100)
	if len(times) != 15 {
		t.Errorf("%d runs were carried out after the deletion, want 15", len(times))
	}
}

func TestDeletedEvaluationIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("gone", 40))
	topUp := b.topUp(b.store)
	if err := topUp.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pull("p", 450)
	keys := b.store.Client().Keys(t.Context(), "ef:{"+string(receipt.ID)+"}:*").Val()
	b.store.Client().Del(t.Context(), keys...)
	for range 3 {
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		topUp.dropped[receipt.ID] = time.Now().Add(time.Hour) // its limits stay pinned
	}
	if keys := b.store.Client().Keys(t.Context(), "ef:{ev-*").Val(); len(keys) != 0 {
		t.Errorf("keys made again after the deletion: %v", keys)
	}
	b.limits.of[string(receipt.ID)] = []ratelimit.Limit{{}}
	topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter + time.Minute)
	if err := topUp.Tick(t.Context()); err != nil || len(b.limits.of) != 1 {
		t.Errorf("limits while calls may wait under them: %v, %v; want them pinned", b.limits.of, err)
	}
	topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter)
	if err := topUp.Tick(t.Context()); err != nil || len(b.limits.of) != 0 {
		t.Errorf("limits afterwards: %v, %v; want none", b.limits.of, err)
	}
	if active, err := b.store.Active(t.Context()); err != nil || len(active) != 0 {
		t.Errorf("active evaluations after the deletion: %v, %v", active, err)
	}
}
