package show

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/verdict"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/results"
)

// reading gathers everything known about one run.
type reading struct {
	*RunReader
	id    eval.RunID
	place plan.Run
}

// OwnID returns the ID that the author of a list gave to a run; empty: runs of this kind are not listed.
func OwnID(e *eval.Evaluation, kind eval.Kind, index int) string {
	switch kind {
	case eval.KindRuns:
		return e.Runs.List[index].ID
	case eval.KindPrompts:
		return e.Prompts.List[index].ID
	}
	return ""
}

// OwnIDs yields the authors' IDs of all runs of a kind, in the order of the list.
func OwnIDs(e *eval.Evaluation, kind eval.Kind) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		switch kind {
		case eval.KindRuns:
			n = len(e.Runs.List)
		case eval.KindPrompts:
			n = len(e.Prompts.List)
		}
		for index := range n {
			if !yield(index, OwnID(e, kind, index)) {
				return
			}
		}
	}
}

// planned returns the run with everything that follows from its place in the plan. The error is ErrUnknown if the plan
// has no such run, or its pairs are not chosen yet.
func (f *reading) planned() (*Run, error) {
	kinds := plan.Phases(f.Asked)
	if f.id.Phase >= len(kinds) {
		return nil, unknown{fmt.Errorf("%s has no phase %d: its phases are 0 to %d", f.id.Evaluation, f.id.Phase, len(kinds)-1)}
	}
	asked := f.Asked.JudgesOf(kinds[f.id.Phase])
	o := plan.Options{JudgeQueues: enqueue.JudgeQueues(f.id.Evaluation, f.Asked, kinds[f.id.Phase], f.settings)}
	if f.id.Phase < len(f.phases) { // not beyond a limit
		of := f.phases[f.id.Phase]
		o.Choice = of.Choice
		if f.Store != nil {
			o.JudgeQueues = of.JudgeQueues
		}
	}

	if f.whole == nil || f.phase != f.id.Phase {
		var err error
		if f.whole, err = plan.New(f.Asked, f.id.Phase, o); err != nil {
			return nil, err
		}
		f.phase = f.id.Phase
	}

	whole := f.whole
	if whole.Open() {
		return nil, unknown{fmt.Errorf("%s: the pairs of phase %d are chosen from the results of the phases before it, which have not all ended",
			f.id.Evaluation, f.id.Phase)}
	}
	if f.id.Index >= whole.Runs() {
		return nil, unknown{fmt.Errorf("%s has no run %s: the runs of phase %d (%s) are %d.0 to %d.%d",
			f.id.Evaluation, f.id.Short(), f.id.Phase, whole.Kind(), f.id.Phase, f.id.Phase, whole.Runs()-1)}
	}
	f.place = whole.Run(f.id.Index)
	judge := asked[f.place.Judge]
	run := &Run{
		ID: f.id.String(), Evaluation: f.id.Evaluation, Name: f.Asked.Name, Kind: whole.Kind(), State: eval.StateNone.String(),
		Judge: judge.Name, Model: judge.Target(), Overrides: judge.Overrides, Trial: f.place.Trial,
		Queue: o.JudgeQueues[f.place.Judge], Prompt: []Turn{}, Calls: []Call{},
		Grounded: f.Asked.Grounded(whole.Kind()), Reasoned: f.Asked.Reasoned(whole.Kind()),
	}
	run.RunID = OwnID(f.Asked, run.Kind, f.id.Index)
	for _, d := range f.documents() {
		run.Item = f.Asked.Items[d.Item].ID
		run.Documents = append(run.Documents, d.ID)
		run.Candidates = append(run.Candidates, d.Candidate)
	}

	if run.Kind == eval.KindPairwise {
		run.compared = f.Asked.Pairwise
	}
	if run.Kind != eval.KindRuns && run.Kind != eval.KindPrompts {
		run.ShownAs = f.Asked.ShownAs(f.documents())
	}
	return run, nil
}

func (f *reading) documents() []eval.Document {
	shown := f.Asked.Shown(plan.Phases(f.Asked)[f.id.Phase])
	documents := []eval.Document{shown[f.place.First]}
	if f.place.Second >= 0 {
		documents = append(documents, shown[f.place.Second])
	}
	return documents
}

// recorded adds the outcome and the calls, from the results store and from Redis if they wait there to be collected.
func (f *reading) recorded(ctx context.Context, run *Run) error {
	var calls []record.Call
	if f.Results != nil {
		row, ok, err := f.Results.Run(ctx, f.id)
		if err != nil {
			return err
		}
		if ok {
			run.Outcome, run.Where = &row.Run, "sink"
		}
		for call, err := range f.Results.Calls(ctx, f.id) {
			if err != nil {
				return err
			}
			calls = append(calls, call)
		}
	}

	if f.Store != nil {
		entry, err := results.Uncollected(ctx, f.Store.Client(), f.Store.Keys(), f.id)
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
		results.WriteCriteria(f.Asked, run.Outcome)
		run.State, run.Generation = run.Outcome.State, run.Outcome.Generation
	}
	f.addCalls(run, calls)
	return nil
}

// addCalls adds the calls, and names the limit that each waited for in words.
func (f *reading) addCalls(run *Run, calls []record.Call) {
	bounds := f.settings.BoundWords()
	for _, call := range calls {
		run.Calls = append(run.Calls, Call{Call: call, Bound: bounds[call.BoundBy]})
	}
}

// problem returns why an answer contains no verdict; "" if it contains one.
func (f *reading) problem(kind eval.Kind, answer string) string {
	var err error
	switch kind {
	case eval.KindPairwise:
		names := f.Asked.ShownAs(f.documents())
		_, err = verdict.Pairwise(answer, names[0], names[1], f.Asked.Pairwise)
	case eval.KindSingle:
		_, err = verdict.Scores(answer, f.Asked, f.documents()[0])
	case eval.KindPanel:
		d := f.place.Dimension
		_, err = verdict.Panel(answer, f.Asked.Panel.Dimensions[d:d+1], f.Asked.Panel.Scale)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// waiting adds the state of a run that has not ended.
func (f *reading) waiting(ctx context.Context, run *Run) error {
	if f.Store == nil {
		return nil
	}
	states, err := f.Store.States(ctx, f.id.Evaluation, f.id.Phase, f.id.Index, f.id.Index)
	if err != nil {
		return err
	}

	state, generation := record.ParseStateByte(states[0])
	run.State, run.Generation = state.String(), generation
	if state != eval.StateNone {
		return nil
	}
	task := record.Task{Evaluation: f.id.Evaluation, Phase: f.id.Phase, Index: f.id.Index, Generation: generation, Model: run.Model}
	checked, err := f.Store.Check(ctx, task)
	if err != nil {
		return err
	}
	if checked.Verdict == store.VerdictEnded || checked.Verdict == store.VerdictGone {
		return nil // it has ended meanwhile
	}
	progress := checked.Progress
	run.Waits = &Wait{
		Check: checked.Verdict, Attempts: progress.Attempts, Deaths: progress.Deaths,
		NotBefore: timeOrNil(progress.NotBefore), Started: timeOrNil(progress.Started),
	}
	if job := progress.Job; job != nil {
		run.Waits.Job = &Job{ID: job.ID, Model: job.Call.Model, Stage: job.Call.Stage, Started: job.Call.Started, Ends: job.Ends}
	}
	info, err := gate.TaskInfo(f.Store.Client(), run.Queue, task.ID())
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read task %s: %w", task.ID(), err)
	}

	run.Waits.Task = &Task{ID: info.ID, State: info.State.String(), Why: info.LastErr}
	if info.State == asynq.TaskStateRetry || info.State == asynq.TaskStateScheduled {
		run.Waits.Task.Next = timeOrNil(info.NextProcessAt)
	}
	if info.State == asynq.TaskStateActive {
		return f.held(ctx, run.Queue, run.Waits.Task)
	}
	return nil
}

// held adds the worker that has an active task.
func (f *reading) held(ctx context.Context, queue string, task *Task) error {
	holders, err := gate.Holders(ctx, f.Store.Client(), queue, task.ID)
	held, ok := holders[task.ID]
	if err != nil || !ok {
		return err
	}
	alive, err := f.Limits.Alive(ctx)
	if err != nil {
		return err
	}
	task.Worker, task.Alive, task.Since = held.Worker, alive[held.Worker], &held.Since
	return nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// prompt rebuilds the prompt that the judge was or will be sent. There is none for two texts whose verdict follows
// without a judge.
func (f *reading) prompt(ctx context.Context, run *Run) error {
	documents := f.documents()
	if run.Kind == eval.KindPairwise {
		if _, _, decided := f.Asked.Decided(documents[0], documents[1]); decided {
			return nil
		}
	}

	var hashes []string
	for _, d := range documents {
		hashes = append(hashes, d.Hashes()...)
	}
	var texts map[string]string
	var err error
	if f.Results != nil {
		texts, err = f.Results.Texts(ctx, hashes)
	} else {
		texts, err = f.Store.Documents(ctx, f.id.Evaluation, hashes...)
	}
	if err != nil {
		return err
	}

	built, err := prompt.Build(
		f.Asked, run.Kind,
		prompt.About{First: f.place.First, Second: f.place.Second, Judge: f.place.Judge, Dimensions: []int{f.place.Dimension}},
		texts,
	)
	if err != nil {
		return nil //nolint:nilerr // the run's own outcome says so
	}
	f.sent(run, built)
	return nil
}
