package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/dial"
	"github.com/evalfleet/evalfleet/internal/embedded"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
)

// target is the evaluation that is steered, and the Redis that it is in.
type target struct {
	*drain
	id   eval.ID
	name string // as it was called on the command line
}

// going reports whether the argument's evaluation is in a Redis: an id is taken
// to be, a folder's is while a run works there.
func (p *process) going(c *cli.Context) (bool, error) {
	argument, err := oneArgument(c, c.Command.ArgsUsage)
	if err != nil {
		return false, err
	}
	if !folder.Is(argument) {
		return true, nil
	}
	if _, err := folder.ReadResumption(argument); err != nil {
		return false, err
	}
	return inUse(argument), nil
}

// target finds the evaluation that an id or a folder names.
func (p *process) target(c *cli.Context) (*target, error) {
	argument, err := oneArgument(c, c.Command.ArgsUsage)
	if err != nil {
		return nil, err
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return nil, err
	}
	id := eval.ID(argument)
	if folder.Is(argument) {
		saved, err := folder.ReadResumption(argument)
		if err != nil {
			return nil, err
		}
		id = saved.Evaluation
		switch {
		case !inUse(argument):
			return nil, usageError("no run is active in %s; resume it with `evalfleet resume %s`", argument, argument)
		case saved.Redis && at.URL == "":
			return nil, usageError("the run in %s works with a Redis that --%s named: name it here too", argument, redisFlag)
		case !saved.Redis:
			at = dial.Settings{}
			if at.URL, err = embedded.Address(argument); err != nil {
				return nil, usageError("the run in %s is starting or ending: %w", argument, err)
			}
		}
	} else if err := unplaced(c, argument); err != nil {
		return nil, err
	}
	out, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	allowed, err := p.allowedSinks(c)
	if err != nil {
		return nil, err
	}
	client, err := connect(c.Context, at, c.String(namespaceFlag), roleOf(c), 0, false, log)
	if err != nil {
		return nil, err
	}
	return &target{
		drain: &drain{
			client: client, store: store.New(client, c.String(namespaceFlag)),
			dir: c.String(outDirFlag), allowed: allowed, stdout: p.stdout, console: out, log: log,
		},
		id: id, name: argument,
	}, nil
}

// pause begins no more runs of the evaluation; as resume and cancel, it says so.
func (t *target) pause(ctx context.Context) (string, error) {
	status, err := t.enqueuer().Pause(ctx, t.id)
	return t.came(ctx, status, err, record.StatusPaused, fmt.Sprintf("is paused; resume it with `evalfleet resume %s`", t.name))
}

// resume resumes the evaluation.
func (t *target) resume(ctx context.Context) (string, error) {
	status, err := t.enqueuer().Resume(ctx, t.id)
	return t.came(ctx, status, err, record.StatusActive, "is resumed")
}

// cancel ends the evaluation for good.
func (t *target) cancel(ctx context.Context) (string, error) {
	status, err := t.enqueuer().Cancel(ctx, t.id)
	return t.came(ctx, status, err, record.StatusCancelled, "is cancelled")
}

// came says what an evaluation does now, or that it cannot: its status is not
// the one wanted.
func (t *target) came(ctx context.Context, status record.Status, err error, wanted record.Status, does string) (string, error) {
	switch {
	case err != nil:
		return "", t.failure(ctx, err)
	case status != wanted:
		return "", usageError("%s is %s: it cannot be %s", t.name, status, wanted)
	}
	return t.name + " " + does, nil
}

// tell prints what steering came to.
func (t *target) tell(said string, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.console, said)
	return err
}

// failure gives an error of steering its exit code and what to do.
func (t *target) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrNoEvaluation):
		return unknownEvaluation(ctx, t.store, t.id)
	case errors.Is(err, store.ErrCancelled):
		return usageError("%w: `evalfleet delete %s` removes it, and what is in its sink stays when it is submitted again", err, t.name)
	}
	return withCode(exitUnreachable, err)
}

// failedIn picks the failed runs of some error classes, or of any when there are
// none, as a sink has them.
func failedIn(ctx context.Context, sink results.Reader, id eval.ID, classes []string) (func(enqueue.Recorded) bool, error) {
	if len(classes) == 0 {
		return everyFailed, nil
	}
	meant := map[enqueue.Recorded]bool{}
	for run, err := range sink.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return nil, folder.StoreError(err)
		}
		if slices.Contains(classes, string(run.Class)) {
			meant[enqueue.Recorded{Phase: run.Phase, Index: run.Index, State: eval.StateFailed, Generation: run.Generation}] = true
		}
	}
	return func(run enqueue.Recorded) bool { return meant[run] }, nil
}

func everyFailed(enqueue.Recorded) bool { return true }
