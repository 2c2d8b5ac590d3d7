package enqueue

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// Together reports whether a run of p is asked in one call with the others of its group
// (plan.Group): those in which an agent judges a document, one for each dimension. The first of the
// group, its leader, makes that call. Until the leader is recorded, only the worker that handles it
// pushes the others; from then on they are ordinary runs.
func Together(e *eval.Evaluation, settings record.Settings, p *plan.Plan, run plan.Run) bool {
	return p.Kind() == eval.KindPanel && slices.Contains(settings.Batching, e.Panel.Agents[run.Judge].Name)
}

// leader returns the index of the run that a run waits for before it is pushed. It is the run's own
// if it waits for none.
func (s *share) leader(p *plan.Plan, run plan.Run) int {
	if Together(s.plan, s.record.Settings, p, run) {
		return p.Leader(run.Index)
	}
	return run.Index
}

// waits reports whether a run must not be pushed yet, given the state of its leader.
func (s *share) waits(p *plan.Plan, run plan.Run, leader byte) bool {
	state, _ := record.ParseStateByte(leader)
	return s.leader(p, run) != run.Index && state == eval.StateNone
}

// spans returns the indexes of the runs to look at when the runs at some positions of a queue are pushed (plan.Spans).
// These include their leaders, which come before them.
func (s *share) spans(queue string, from, to int) [][2]int {
	p := s.plans[s.phase]
	spans := p.Spans(queue, from, to)
	if p.Kind() == eval.KindPanel && len(s.record.Settings.Batching) > 0 {
		first := spans[0][0]
		spans[0][0] = p.Leader(first) - p.Run(first).Judge
	}
	return spans
}

// runsPerTask returns how many runs a task of a phase's queue completes if every batch, and every call for several
// dimensions, answers all of them.
func (k *known) runsPerTask(phase int, queue string) float64 {
	of := k.record.Phases[phase]
	if of.Kind != eval.KindPanel {
		return k.groupsOf(phase, queue).runsPerTask()
	}
	dimensions, runs, tasks := len(k.plan.Panel.Dimensions), 0, 0
	for i, agent := range k.plan.Panel.Agents {
		if of.JudgeQueues[i] != queue {
			continue
		}
		runs += dimensions
		if slices.Contains(k.record.Settings.Batching, agent.Name) {
			tasks++
		} else {
			tasks += dimensions
		}
	}
	return float64(runs) / float64(tasks)
}

// Pending is a run that has not ended.
type Pending struct {
	plan.Run
	Generation int
}

// Push pushes runs of one of an evaluation's phases, which share a queue. Runs that are in the
// queue already are unchanged, so Push may be repeated. batch is where the runs are that each of them leads in a batch;
// nil: each is asked alone.
func (q *Enqueuer) Push(
	ctx context.Context, r record.Evaluation, e *eval.Evaluation, phase int, runs []Pending, batch *record.Span,
) error {
	if len(runs) == 0 {
		return nil
	}
	of := r.Phases[phase]
	tasks := make([]record.Task, len(runs))
	for i, run := range runs {
		tasks[i] = TaskOf(r.ID, e, phase, of.Kind, run.Run)
		tasks[i].Generation, tasks[i].Batch = run.Generation, batch
	}
	queue := of.JudgeQueues[runs[0].Judge]
	if err := push(ctx, q.Store, queue, tasks, r.Keeps, withTime(q.Queued)); err != nil {
		return err
	}
	return q.Store.AnnounceFilled(ctx, queue)
}

// withTime returns a function that passes each pushed task to queued, with the time of the call to
// withTime.
func withTime(queued func(record.Task, time.Time)) func(record.Task) {
	if queued == nil {
		return nil
	}
	at := time.Now() // a worker may begin a run before the push is answered
	return func(t record.Task) { queued(t, at) }
}
