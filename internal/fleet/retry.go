package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Retry retries failed runs, only those of the error classes if any are given, and returns a
// message with their number. storeURL is the results store to read the classes from, if the user
// named one.
func (t *Target) Retry(ctx context.Context, classes []string, storeURL string) (string, error) {
	r, err := t.Store.Evaluation(ctx, t.ID)
	if err != nil {
		return "", t.failed(ctx, err)
	}
	pick := EveryFailed
	if len(classes) > 0 {
		if pick, err = t.failedIn(ctx, r, classes, storeURL); err != nil {
			return "", err
		}
	}

	retried, err := t.Enqueuer().Retry(ctx, t.ID, pick)
	if err != nil {
		return "", t.failed(ctx, err)
	}
	said := fmt.Sprintf("%s: retrying %s", t.Name, wording.Counted(retried.Runs, "failed run"))
	if retried.Runs == 0 {
		said = fmt.Sprintf("%s: %s", t.Name, NothingToRetry(classes))
	}
	if retried.Exhausted > 0 {
		said = fmt.Sprintf("%s cannot be retried: they have failed %d times, the maximum\n%s",
			wording.Counted(retried.Exhausted, "run"), record.MaxGeneration+1, said)
	}

	return said, nil
}

// NothingToRetry returns the message that no run failed, or none with one of the classes.
func NothingToRetry(classes []string) string {
	if len(classes) > 0 {
		return "no run failed with " + strings.Join(classes, " or ") + ": nothing to retry"
	}
	return "no run failed: nothing to retry"
}

// ErrNoClasses means that this machine cannot read the results store with the error classes of an
// evaluation's failed runs.
var ErrNoClasses = errors.New("the error classes of failed runs are unknown")

// failedIn returns a function that selects failed runs by class. It reads the evaluation's results
// store, which must be readable on this machine.
func (t *Target) failedIn(
	ctx context.Context, r record.Evaluation, classes []string, storeURL string,
) (func(enqueue.Recorded) bool, error) {
	dir := t.FolderOf(r)
	if outdir.Is(t.Name) {
		dir = t.Name
	}
	named := ""
	if storeURL == "" {
		var err error
		if named, err = t.Allowed.Of(r); err != nil {
			return nil, failure.With(failure.Usage, err)
		}
	}
	url := cmp.Or(storeURL, named, filepath.Join(dir, outdir.ResultsFile))
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, failure.With(failure.KindOf(outdir.StoreError(err)), fmt.Errorf("%w: %w", ErrNoClasses, err))
	}
	defer reader.Close()
	if r.ResultsID != "" && reader.ID() != r.ResultsID {
		return nil, failure.Usagef("%w: %s is not the results store of %s", ErrNoClasses, outdir.PublicURL(url), r.ID)
	}

	return FailedIn(ctx, reader, r.ID, classes)
}

// FailedIn returns a function that selects the runs that failed by a results store. It selects
// those of the error classes, or all if none are given.
func FailedIn(ctx context.Context, reader results.Reader, id eval.ID, classes []string) (func(enqueue.Recorded) bool, error) {
	if len(classes) == 0 {
		return EveryFailed, nil
	}
	meant := map[enqueue.Recorded]bool{}
	for run, err := range reader.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return nil, outdir.StoreError(err)
		}
		if slices.Contains(classes, string(run.Class)) {
			meant[enqueue.Recorded{Phase: run.Phase, Index: run.Index, State: eval.StateFailed, Generation: run.Generation}] = true
		}
	}
	return func(run enqueue.Recorded) bool { return meant[run] }, nil
}

// NothingFailed reports whether an evaluation in a results store is complete, without a failed run
// of the classes.
func NothingFailed(ctx context.Context, reader results.Reader, id eval.ID, classes []string) (bool, error) {
	e, err := reader.Evaluation(ctx, id)
	if err != nil || e.Finished.IsZero() {
		return false, outdir.StoreError(err)
	}
	phases, err := reader.Counts(ctx, id)
	if err != nil {
		return false, outdir.StoreError(err)
	}
	for _, phase := range phases {
		failed := phase.Failed
		if len(classes) > 0 {
			failed = 0
			for _, class := range classes {
				failed += phase.Classes[class]
			}
		}
		if failed > 0 || phase.Succeeded+phase.Failed+phase.Cancelled < phase.Runs {
			return false, nil
		}
	}
	return true, nil
}

// EveryFailed selects all failed runs.
func EveryFailed(enqueue.Recorded) bool { return true }
