// Package show gathers everything about one run, whether it has ended, is under way or waits:
// its place in the plan, the prompt as it was sent, each call with its answer and evidence, its
// outcome, and its state. The prompt is not stored: it is rebuilt from the plan and the
// documents, which is deterministic.
//
// It reads a Redis, a results store, or both; the caller opens them.
package show

import (
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// ErrUnknown means that the evaluation does not have the run, or not yet.
var ErrUnknown = errors.New("no such run")

// unknown is an ErrUnknown with a reason.
type unknown struct{ error }

func (unknown) Is(target error) bool { return target == ErrUnknown }

// Stores are where an evaluation's runs are read from: a Redis that has its record, its results store, or both.
type Stores struct {
	Store   *store.Store      // nil: none
	Limits  *ratelimit.Admin  // of the same Redis
	Record  record.Evaluation // in that Redis, with choices
	Results results.Reader    // nil: none
}

// RunReader reads the runs of an evaluation. It is for one goroutine.
type RunReader struct {
	Stores
	ID    eval.ID
	Asked *eval.Evaluation

	settings record.Settings
	phases   []record.Phase // queues are known from Redis only

	whole *plan.Plan // of the phase that was asked about last
	phase int        // its number
}

// Open reads what an evaluation asks. The error is results.ErrNoEvaluation if the results store does not have it.
func Open(ctx context.Context, id eval.ID, from Stores) (*RunReader, error) {
	e := &RunReader{Stores: from, ID: id, settings: from.Record.Settings, phases: from.Record.Phases}
	if from.Results == nil {
		var err error
		e.Asked, err = from.Store.Questions(ctx, id)
		return e, err
	}
	kept, err := from.Results.Evaluation(ctx, id)
	if err != nil {
		return nil, err
	}
	e.Asked = kept.Plan
	if from.Store == nil {
		e.settings, e.phases = kept.Settings, kept.Phases
	}
	return e, nil
}

// Run returns everything about a run; the error is ErrUnknown if there is no such run.
func (e *RunReader) Run(ctx context.Context, phase, index int) (*Run, error) {
	f := &reading{RunReader: e, id: eval.RunID{Evaluation: e.ID, Phase: phase, Index: index}}
	if e.Asked.Given != nil {
		return f.given(ctx)
	}
	run, err := f.planned()
	if err != nil {
		return nil, err
	}
	for _, add := range []func(context.Context, *Run) error{f.recorded, f.waiting, f.prompt} {
		if err := add(ctx, run); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// Run is everything about a run; the names of its JSON are those of `show --json`.
type Run struct {
	ID         string    `json:"id"`
	RunID      string    `json:"run_id,omitempty"` // a listed run's own
	Evaluation eval.ID   `json:"evaluation"`
	Name       string    `json:"name"`
	Kind       eval.Kind `json:"kind"`
	State      string    `json:"state"`      // eval.State.String; "none": not ended
	Generation int       `json:"generation"` // how often it was retried
	// Outcome is the last one recorded. While the run is being retried, it is that of an earlier generation.
	Outcome *record.Run `json:"outcome,omitempty"`
	Where   string      `json:"recorded_in,omitempty"` // "sink", or "redis" while it waits to be collected

	Judge      string         `json:"judge"`
	Model      string         `json:"model"` // provider:model that was asked
	Overrides  map[string]any `json:"overrides,omitempty"`
	Grounded   bool           `json:"grounding_required"`
	Reasoned   bool           `json:"reasoning_required"`
	Item       string         `json:"item"`
	Documents  []string       `json:"documents"` // in the order in which they were shown
	Candidates []string       `json:"candidates"`
	// ShownAs are the names under which the judge saw the documents, as used in its reason: A and B if it was blind.
	ShownAs []string `json:"shown_as,omitempty"`
	// compared is the question about a pair; nil: the run compares none.
	compared *eval.Pairwise
	Trial    int    `json:"trial"`
	Queue    string `json:"queue"`
	// Given is set if the verdict was given elsewhere and read from a file. Unordered then says that it is not known
	// which document was shown first.
	Given     bool `json:"given,omitempty"`
	Unordered bool `json:"order_unknown,omitempty"`

	Waits *Wait `json:"waits,omitempty"` // for a run that has not ended, if there is a Redis

	Prompt []Turn `json:"prompt"` // rebuilt
	Calls  []Call `json:"calls"`
}

// Wait is the state of a run that has not ended.
type Wait struct {
	Check     store.Verdict `json:"check"` // the answer that a worker would get: "run", "paused", …
	Attempts  int           `json:"attempts"`
	Deaths    int           `json:"worker_deaths"`
	NotBefore *time.Time    `json:"not_before,omitempty"`
	Started   *time.Time    `json:"started,omitempty"`
	Job       *Job          `json:"job,omitempty"`  // its call that is running at the provider
	Task      *Task         `json:"task,omitempty"` // absent: not pushed yet
}

// Job is a call that is running at the provider.
type Job struct {
	ID      string    `json:"id"` // the provider's name for the job
	Model   string    `json:"model"`
	Stage   string    `json:"stage"`
	Started time.Time `json:"started"`
	Ends    time.Time `json:"ends"` // when evalfleet gives it up
}

// Task is a run's task in its queue.
type Task struct {
	ID    string     `json:"id"`
	State string     `json:"state"` // asynq's: pending, active, retry, …
	Next  *time.Time `json:"next,omitempty"`
	Why   string     `json:"why,omitempty"` // why it returned to the queue
	// For an active task: the worker that has it, and since when by its clock.
	Worker string     `json:"worker,omitempty"`
	Alive  bool       `json:"worker_alive,omitempty"` // its heartbeat is valid
	Since  *time.Time `json:"since,omitempty"`
}

// Turn is one message of a prompt.
type Turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Call is a call, with the messages it was sent in addition to the run's prompt.
type Call struct {
	record.Call
	Bound    string `json:"bound_by_words,omitempty"`
	Turns    []Turn `json:"further_turns,omitempty"` // behind the prompt
	Alone    bool   `json:"turns_alone,omitempty"`   // those turns are all that was sent
	Insisted string `json:"insisted,omitempty"`      // at the end of the last turn
}
