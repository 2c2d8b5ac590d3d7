package local

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// reuse records the runs whose questions earlier evaluations have answered. A results store that cannot be searched
// ends nothing: the questions are asked again.
func (j *job) reuse(ctx context.Context, db results.Store) error {
	if j.Submission.NoReuse || j.underWay(ctx) {
		return nil
	}
	others, closeAll := reuse.Open(ctx, j.Earlier, j.Worker.Log)
	defer closeAll()

	known, err := reuse.Find(ctx, reuse.Asking{Evaluation: j.Submission.Evaluation, Record: j.Record, Plans: j.Plans}, db, others...)
	if ctx.Err() != nil {
		return nil // the work ends, too, and says how to resume
	}
	if err != nil {
		j.Worker.Log.Warn().Err(err).Msg("cannot look for earlier answers; asking everything")
		return nil
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
