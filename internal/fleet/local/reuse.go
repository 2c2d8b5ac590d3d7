package local

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// reuse records the runs whose questions earlier evaluations have answered. A results store that cannot be searched
// ends nothing: the questions are asked again. Only a ranking that grows ends if recorded pairs would be asked again.
func (j *job) reuse(ctx context.Context, db results.Store) error {
	grows := j.Submission.Evaluation.Board != nil
	if j.Submission.NoReuse && !grows || j.underWay(ctx) {
		return nil
	}
	others, closeAll := reuse.Open(ctx, j.Earlier, j.Worker.Log)
	defer closeAll()

	known, err := reuse.Find(ctx, reuse.Asking{
		Evaluation: j.Submission.Evaluation, Record: j.Record, Plans: j.Plans, Fresh: j.Submission.NoReuse,
	}, db, others...)
	if ctx.Err() != nil {
		return nil // the work ends, too, and says how to resume
	}
	if err != nil && grows {
		return outdir.StoreError(fmt.Errorf("find the recorded pairs, which are not asked again: %w", err))
	}
	if err != nil {
		j.Worker.Log.Warn().Err(err).Msg("cannot look for earlier answers; asking everything")
		return nil
	}
	if n := known.Lost(); n > 0 {
		return failure.Usagef(
			"the results store lacks %s on recorded pairs of %s, and they would be asked again; restore it from a backup, or "+
				"rank all candidates anew with `evalfleet run`", wording.Counted(n, "verdict"), j.Submission.Evaluation.Board.Evaluation,
		)
	}
	if known.Runs() == 0 {
		return nil
	}
	if err := known.Store(ctx, db); err != nil {
		return outdir.StoreError(err)
	}
	fmt.Fprintf(j.Screen, "%s and not asked again\n", known)
	return nil
}

// underWay reports whether a fleet's Redis has the evaluation already: its runs have been queued.
func (j *job) underWay(ctx context.Context) bool {
	if j.Worker.Client == nil {
		return false
	}
	_, err := store.New(j.Worker.Client, j.Worker.Namespace).Evaluation(ctx, j.id)
	return err == nil
}
