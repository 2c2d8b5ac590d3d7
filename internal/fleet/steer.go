package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Target is an evaluation to steer, with its Redis.
type Target struct {
	*Connection
	ID   eval.ID
	Name string // as the user named it: the id, or the folder of the run
}

// Pause pauses the evaluation: no more runs begin. Like Resume and Cancel, it returns a message that
// says so. Batches at providers are not paused, which the message says, too.
func (t *Target) Pause(ctx context.Context) (string, error) {
	status, err := t.Enqueuer().Pause(ctx, t.ID)
	said := fmt.Sprintf("is paused; resume it with `evalfleet resume %s`", t.Name)
	if jobs, readErr := t.Store.Jobs(ctx, t.ID); err == nil && readErr == nil {
		batches, runs := 0, 0
		for _, job := range jobs {
			if job.Runs > 0 {
				batches, runs = batches+1, runs+job.Runs
			}
		}
		if batches > 0 {
			said += fmt.Sprintf("\n%s in %s go on at the provider; `evalfleet cancel %s` stops them",
				wording.Counted(runs, "run"), wording.Either(batches, "batch", "batches"), t.Name)
		}
	}
	return t.came(ctx, status, err, record.StatusPaused, said)
}

// Resume resumes the evaluation.
func (t *Target) Resume(ctx context.Context) (string, error) {
	status, err := t.Enqueuer().Resume(ctx, t.ID)
	said := "is resumed"
	if r, readErr := t.Store.Evaluation(ctx, t.ID); err == nil && readErr == nil {
		// The queue may be shared: only who paused it knows for whom.
		if paused, _ := gate.Paused(ctx, t.Store.Client(), r.QueueNames()); len(paused) > 0 {
			said += fmt.Sprintf("; asynqmon still pauses %s: resume it there", strings.Join(paused, ", "))
		}
	}
	return t.came(ctx, status, err, record.StatusActive, said)
}

// Cancel ends the evaluation for good.
func (t *Target) Cancel(ctx context.Context) (string, error) {
	status, err := t.Enqueuer().Cancel(ctx, t.ID)
	return t.came(ctx, status, err, record.StatusCancelled, "is cancelled")
}

// came returns the message that an evaluation does something now, or an error if its status is not
// the one wanted.
func (t *Target) came(ctx context.Context, status record.Status, err error, wanted record.Status, does string) (string, error) {
	switch {
	case err != nil:
		return "", t.failed(ctx, err)
	case status != wanted:
		return "", failure.Usagef("%s is %s: it cannot be %s", t.Name, status, wanted)
	}
	return t.Name + " " + does, nil
}

// failed gives an error of steering its exit code, and says what to do.
func (t *Target) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrNoEvaluation):
		return t.Unknown(ctx, t.ID)
	case errors.Is(err, store.ErrCancelled):
		return failure.Usagef("%w: to submit it again, run `evalfleet delete %s` first; its results store is kept", err, t.Name)
	}
	return failure.With(failure.Unavailable, err)
}

// Uncollected returns how many results of the evaluation wait to be collected. The evaluation may
// be incomplete: Delete can continue an interrupted deletion.
func (t *Target) Uncollected(ctx context.Context) (int64, error) {
	standings, err := t.Store.Standings(ctx, []eval.ID{t.ID})
	if err != nil {
		return 0, failure.With(failure.Unavailable, err)
	}
	standing := standings[t.ID]
	if standing.Status == "" {
		// What an interrupted deletion left may still be deleted.
		if ids, err := t.Store.Evaluations(ctx); err != nil || !slices.Contains(ids, t.ID) {
			return 0, t.Unknown(ctx, t.ID)
		}
	}
	return standing.Waiting, nil
}

// Delete removes the evaluation from Redis.
func (t *Target) Delete(ctx context.Context) error {
	alive, err := t.Limits().Alive(ctx)
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	any := slices.Contains(slices.Collect(maps.Values(alive)), true)
	if err := t.Enqueuer().Delete(ctx, t.ID, any); err != nil {
		return t.failed(ctx, err)
	}
	return nil
}
