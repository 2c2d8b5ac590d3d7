package enqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// inRounds is submission with swiss pairs, in several phases.
func inRounds(name string, documents int) Submission {
	s := submission(name, documents)
	s.Evaluation.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.8}
	return s
}

// ranking chooses phases by abilities: those of documents times order.
func ranking(order float64) func(context.Context, *eval.Evaluation, record.Evaluation, int) (*plan.Choice, error) {
	return func(_ context.Context, e *eval.Evaluation, r record.Evaluation, phase int) (*plan.Choice, error) {
		found := plan.Found{Abilities: make([]float64, len(e.Documents))}
		for i := range found.Abilities {
			found.Abilities[i] = order * float64(i)
		}
		return plan.Choose(e, phase, r.Choices(), found)
	}
}

// toEnd runs an evaluation to its end, its phases chosen by ranking(order), and returns how
// often each run ran; begun are those that ran before.
func (b *bench) toEnd(id eval.ID, order float64, begun map[eval.RunID]int) map[eval.RunID]int {
	b.t.Helper()
	topUp := b.topUp(b.store)
	for range 100 {
		if err := topUp.Tick(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		for _, task := range b.pull("p", 1000) {
			begun[task.RunID()]++
		}
		if _, err := b.enqueuer(b.store).Choose(b.t.Context(), id, ranking(order)); err != nil {
			b.t.Fatal(err)
		}
		if b.standing(id).Status == record.StatusDone {
			return begun
		}
	}
	b.t.Fatalf("it does not end: %+v", b.standing(id))
	return nil
}

func (b *bench) phases(id eval.ID) []record.Phase {
	b.t.Helper()
	r, err := b.store.WithChoices(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Phases
}

func runsOf(phases []record.Phase) (runs int) {
	for _, phase := range phases {
		runs += phase.Runs
	}
	return runs
}

// An evaluation continues while a phase is open, and no run of the phase is pushed before it is
// chosen, exactly once.
func TestPhaseIsChosenOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := inRounds("rounds", 9)
	receipt := b.submit(s)
	id, ctx := receipt.ID, t.Context()
	if want := 29 * 2; receipt.Runs != want { // 0.8 of 36 pairs
		t.Errorf("%d runs are planned, want %d", receipt.Runs, want)
	}
	planned := b.phases(id)
	if len(planned) != 3 || planned[0].Open || !planned[1].Open || !planned[2].Open {
		t.Fatalf("phases %+v: want the first decided and two open", planned)
	}
	if chosen, err := b.enqueuer(b.store).Choose(ctx, id, ranking(1)); err != nil || chosen {
		t.Fatalf("chosen before anything has ended: %v, %v", chosen, err)
	}
	for _, task := range b.pull("p", 1000) {
		if task.Phase != 0 {
			t.Fatalf("task %s was pushed before its phase is chosen", task.ID())
		}
	}
	topUp := b.topUp(b.store)
	for range 2 {
		if err := topUp.Tick(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.standing(id); got.Status != record.StatusActive || len(b.limits.of) != 1 {
		t.Fatalf("with an open phase: status %s, limits %v; want it active and them pinned", got.Status, b.limits.of)
	}

	var writers sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 6 {
		writers.Go(func() {
			chosen, err := b.enqueuer(b.store).Choose(ctx, id, ranking(float64(i%2*2-1)))
			if err != nil {
				t.Error(err)
			}
			if chosen {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	if won != 1 {
		t.Errorf("%d writers have chosen the phase, want one", won)
	}
	first := b.phases(id)
	if first[1].Open || !first[1].Chosen || first[1].Runs != planned[1].Runs || !first[2].Open {
		t.Errorf("phases %+v: want the second chosen, with the runs planned", first)
	}
	begun := map[eval.RunID]int{}
	for range 2 { // the top-up that knew the evaluation before meets it
		if err := topUp.Tick(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range b.pull("p", 1000) {
		begun[task.RunID()]++
	}
	if len(begun) != first[1].Runs {
		t.Errorf("%d runs of the phase were pushed, want %d", len(begun), first[1].Runs)
	}
	b.toEnd(id, 1, begun)
	last := b.phases(id)
	if diff := cmp.Diff(first[1], last[1]); diff != "" {
		t.Errorf("the choice changed (-first +last):\n%s", diff)
	}
	if len(begun) != first[1].Runs+first[2].Runs {
		t.Errorf("%d runs after the first round, want %d", len(begun), first[1].Runs+first[2].Runs)
	}
	if len(b.limits.of) != 0 {
		t.Errorf("limits still pinned after the end: %v", b.limits.of)
	}
	if err := b.store.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	if keys := b.store.Client().Keys(ctx, "ef:{*").Val(); len(keys) != 0 {
		t.Errorf("left after the deletion: %v", keys)
	}
}

// What a results store knows of choices is there again in a Redis that has lost the evaluation;
// a lower limit, settings of another submission and runs that are made again change none.
func TestChoiceOutlivesRedisAndLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := inRounds("again", 9)
	id := b.submit(s).ID
	b.toEnd(id, 1, map[eval.RunID]int{})
	want := b.phases(id)

	b.store.Client().FlushAll(t.Context())
	s.Choices = record.Evaluation{Phases: want}.Choices()
	s.Recorded = func(yield func(Recorded, error) bool) {
		for i := range want[0].Runs {
			state := eval.StateSucceeded
			if i == 3 {
				state = eval.StateFailed
			}
			if !yield(Recorded{Index: i, State: state}, nil) {
				return
			}
		}
	}
	b.submit(s)
	if diff := cmp.Diff(want, b.phases(id)); diff != "" {
		t.Errorf("submitted to an empty Redis (-want +got):\n%s", diff)
	}
	if _, err := b.enqueuer(b.store).Retry(t.Context(), id, every); err != nil {
		t.Fatal(err)
	}
	if phase, due := Due(record.Evaluation{Phases: b.phases(id)}, b.standing(id)); due {
		t.Errorf("phase %d is to be chosen again", phase)
	}
	times := b.toEnd(id, -1, map[eval.RunID]int{})
	if len(times) != 1+want[1].Runs+want[2].Runs {
		t.Errorf("%d runs were made, want those of the later phases and one again", len(times))
	}
	for _, limit := range []int{want[0].Runs + 1, 3, 0} {
		s.Settings.Limit = limit
		b.submit(s)
		b.toEnd(id, -1, map[eval.RunID]int{})
	}
	if diff := cmp.Diff(want, b.phases(id)); diff != "" {
		t.Errorf("after lower limits (-want +got):\n%s", diff)
	}
}

// A limit keeps the first runs of the plan over all rounds.
func TestLimitEndsInARound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := inRounds("limit", 9)
	rounds := func() []int {
		times := b.toEnd(b.submit(s).ID, 1, map[eval.RunID]int{})
		perPhase := make([]int, 3)
		for run := range times {
			perPhase[run.Phase]++
		}
		return perPhase
	}
	s.Settings.Limit = 33 // of 28, 14 and 16 runs
	got := rounds()
	if first := got[0]; !slices.Equal(got, []int{first, 33 - first, 0}) || first == 0 || first >= 33 {
		t.Errorf("runs by phase under the limit: %v", got)
	}
	s.Settings.Limit = 0
	more := rounds()
	if sum := fmt.Sprint(got[0]+more[0], " ", runsOf(b.phases(s.Evaluation.ID())), " ", got[0]+got[1]+more[0]+more[1]+more[2]); sum != fmt.Sprintf("%d 58 58", got[0]) {
		t.Errorf("runs without the limit: %v after %v", more, got)
	}
}

func TestCancelledWithAnOpenPhase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.submit(inRounds("cancelled", 9)).ID
	b.pull("p", 1000)
	if _, err := b.enqueuer(b.store).Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if chosen, err := b.enqueuer(b.store).Choose(t.Context(), id, ranking(1)); err != nil || chosen {
		t.Errorf("chosen of a cancelled evaluation: %v, %v", chosen, err)
	}
	if got := b.standing(id); got.Status != record.StatusCancelled || got.Total(eval.StateSucceeded)+got.Total(eval.StateCancelled) != 58 {
		t.Errorf("standing %+v; want 58 runs ended", got)
	}
}
