// Package enqueue stores an evaluation in Redis and keeps its queues filled.
//
// A submission stores record, plan and documents, and pushes the first window of run tasks. TopUp
// pushes the rest as the fleet works through them, so that Redis holds a window and not millions.
// The package executes no run and reads no result.
package enqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Submission is what Submit stores.
type Submission struct {
	Evaluation *eval.Evaluation  // normalised
	Texts      map[string]string // of documents and votes, by hash
	Settings   record.Settings
	// Record and Plans are the results of Plan for this evaluation and these settings; empty: Submit
	// calls it. Submit plans anew if there are Choices.
	Record     record.Evaluation
	Plans      []*plan.Plan
	ResultsURL string // where its results belong; empty: the process that drains chooses
	// ResultsID is the id of the results store that has runs of the evaluation: no other may drain what
	// a submission creates. Empty: the first one that drains it.
	ResultsID string
	// Recorded yields the runs that the evaluation's results store has, for a Redis that does not
	// know the evaluation; nil: none.
	Recorded iter.Seq2[Recorded, error]
	// Choices are the choices of phases that were made from results before, by phase number, from
	// the results store; nil: none.
	Choices []*plan.Choice
	// Jobs are jobs in the results store whose calls have not ended. A submission that creates the
	// record gives them back to their runs.
	Jobs []record.Job
	// Settle is called by a submission that creates the record of an evaluation submitted before.
	// The record exists then, and no run can be pulled yet. Settle waits until workers have
	// recorded again what Redis has lost. nil: there is nothing to wait for.
	Settle func(context.Context) error
	// Lost is set by a program that, unasked, resubmits what Redis has lost. If Redis has
	// the evaluation after all, it stays as it is, even if it is paused.
	Lost bool
	// Retry selects the failed runs to retry, each as a run of its next generation; nil: none.
	Retry func(Recorded) bool
}

// Recorded is a run whose outcome a results store has.
type Recorded struct {
	Phase, Index int
	State        eval.State
	Generation   int
}

// Receipt is the result of a submission.
type Receipt struct {
	ID      eval.ID
	Created bool // false: Redis had the evaluation, which resumes
	// Kept is set if the submission's settings differ from those in force and the evaluation is
	// active. The old settings stay until it is no longer active.
	Kept   bool
	Runs   int // in all phases
	Queues []string
}

// Enqueuer submits evaluations.
type Enqueuer struct {
	Store  *store.Store
	Limits Limits
	Log    zerolog.Logger
	Queued func(task record.Task, at time.Time) // like TopUp.Queued
}

// Limits is the registry of limits. It pins an evaluation's limits from before its first run can
// start until its last has ended. *ratelimit.Admin implements it.
type Limits interface {
	Register(ctx context.Context, holder string, limits []ratelimit.Limit) error
	Unregister(ctx context.Context, holder string) error
	Close(ctx context.Context, of ratelimit.Scope) error
	closures
	ForgetSpent(ctx context.Context, evaluation string) (done bool, err error)
	AssertBackground(ctx context.Context, call string, of ratelimit.Background, latestEnd time.Duration) error
}

// Submit stores an evaluation and pushes the first window of its runs. Submitting it again resumes
// it and keeps recorded results. Submit may be repeated after any failure.
func (q *Enqueuer) Submit(ctx context.Context, s Submission) (Receipt, error) {
	id := s.Evaluation.ID()
	r, plans, err := s.planned(id)
	if err != nil {
		return Receipt{}, err
	}

	r.Created, r.ResultsURL, r.ResultsID = time.Now(), s.ResultsURL, s.ResultsID
	restored, err := restore(plans, r.Phases, s.Recorded, s.Retry)
	if err != nil {
		return Receipt{}, err
	}

	created, err := q.Store.Create(ctx, r, s.Evaluation, s.Texts, restored)
	if err != nil {
		return Receipt{}, err
	}
	kept := false
	if created && s.Settle != nil {
		if err := s.Settle(ctx); err != nil {
			return Receipt{}, err
		}
	}

	if !created {
		if r, kept, err = q.resume(ctx, s, r); err != nil {
			return Receipt{}, err
		}
		if plans, err = Plans(s.Evaluation, r); err != nil {
			return Receipt{}, err
		}
	}

	// No run can start before the evaluation is activated, and none may start before its limits are
	// pinned.
	if err := register(ctx, q.Store, q.Limits, r); err != nil {
		return Receipt{}, err
	}

	if created {
		if err := q.restoreJobs(ctx, id, s.Jobs); err != nil {
			return Receipt{}, err
		}
	}

	q.logLimits(r)
	if !created && s.Retry != nil {
		if _, err := q.Retry(ctx, id, s.Retry); err != nil {
			return Receipt{}, err
		}
	}

	if err := q.open(ctx, id); err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{ID: id, Created: created, Kept: kept}
	for _, p := range plans {
		receipt.Runs += p.Runs()
		receipt.Queues = append(receipt.Queues, p.Queues()...)
	}

	slices.Sort(receipt.Queues)
	receipt.Queues = slices.Compact(receipt.Queues)
	return receipt, q.start(ctx, id)
}

// planned returns the record and the plans of a submission.
func (s Submission) planned(id eval.ID) (record.Evaluation, []*plan.Plan, error) {
	chosen := slices.ContainsFunc(s.Choices, func(c *plan.Choice) bool { return c != nil })
	if chosen || s.Record.ID != id {
		return Plan(id, s.Evaluation, s.Settings, s.Choices...)
	}
	return s.Record, s.Plans, nil
}

// logLimits logs for the operator which limits are in force until the evaluation has ended.
func (q *Enqueuer) logLimits(r record.Evaluation) {
	limits := make([]string, len(r.Settings.Limits))
	for i, limit := range r.Settings.Limits {
		limits[i] = limit.String()
	}
	abandoned := "free"
	if r.Settings.Hold {
		abandoned = "hold"
	}
	q.Log.Info().Str("evaluation", string(r.ID)).Strs("limits", limits).Str("abandoned_calls", abandoned).
		Msg("limits are in force")
}

// resume returns the record of an evaluation that Redis has, with those settings of a new
// submission that may take effect now. kept reports that the settings in force stay. The queues
// stay, because ended runs are counted by queue.
func (q *Enqueuer) resume(ctx context.Context, s Submission, asked record.Evaluation) (r record.Evaluation, kept bool, err error) {
	old, err := q.Store.WithChoices(ctx, asked.ID)
	if err != nil {
		return r, false, err
	}
	if s.Lost {
		return old, false, nil
	}
	r = old
	r.Settings = asked.Settings
	if old.Settings.Batch != nil {
		r.Settings.Batch = old.Settings.Batch // runs of batches under way must get no tasks of their own
	}
	queuesOf := func(kind eval.Kind) []string {
		for _, p := range old.Phases {
			if p.Kind == kind {
				return p.JudgeQueues
			}
		}
		return JudgeQueues(r.ID, s.Evaluation, kind, r.Settings) // no run of it was within the limit before
	}
	if r.Phases, _, err = layOut(s.Evaluation, r, queuesOf, old.Choices()); err != nil {
		return r, false, err
	}

	if old.Status == record.StatusActive && len(old.Paused) > 0 {
		if _, err := q.Store.Resume(ctx, old); err != nil {
			return r, false, err
		}
	}

	switch {
	case old.Status == record.StatusCancelled:
		return r, false, fmt.Errorf("submit %s: %w", r.ID, store.ErrCancelled)
	case old.Status != record.StatusPaused && encoded(r) == encoded(old):
		return old, false, q.Store.Submitted(ctx, old.ID)
	}

	texts := map[string]string{}
	if votes := r.Settings.Votes; votes != "" {
		texts[votes] = s.Texts[votes]
	}
	reopened, err := q.Store.Reopen(ctx, r, texts)
	if err != nil {
		return r, false, err
	}
	if !reopened {
		return old, true, q.Store.Submitted(ctx, old.ID)
	}
	r.Status = record.StatusActive
	q.Log.Info().Str("evaluation", string(r.ID)).Msg("evaluation continues with the submitted settings")
	return r, false, nil
}

// encoded returns the parts of a record that may change, in their stored form.
func encoded(r record.Evaluation) [2]string {
	settings, _ := json.Marshal(r.Settings) // no error: plain data, which Create has encoded before
	phases, _ := json.Marshal(r.Phases)
	return [2]string{string(settings), string(phases)}
}

// Plan lays out an evaluation's phases and queues, without Redis. choices are, by phase number, the
// documents chosen earlier from results.
func Plan(id eval.ID, e *eval.Evaluation, settings record.Settings, choices ...*plan.Choice) (record.Evaluation, []*plan.Plan, error) {
	r := record.Evaluation{ID: id, Name: e.Name, Status: record.StatusActive, Settings: settings}
	r.Settings.Extended = e.Extended()
	queuesOf := func(kind eval.Kind) []string { return JudgeQueues(id, e, kind, settings) }
	phases, plans, err := layOut(e, r, queuesOf, choices)
	if err != nil {
		return record.Evaluation{}, nil, err
	}
	r.Phases = phases
	return r, plans, nil
}

// layOut returns the phases within the settings' limit, with their plans. Phases that were chosen
// stay, even beyond the limit.
func layOut(
	e *eval.Evaluation, r record.Evaluation, queuesOf func(eval.Kind) []string, choices []*plan.Choice,
) ([]record.Phase, []*plan.Plan, error) {
	r.Phases = nil
	kept := 0 // also the chosen phases beyond the limit, which stay
	for i, kind := range plan.Phases(e) {
		p := record.Phase{Kind: kind, JudgeQueues: queuesOf(kind), Queues: map[string]int{}, Strong: plan.StrongIn(e, i)}
		if i < len(choices) && choices[i] != nil {
			p.Choice, p.Chosen, kept = choices[i], true, i+1
		}
		r.Phases = append(r.Phases, p)
	}
	plans, err := Plans(e, r)
	if err != nil {
		return nil, nil, err
	}
	phases := r.Phases[:max(kept, len(plans))]
	for i, p := range plans {
		fill(&phases[i], p)
	}
	return phases, plans, nil
}

func fill(phase *record.Phase, p *plan.Plan) {
	phase.Runs, phase.Queues, phase.Open = p.Runs(), map[string]int{}, p.Open()
	for _, queue := range p.Queues() {
		phase.Queues[queue] = p.Len(queue)
	}
}

// Fits reports an error unless the phases of a record are those of the evaluation, so that its
// plans can be made. The error is a store.ErrUnreadable.
func Fits(e *eval.Evaluation, r record.Evaluation) error {
	kinds := plan.Phases(e)
	for i, phase := range r.Phases {
		var problem error
		switch {
		case i >= len(kinds):
			problem = fmt.Errorf("its record has %d phases, its plan %d", len(r.Phases), len(kinds))
		case phase.Kind != kinds[i]:
			problem = fmt.Errorf("phase %d is of kind %q in its record, of kind %q in its plan", i, phase.Kind, kinds[i])
		case len(phase.JudgeQueues) != len(e.JudgesOf(phase.Kind)):
			problem = fmt.Errorf("phase %d has %d queues for %d judges", i, len(phase.JudgeQueues), len(e.JudgesOf(phase.Kind)))
		}
		if problem != nil {
			return fmt.Errorf("%s: %w: %w", r.ID, store.ErrUnreadable, problem)
		}
	}
	return nil
}

// runsFit reports an error unless the record has as many runs as its plans, in the same queues.
// Otherwise, the runs shown, pushed and counted would differ.
func runsFit(e *eval.Evaluation, r record.Evaluation, plans []*plan.Plan) error {
	if kinds := plan.Phases(e); r.Settings.Limit == 0 && len(r.Phases) != len(kinds) {
		return fmt.Errorf("%s: its record has %d phases, its plan %d", r.ID, len(r.Phases), len(kinds))
	}
	for i, p := range plans {
		var planned record.Phase
		fill(&planned, p)
		if recorded := r.Phases[i]; recorded.Runs != planned.Runs || !maps.Equal(recorded.Queues, planned.Queues) {
			return fmt.Errorf("%s: phase %d has %d runs in its record, %d in its plan, or in other queues", r.ID, i, recorded.Runs, planned.Runs)
		}
	}
	return nil
}

// Read loads an evaluation: its record and its content, each checked, and its plans, if they fit
// the record. The error is store.ErrNoEvaluation or store.ErrUnreadable if it is not there or
// unusable.
func Read(ctx context.Context, s *store.Store, id eval.ID) (record.Evaluation, *eval.Evaluation, []*plan.Plan, error) {
	r, err := s.WithChoices(ctx, id)
	if err != nil {
		return r, nil, nil, err
	}
	e, err := s.Questions(ctx, id)
	if err != nil {
		return r, nil, nil, err
	}
	plans, err := Plans(e, r)
	if err == nil {
		err = runsFit(e, r, plans)
	}
	if err != nil {
		return r, nil, nil, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	return r, e, plans, nil
}

// Plans rebuilds the plan of every phase from an evaluation and its record. Phases entirely beyond
// Settings.Limit have no plan.
func Plans(e *eval.Evaluation, r record.Evaluation) ([]*plan.Plan, error) {
	if err := Fits(e, r); err != nil {
		return nil, err
	}
	var plans []*plan.Plan
	left := r.Settings.Limit
	for i, phase := range r.Phases {
		if phase.Chosen && phase.Choice == nil {
			return nil, fmt.Errorf("plan phase %d of %s: what it compares was not read with the record", i, r.ID)
		}
		p, err := plan.New(e, i, plan.Options{JudgeQueues: phase.JudgeQueues, Limit: left, Choice: phase.Choice})
		if err != nil {
			return nil, fmt.Errorf("plan phase %d of %s: %w", i, r.ID, err)
		}
		plans = append(plans, p)
		left -= p.Runs()
		if r.Settings.Limit > 0 && left <= 0 {
			break
		}
		left = max(left, 0) // without a limit, left stays 0, which means all
	}
	return plans, nil
}

// restore returns the state of each recorded run with its queue. Runs that retry selects count as
// not ended, in their next generation.
func restore(
	plans []*plan.Plan, phases []record.Phase, recorded iter.Seq2[Recorded, error], retry func(Recorded) bool,
) ([]store.Restored, error) {
	if recorded == nil {
		return nil, nil
	}
	var restored []store.Restored
	for run, err := range recorded {
		if err != nil {
			return nil, fmt.Errorf("read recorded runs: %w", err)
		}
		if run.Phase >= len(plans) || run.State == eval.StateNone {
			continue
		}
		p := plans[run.Phase]
		if run.Index >= p.Runs() { // recorded under a higher --limit
			continue
		}
		if run.State == eval.StateFailed && run.Generation < record.MaxGeneration && retry != nil && retry(run) {
			run.State, run.Generation = eval.StateNone, run.Generation+1
		}
		restored = append(restored, store.Restored{
			Phase: run.Phase, Index: run.Index, Queue: queueOf(phases[run.Phase], p, run.Index),
			State: run.State, Generation: run.Generation,
		})
	}

	return restored, nil
}

// TaskOf returns the payload of one run, of generation 0.
func TaskOf(id eval.ID, e *eval.Evaluation, phase int, kind eval.Kind, run plan.Run) record.Task {
	shown := e.Shown(kind)
	documents := []string{shown[run.First].ID}
	if run.Second >= 0 {
		documents = append(documents, shown[run.Second].ID)
	}
	asked := e.JudgesOf(kind)[run.Judge]
	t := record.Task{
		Evaluation: id, Phase: phase, Index: run.Index, Kind: kind, Model: asked.Target(), Documents: documents,
	}
	switch kind {
	case eval.KindRuns:
		t.Name = e.Runs.List[run.Index].ID
	case eval.KindPrompts:
		t.Name = e.Prompts.List[run.Index].ID
	case eval.KindPanel:
		t.Agent, t.Dimension = asked.Name, e.Panel.Dimensions[run.Dimension].ID
	}
	return t
}

// restoreJobs gives runs back the jobs that Redis has forgotten, and counts them under the limits.
// What workers have saved of a run meanwhile is newer and stays.
func (q *Enqueuer) restoreJobs(ctx context.Context, id eval.ID, jobs []record.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	now, err := q.Store.Client().Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("restore jobs of %s: read redis's clock: %w", id, err)
	}
	for _, job := range jobs {
		left := job.Left(now)
		if left <= 0 {
			continue
		}
		task, progress := store.WithJob(id, job)
		done, err := q.Store.RestoreProgress(ctx, task, progress)
		if err == nil && done.Restored {
			err = q.Limits.AssertBackground(ctx, job.ID, job.Lease, left)
		}
		if err != nil {
			return fmt.Errorf("restore job %s: %w", job.ID, err)
		}
	}
	return nil
}
