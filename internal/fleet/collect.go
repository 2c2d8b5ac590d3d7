package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Collect drains one evaluation, or all that Redis knows if id is empty. With follow, it continues
// until they have ended. It writes the report and the files of an evaluation that has ended.
func (f *Connection) Collect(ctx context.Context, id eval.ID, follow bool) error {
	switch {
	case follow && id == "":
		collector := f.Collector()
		var one sync.Mutex // ranking may take a whole core
		collector.Conclude = func(ctx context.Context, o collect.Outcome, db results.Store) error {
			one.Lock()
			defer one.Unlock()
			if err := f.conclude(ctx, o.Record, db); err != nil { // the others can be collected
				f.Log.Warn().Err(err).Str("evaluation", string(o.Record.ID)).Msg("cannot write the report of the evaluation")
			}
			return ctx.Err()
		}
		return f.Failure(collector.FollowAll(ctx))
	case follow:
		collector := f.Collector()
		collector.Conclude = func(ctx context.Context, o collect.Outcome, db results.Store) error {
			return f.conclude(ctx, o.Record, db)
		}
		outcome, err := collector.Follow(ctx, id)
		if errors.Is(err, store.ErrNoEvaluation) && outcome.Record.ID == "" {
			return f.Unknown(ctx, id)
		}
		return cmp.Or(f.lost(outcome, err), f.ended(outcome))
	case id != "":
		if err := f.once(ctx, id); err != nil {
			return err
		}
		return f.concludeEnded(ctx, id)
	}

	ids, err := f.Store.Evaluations(ctx)
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	concluded, err := f.Store.Concluded(ctx, ids)
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	if len(ids) == 0 {
		fmt.Fprintln(f.Screen, "no evaluation in Redis: nothing to collect")
	}

	var refused []error
	for _, id := range ids {
		err := f.once(ctx, id)
		if err == nil && !concluded[id] {
			err = f.concludeEnded(ctx, id)
		}
		switch {
		case err == nil:
		case errors.Is(err, outdir.ErrInUse): // the error names the folder alone
			refused = append(refused, fmt.Errorf("%s: %w", id, err))
		case errors.Is(err, store.ErrUnreadable), concernsOne(err):
			refused = append(refused, err)
		default:
			return err
		}
	}

	return failure.With(failure.Unavailable, errors.Join(refused...))
}

// concludeEnded writes the report and the files of an evaluation if it has ended. If not, it says how to see what is
// recorded so far.
func (f *Connection) concludeEnded(ctx context.Context, id eval.ID) error {
	r, err := f.Store.Evaluation(ctx, id)
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	if !record.HasEnded(r.Status, r.Stopped) {
		fmt.Fprintf(f.Screen, "%s has not ended; see who leads so far with: evalfleet report %s\n", id, wording.ShellWord(f.FolderOf(r)))
		return nil
	}
	reader, _, _, err := f.Reader(ctx, id)
	if err != nil {
		return err
	}
	defer reader.Close()
	return f.conclude(ctx, r, reader)
}

// conclude writes the report and the files of an evaluation that has ended, and stores in Redis who won.
func (f *Connection) conclude(ctx context.Context, r record.Evaluation, from results.Reader) error {
	built, files, err := f.writeFiles(ctx, r, from)
	if err != nil {
		return err
	}

	result := built.Result()
	result.Elsewhere = r.ResultsURL == ""
	if err := f.Store.Conclude(ctx, r.ID, result); err != nil {
		return failure.With(failure.Unavailable, err)
	}
	if f.Ended == nil {
		return nil
	}
	return f.Ended(built, f.FolderOf(r), files)
}

// once drains everything that is in Redis now.
func (f *Connection) once(ctx context.Context, id eval.ID) error {
	drained, err := f.Collector().Once(ctx, id)
	if errors.Is(err, store.ErrNoEvaluation) {
		return f.Unknown(ctx, id)
	}
	if r := drained.Record; r.ID != "" {
		fmt.Fprintf(
			f.Screen, "%s: %d entries collected into %s\n", id, drained.Entries,
			cmp.Or(r.ResultsURL, filepath.Join(f.FolderOf(r), outdir.ResultsFile)),
		)
	}
	return f.Failure(err)
}

// LostError means that Redis has lost an evaluation while it was being collected. Submitting it
// again restores it.
type LostError struct {
	Dir string // folder with the collected results
	Err error  // results.ErrNoEvaluation or store.ErrNoEvaluation
}

func (e *LostError) Error() string { return e.Err.Error() + " in " + e.Dir }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// lost returns the error of following an evaluation that Redis has lost, with the command that
// submits it again.
func (f *Connection) lost(o collect.Outcome, err error) error {
	switch {
	case errors.Is(err, store.ErrNoEvaluation): // between two reads, before anything was collected
		err = fmt.Errorf("redis has lost %w; what was recorded before is", err)
	case !errors.Is(err, results.ErrNoEvaluation):
		return f.Failure(err)
	}
	return failure.With(failure.Unavailable, &LostError{f.FolderOf(o.Record), err})
}

// ended returns the error for an evaluation that ended before all its runs had; nil for any other.
func (f *Connection) ended(o collect.Outcome) error {
	switch {
	case o.Cancelled:
		return o.CancelledError("they are in " + f.FolderOf(o.Record))
	case o.Known != nil:
		return nil
	case o.Early():
		return o.StoppedError("raise budget in the evaluation file and resume with: "+f.Again, f.Again)
	}
	return nil
}

// Failure gives an error of package collect its kind and message.
func (f *Connection) Failure(err error) error {
	var interrupted *collect.InterruptedError
	if errors.As(err, &interrupted) && interrupted.Cause == nil {
		return failure.With(failure.Interrupted, fmt.Errorf("interrupted: %s of %s runs of %s are in %s, the rest in Redis",
			wording.Count(interrupted.Ended), wording.Count(interrupted.Planned), interrupted.Record.ID, f.FolderOf(interrupted.Record)))
	}
	return WithKind(err)
}

// WithKind gives an error of package collect its kind.
func WithKind(err error) error {
	var interrupted *collect.InterruptedError
	var unpriced *collect.UnpricedError
	switch {
	case failure.KindOf(err) != failure.Unforeseen, errors.Is(err, context.Canceled), collect.IsEnding(err):
		return err
	case errors.As(err, &interrupted):
		return failure.With(failure.Interrupted, err)
	case errors.As(err, &unpriced):
		return failure.Usagef("%w; remove budget", err)
	}
	return outdir.StoreError(err)
}

// Unknown returns the error for an id that Redis does not know.
func (f *Connection) Unknown(ctx context.Context, id eval.ID) error {
	known, err := f.Store.Evaluations(ctx)
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	err = fmt.Errorf("%s: %w", id, store.ErrNoEvaluation)
	if near := wording.Nearest(string(id), names); near != "" {
		return failure.Usagef("%w; did you mean %s?", err, near)
	}
	return failure.Usagef("%w; `evalfleet status` lists those that there are", err)
}
