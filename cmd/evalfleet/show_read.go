package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/verdict"
	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/results"
)

// runSource is what there is to read of one run: a Redis that has its
// evaluation's record, its sink, or both.
type runSource struct {
	id    eval.RunID
	redis *drain         // nil: none
	sink  results.Reader // nil: none

	name     string
	asked    *eval.Evaluation
	settings record.Settings
	phases   []record.Phase // queues are known from Redis only
	place    plan.Run

	whole *plan.Plan // of the phase that was asked about last
	phase int        // its number
}

// Close closes the sink.
func (f *runSource) Close() {
	if f.sink != nil {
		_ = f.sink.Close()
	}
}

// readPlan reads what the evaluation asks.
func (f *runSource) readPlan(ctx context.Context) (err error) {
	if f.sink == nil {
		f.asked, err = f.redis.store.Plan(ctx, f.id.Evaluation)
		return withCode(exitUnreachable, err)
	}
	e, err := f.sink.Evaluation(ctx, f.id.Evaluation)
	if errors.Is(err, results.ErrNoEvaluation) {
		return usageError("%w", err)
	}
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	f.asked, f.name = e.Plan, e.Plan.Name
	if f.redis == nil {
		f.settings, f.phases = e.Settings, e.Phases
	}
	return nil
}

// listed is the listed run, or the prompt, that has an id of its own.
func (f *runSource) listed(own string) (eval.RunID, error) {
	var known []string
	for phase, kind := range plan.Phases(f.asked) {
		for index, id := range ownIDs(f.asked, kind) {
			if id == own {
				return eval.RunID{Evaluation: f.id.Evaluation, Phase: phase, Index: index}, nil
			}
			known = append(known, id)
		}
	}
	if near := config.Nearest(own, known); near != "" {
		return f.id, usageError("%s has no run %s; did you mean %s?", f.id.Evaluation, own, near)
	}
	return f.id, usageError("%q is no run of %s: want <phase>.<index>, such as 0.17, or the own id of a listed run or a prompt", own, f.id.Evaluation)
}

// ownID is the id that whoever listed a run of a kind gave it; empty: it is not of a
// list.
func ownID(e *eval.Evaluation, kind eval.Kind, index int) string {
	switch kind {
	case eval.KindRuns:
		return e.Runs.List[index].ID
	case eval.KindPrompts:
		return e.Prompts.List[index].ID
	}
	return ""
}

// ownIDs yields those of all runs of a kind, in the order of the list.
func ownIDs(e *eval.Evaluation, kind eval.Kind) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		switch kind {
		case eval.KindRuns:
			n = len(e.Runs.List)
		case eval.KindPrompts:
			n = len(e.Prompts.List)
		}
		for index := range n {
			if !yield(index, ownID(e, kind, index)) {
				return
			}
		}
	}
}

// planned is what the plan says of the run.
func (f *runSource) planned() (*shownRun, error) {
	kinds := plan.Phases(f.asked)
	if f.id.Phase >= len(kinds) {
		return nil, usageError("%s has no phase %d: its phases are 0 to %d", f.id.Evaluation, f.id.Phase, len(kinds)-1)
	}
	asked := f.asked.Asked(kinds[f.id.Phase])
	o := plan.Options{JudgeQueues: enqueue.JudgeQueues(f.id.Evaluation, f.asked, kinds[f.id.Phase], f.settings)}
	if f.id.Phase < len(f.phases) { // not beyond a limit
		of := f.phases[f.id.Phase]
		o.Choice = of.Choice
		if f.redis != nil {
			o.JudgeQueues = of.JudgeQueues
		}
	}
	if f.whole == nil || f.phase != f.id.Phase {
		var err error
		if f.whole, err = plan.New(f.asked, f.id.Phase, o); err != nil {
			return nil, withCode(exitUnreachable, err)
		}
		f.phase = f.id.Phase
	}
	whole := f.whole
	if whole.Open() {
		return nil, usageError("%s: which pairs phase %d compares is chosen from the results of the phases before it, and they have not all ended",
			f.id.Evaluation, f.id.Phase)
	}
	if f.id.Index >= whole.Runs() {
		return nil, usageError("%s has no run %s: the runs of phase %d (%s) are %d.0 to %d.%d",
			f.id.Evaluation, f.id.Short(), f.id.Phase, whole.Kind(), f.id.Phase, f.id.Phase, whole.Runs()-1)
	}
	f.place = whole.Run(f.id.Index)
	judge := asked[f.place.Judge]
	run := &shownRun{
		ID: f.id.String(), Evaluation: f.id.Evaluation, Name: f.name, Kind: whole.Kind(), State: eval.StateNone.String(),
		Judge: judge.Name, Model: judge.Target(), Overrides: judge.Overrides, Trial: f.place.Trial,
		Queue: o.JudgeQueues[f.place.Judge], Prompt: []shownTurn{}, Calls: []shownCall{},
		Grounded: f.asked.Grounded(whole.Kind()), Reasoned: f.asked.Reasoned(whole.Kind()),
	}
	run.RunID = ownID(f.asked, run.Kind, f.id.Index)
	for _, d := range f.documents() {
		run.Item = f.asked.Items[d.Item].ID
		run.Documents = append(run.Documents, d.ID)
		run.Candidates = append(run.Candidates, d.Candidate)
	}
	return run, nil
}

func (f *runSource) documents() []eval.Document {
	shown := f.asked.Shown(plan.Phases(f.asked)[f.id.Phase])
	documents := []eval.Document{shown[f.place.First]}
	if f.place.Second >= 0 {
		documents = append(documents, shown[f.place.Second])
	}
	return documents
}

// recorded adds the outcome and the calls, from the sink and from what waits in
// Redis to be collected.
func (f *runSource) recorded(ctx context.Context, run *shownRun) error {
	var calls []record.Call
	if f.sink != nil {
		row, ok, err := f.sink.Run(ctx, f.id)
		if err != nil {
			return err
		}
		if ok {
			run.Outcome, run.Where = &row.Run, "sink"
		}
		for call, err := range f.sink.Calls(ctx, f.id) {
			if err != nil {
				return err
			}
			calls = append(calls, call)
		}
	}
	if f.redis != nil {
		entry, err := results.Uncollected(ctx, f.redis.client, f.redis.store.Keys(), f.id)
		if err != nil {
			return err
		}
		if entry.Run != nil {
			run.Outcome, run.Where = entry.Run, "redis"
		}
		for _, call := range entry.Calls {
			if !slices.ContainsFunc(calls, func(c record.Call) bool { return c.ID == call.ID }) {
				calls = append(calls, call)
			}
		}
	}
	if run.Outcome != nil {
		run.State, run.Generation = run.Outcome.State, run.Outcome.Generation
	}
	f.addCalls(run, calls)
	return nil
}

// addCalls shows each call with the limit that it waited for in words.
func (f *runSource) addCalls(run *shownRun, calls []record.Call) {
	bounds := boundWords(f.settings)
	for _, call := range calls {
		run.Calls = append(run.Calls, shownCall{Call: call, Bound: bounds[call.BoundBy]})
	}
}

// problem is why an answer was no verdict.
func (f *runSource) problem(kind eval.Kind, answer string) string {
	var err error
	documents := f.documents()
	switch kind {
	case eval.KindPairwise:
		_, _, err = verdict.Pairwise(answer, documents[0].ID, documents[1].ID, f.asked.Pairwise.Ties)
	case eval.KindSingle:
		_, err = verdict.Single(answer, f.asked.Single.Criteria, f.asked.Single.Scale)
	case eval.KindPanel:
		d := f.place.Dimension
		_, err = verdict.Panel(answer, f.asked.Panel.Dimensions[d:d+1], f.asked.Panel.Scale)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// waiting adds where a run stands that has not ended.
func (f *runSource) waiting(ctx context.Context, run *shownRun) error {
	if f.redis == nil {
		return nil
	}
	states, err := f.redis.store.States(ctx, f.id.Evaluation, f.id.Phase, f.id.Index, f.id.Index)
	if err != nil {
		return err
	}
	state, generation := record.ParseStateByte(states[0])
	run.State, run.Generation = state.String(), generation
	if state != eval.StateNone {
		return nil
	}
	task := record.Task{Evaluation: f.id.Evaluation, Phase: f.id.Phase, Index: f.id.Index, Generation: generation, Model: run.Model}
	check, progress, err := f.redis.store.Check(ctx, task)
	if err != nil {
		return err
	}
	if check == store.VerdictEnded || check == store.VerdictGone {
		return nil // a moment ago
	}
	run.Waits = &shownWait{
		Check: check, Attempts: progress.Attempts, Deaths: progress.Deaths,
		NotBefore: timeOrNil(progress.NotBefore), Started: timeOrNil(progress.Started),
	}
	if job := progress.Job; job != nil {
		run.Waits.Job = &shownJob{ID: job.ID, Model: job.Call.Model, Stage: job.Call.Stage, Started: job.Call.Started, Ends: job.Ends}
	}
	info, err := asynq.NewInspectorFromRedisClient(f.redis.client).GetTaskInfo(run.Queue, task.ID())
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read task %s: %w", task.ID(), err)
	}
	run.Waits.Task = &shownTask{ID: info.ID, State: info.State.String(), Why: info.LastErr}
	if info.State == asynq.TaskStateRetry || info.State == asynq.TaskStateScheduled {
		run.Waits.Task.Next = timeOrNil(info.NextProcessAt)
	}
	if info.State == asynq.TaskStateActive {
		return f.held(ctx, run.Queue, run.Waits.Task)
	}
	return nil
}

// held adds the worker that has an active task.
func (f *runSource) held(ctx context.Context, queue string, task *shownTask) error {
	worker, since, err := gate.Holder(ctx, f.redis.client, queue, task.ID)
	if err != nil || worker == "" {
		return err
	}
	limiter := f.redis.limiter()
	alive, err := limiter.Alive(ctx)
	if err != nil {
		return err
	}
	task.Worker, task.Alive, task.Since = worker, alive[worker], &since
	return nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// prompt rebuilds what the judge was or will be sent. A run over two identical
// texts is asked of nobody.
func (f *runSource) prompt(ctx context.Context, run *shownRun) error {
	texts := map[string]string{}
	documents := f.documents()
	if run.Kind == eval.KindPairwise && documents[0].Hash == documents[1].Hash {
		return nil
	}
	for _, d := range documents {
		if f.sink != nil {
			text, err := f.sink.Text(ctx, d.Hash)
			if err != nil {
				return err
			}
			texts[d.Hash] = text
			continue
		}
		read, err := f.redis.store.Documents(ctx, f.id.Evaluation, d.Hash)
		if err != nil {
			return err
		}
		texts[d.Hash] = read[d.Hash]
	}
	built, err := prompt.Build(f.asked, run.Kind, prompt.About{First: f.place.First, Second: f.place.Second, Judge: f.place.Judge, Dimensions: []int{f.place.Dimension}}, texts)
	if err != nil {
		return nil //nolint:nilerr // the run's own outcome says so
	}
	f.sent(run, built)
	return nil
}
