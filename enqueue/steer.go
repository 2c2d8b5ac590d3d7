package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Pause prevents calls of an active evaluation from beginning, in every process from the moment it
// returns. Calls in flight end and are recorded. It returns the status afterwards: paused, or done
// or cancelled.
func (q *Enqueuer) Pause(ctx context.Context, id eval.ID) (record.Status, error) {
	return q.halt(ctx, id, func() (record.Status, error) { return q.Store.Pause(ctx, id, "") })
}

// Stop pauses an evaluation on behalf of the fleet itself; why becomes the record's Stopped.
// Resume, or a submission with other settings, ends the pause.
func (q *Enqueuer) Stop(ctx context.Context, id eval.ID, why string) (record.Status, error) {
	return q.halt(ctx, id, func() (record.Status, error) { return q.Store.Pause(ctx, id, why) })
}

// Cancel ends every run of an evaluation that has not ended. As after Pause, no more calls begin;
// the outcomes of those in flight are not recorded. Cancel removes the evaluation's tasks, except
// for those that workers hold: these drop them. It returns the status afterwards: cancelled, or
// done.
func (q *Enqueuer) Cancel(ctx context.Context, id eval.ID) (record.Status, error) {
	r, err := q.Store.Evaluation(ctx, id)
	if err != nil {
		return "", err
	}
	status, err := q.halt(ctx, id, func() (record.Status, error) { return q.Store.Cancel(ctx, r) })
	if err != nil || status != record.StatusCancelled {
		return status, err
	}
	if err = q.Store.AddQueues(ctx, r.QueueNames()...); err == nil {
		err = remove(ctx, q.Store, id, false)
	}
	if err == nil {
		_, err = q.recall(ctx, id)
	}
	return status, err
}

// recall pushes the runs of a cancelled evaluation that have jobs at their providers, so that workers cancel these, and
// returns how many there are. The task of a run that was pulled while its evaluation was paused is gone.
func (q *Enqueuer) recall(ctx context.Context, id eval.ID) (left int, err error) {
	jobs, err := q.Store.Jobs(ctx, id)
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	r, e, plans, err := Read(ctx, q.Store, id)
	if err != nil {
		return len(jobs), err
	}

	for _, job := range jobs {
		of := job.Call
		if of.Phase < 0 || of.Phase >= len(plans) || of.Index < 0 || of.Index >= plans[of.Phase].Runs() {
			continue // what Redis holds may be wrong
		}
		run := Pending{Run: plans[of.Phase].Run(of.Index), Generation: of.Generation}
		if err := q.Push(ctx, r, e, of.Phase, []Pending{run}, nil); err != nil {
			return len(jobs), err
		}
	}
	return len(jobs), nil
}

// halt changes an evaluation's status and then closes its limits. The closure comes last, and open
// reads closures before it reads the status. So a process that found the evaluation active before
// does not undo this closure.
func (q *Enqueuer) halt(ctx context.Context, id eval.ID, change func() (record.Status, error)) (record.Status, error) {
	status, err := change()
	if err != nil || status != record.StatusPaused && status != record.StatusCancelled {
		return status, err
	}
	if err := q.Limits.Close(ctx, ratelimit.Scope{Evaluation: string(id)}); err != nil {
		return status, err
	}
	return status, q.open(ctx, id) // it may have been resumed meanwhile
}

// PauseProvider prevents new calls to a provider for an active evaluation, in every process from
// the moment it returns. The pause ends when the evaluation is resumed or submitted again. Calls in
// flight end and are recorded. first is true for exactly one of several concurrent callers, which
// should report it.
//
// The record is written first. If the process is killed in between, the provider's tasks are
// dropped, and the next worker whose waiting call meets the failure closes the limits.
func (q *Enqueuer) PauseProvider(ctx context.Context, id eval.ID, provider string, why record.Pause) (first bool, err error) {
	paused, first, err := q.Store.PauseProvider(ctx, id, provider, why)
	if err == nil && paused {
		err = q.Limits.Close(ctx, ratelimit.Scope{Evaluation: string(id), Provider: provider})
	}
	return first, err
}

// PausedQueue reports whether all the runs of a phase's queue belong to paused providers. The runs
// of one evaluation that share a queue share a provider, except in a group's queue; see OnlyPaused.
func PausedQueue(e *eval.Evaluation, phase record.Phase, queue string, paused map[string]record.Pause) bool {
	some, all := pausedIn(e, phase, queue, paused)
	return some && all
}

// pausedIn reports whether some, and whether all, of the models of a queue's runs belong to paused
// providers.
func pausedIn(e *eval.Evaluation, phase record.Phase, queue string, paused map[string]record.Pause) (some, all bool) {
	if len(paused) == 0 {
		return false, false
	}
	all = true
	for i, asked := range e.JudgesOf(phase.Kind) {
		if phase.JudgeQueues[i] == queue {
			_, is := paused[asked.Provider]
			some, all = some || is, all && is
		}
	}
	return some, all
}

// OnlyPaused reports whether all runs of a phase's queue that have not ended belong to paused
// providers. ended is the number of runs that have ended.
func OnlyPaused(
	ctx context.Context, s *store.Store, r record.Evaluation, e *eval.Evaluation, phase int, queue string, ended int,
	paused map[string]record.Pause,
) (bool, error) {
	some, all := pausedIn(e, r.Phases[phase], queue, paused)
	if !some || all {
		return some, nil
	}
	plans, err := Plans(e, r)
	if err != nil {
		return false, err
	}
	runs := plans[phase].Len(queue)
	n, err := parked(ctx, s, r, e, plans[phase], phase, queue, runs, paused)
	return ended+n >= runs, err
}

// parked counts, among the first runs of a queue of a phase, those that have not ended and belong
// to paused providers.
func parked(
	ctx context.Context, s *store.Store, r record.Evaluation, e *eval.Evaluation, p *plan.Plan, phase int, queue string,
	first int, paused map[string]record.Pause,
) (int, error) {
	if some, _ := pausedIn(e, r.Phases[phase], queue, paused); !some || first == 0 {
		return 0, nil
	}
	states, err := s.StatesIn(ctx, r.ID, phase, p.Spans(queue, 0, first))
	if err != nil {
		return 0, err
	}
	n, asked := 0, e.JudgesOf(p.Kind())
	for i := range first {
		run := p.At(queue, i)
		state, _ := record.ParseStateByte(states.Of(run.Index))
		if _, is := paused[asked[run.Judge].Provider]; is && state == eval.StateNone {
			n++
		}
	}
	return n, nil
}

// open lets calls begin if the evaluation is neither paused nor cancelled, except for those to
// paused providers.
func (q *Enqueuer) open(ctx context.Context, id eval.ID) error {
	return openUnless(ctx, q.Store, q.Limits, id, record.StatusPaused, record.StatusCancelled)
}

// openUnless opens an evaluation's limits unless it has one of some statuses. A closure that is
// made after it has read the closures stays.
func openUnless(ctx context.Context, s *store.Store, limits closures, id eval.ID, stopped ...record.Status) error {
	closures, err := limits.Closures(ctx, string(id))
	if err != nil || len(closures) == 0 {
		return err
	}
	r, err := s.Evaluation(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) { // deleted
		return limits.Open(ctx, closures...)
	}
	if err != nil || slices.Contains(stopped, r.Status) {
		return err
	}
	return limits.Open(ctx, slices.DeleteFunc(closures, func(c ratelimit.Closure) bool {
		_, paused := r.Paused[c.Provider]
		return paused
	})...)
}

// Resume resumes a paused evaluation, and the paused providers of an active one, and pushes missing
// tasks. It returns the status afterwards: active, or done or cancelled, which cannot be resumed.
func (q *Enqueuer) Resume(ctx context.Context, id eval.ID) (record.Status, error) {
	r, err := q.Store.Evaluation(ctx, id)
	if err != nil {
		return "", err
	}
	if r.Status == record.StatusActive || r.Status == record.StatusPaused {
		if err := register(ctx, q.Store, q.Limits, r); err != nil {
			return "", err
		}
	}
	status, err := q.Store.Resume(ctx, r)
	if err != nil || status != record.StatusActive {
		return status, err
	}
	if err := q.open(ctx, id); err != nil {
		return status, err
	}
	return status, q.start(ctx, id)
}

// start activates an evaluation, so that the fleet pushes its runs, and pushes the first of them
// itself.
func (q *Enqueuer) start(ctx context.Context, id eval.ID) error {
	if err := q.Store.Activate(ctx, id); err != nil {
		return err
	}
	topUp := NewTopUp(q.Store, q.Limits, q.Log)
	topUp.Queued = q.Queued
	return topUp.tickOne(ctx, id)
}

// Retried counts the failed runs that Retry has handled.
type Retried struct {
	Runs      int // to be retried
	Exhausted int // unchanged, because record.MaxGeneration generations have failed
}

// Retry retries failed runs, each as a run of its next generation: late writes of workers for the
// generation before have no effect. pick selects the runs. A done evaluation becomes active; a
// paused one stays paused. Retry may be repeated after any failure. The error is store.ErrCancelled
// or store.ErrNoEvaluation in those cases.
func (q *Enqueuer) Retry(ctx context.Context, id eval.ID, pick func(Recorded) bool) (Retried, error) {
	r, err := q.Store.WithChoices(ctx, id)
	if err != nil {
		return Retried{}, err
	}
	if r.Status == record.StatusCancelled {
		return Retried{}, fmt.Errorf("retry %s: %w", id, store.ErrCancelled)
	}
	failed, result, err := q.failed(ctx, r, pick)
	if err != nil {
		return Retried{}, err
	}
	if len(failed) == 0 && r.Status != record.StatusActive {
		return result, nil
	}
	// Pinned before a run can start: a done evaluation has none in force.
	if err := register(ctx, q.Store, q.Limits, r); err != nil {
		return Retried{}, err
	}

	for phase, runs := range failed {
		n, err := q.Store.Retry(ctx, r, phase, runs)
		result.Runs += n
		if err != nil {
			return result, err
		}
	}

	// Even if nothing was left to do: an earlier Retry may have been killed here.
	return result, q.start(ctx, id)
}

// failed returns the failed runs that pick selects, by phase.
func (q *Enqueuer) failed(ctx context.Context, r record.Evaluation, pick func(Recorded) bool) (map[int][]store.Failed, Retried, error) {
	var result Retried
	e, err := q.Store.Questions(ctx, r.ID)
	if err != nil {
		return nil, result, err
	}

	plans, err := Plans(e, r)
	if err != nil {
		return nil, result, err
	}
	all := map[int][]store.Failed{}
	for phase, p := range plans {
		for first := 0; first < p.Runs(); first += record.ChunkRuns {
			states, err := q.Store.States(ctx, r.ID, phase, first, min(first+record.ChunkRuns, p.Runs())-1)
			if err != nil {
				return nil, result, err
			}
			for i, b := range states {
				state, generation := record.ParseStateByte(b)
				run := Recorded{Phase: phase, Index: first + i, State: state, Generation: generation}
				if state != eval.StateFailed || !pick(run) {
					continue
				}
				if generation == record.MaxGeneration {
					result.Exhausted++
					continue
				}
				all[phase] = append(all[phase], store.Failed{Index: run.Index, Generation: generation, Queue: queueOf(r.Phases[phase], p, run.Index)})
			}
		}
	}

	return all, result, nil
}

// queueOf returns the queue of a phase's index-th run.
func queueOf(phase record.Phase, p *plan.Plan, index int) string {
	return phase.JudgeQueues[p.Run(index).Judge]
}

// Delete removes an evaluation from Redis, with its tasks, except for those that workers hold:
// these drop them. Its limits stay pinned until no worker can be waiting under them any more. alive
// says whether there are workers, which then remove them.
func (q *Enqueuer) Delete(ctx context.Context, id eval.ID, alive bool) error {
	r, err := q.Store.Evaluation(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNoEvaluation) {
		return err
	}
	// A program of an earlier version may have pushed to queues that are not on the list.
	if err := q.Store.AddQueues(ctx, r.QueueNames()...); err != nil {
		return err
	}

	if err := q.Store.Delete(ctx, id); errors.Is(err, store.ErrReplaced) {
		return nil // what is left belongs to the evaluation that was submitted since
	} else if err != nil {
		return err
	}

	active, err := q.Store.IsActive(ctx, id)
	if err != nil {
		return err
	}

	// If it was active, another process may be about to push tasks; TopUp.drop handles that later.
	left := active && alive
	if err := remove(ctx, q.Store, id, !left); err != nil || left {
		return err
	}
	if _, err := q.Limits.ForgetSpent(ctx, string(id)); err != nil {
		return err
	}
	return unpin(ctx, q.Store, q.Limits, id)
}

// remove removes the tasks of an evaluation that was cancelled or has no record, and forgets the
// queues that are then empty. drop is as in forgetQueues.
func remove(ctx context.Context, s *store.Store, id eval.ID, drop bool) error {
	queues, err := queuesFor(ctx, s, id)
	if err == nil {
		err = clearTasks(ctx, s, id, queues, gate.Unheld)
	}
	if err != nil {
		return err
	}
	return forgetQueues(ctx, s, queues, drop)
}

// unpin removes an evaluation's limits, and the evaluation from the active ones.
func unpin(ctx context.Context, s *store.Store, limits Limits, id eval.ID) error {
	if err := limits.Unregister(ctx, string(id)); err != nil {
		return fmt.Errorf("unpin limits of %s: %w", id, err)
	}
	if err := openUnless(ctx, s, limits, id, record.StatusPaused); err != nil {
		return err
	}
	if err := s.Deactivate(ctx, id); err != nil {
		return err
	}
	// A process that submitted it meanwhile, or retried failed runs, pinned the limits first.
	r, active, err := ifActive(ctx, s, id)
	if err != nil || !active {
		return err
	}
	if err := register(ctx, s, limits, r); err != nil {
		return err
	}
	return s.Activate(ctx, id)
}
