package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// Options says how an evaluation is submitted.
type Options struct {
	Retry func(enqueue.Recorded) bool // failed runs to retry; nil: none
	Waits bool                        // this process collects what it submits
	Lost  bool                        // Redis had the evaluation and lost it
}

// Submit stores the evaluation, with the runs that its results store may have recorded before.
func (f *Connection) Submit(ctx context.Context, s *config.Submission, o Options) (receipt enqueue.Receipt, err error) {
	public, err := results.Public(f.ResultsURL)
	if err != nil {
		return enqueue.Receipt{}, outdir.StoreError(err)
	}
	e := s.Evaluation
	id := e.ID()
	planned, plans, err := enqueue.Plan(id, e, s.Settings)
	if err != nil {
		return enqueue.Receipt{}, failure.With(failure.Usage, err)
	}
	recorded, err := OpenStore(ctx, f.ownStore(planned))
	if err != nil {
		return enqueue.Receipt{}, err
	}
	defer func() {
		if recorded != nil {
			err = errors.Join(err, recorded.Close())
		}
	}()
	url := ""
	if o.Waits {
		var known int
		if url, known, err = f.claim(ctx, s, reuse.Asking{Evaluation: e, Record: planned, Plans: plans}); err != nil {
			return enqueue.Receipt{}, err
		}
		if known > 0 && recorded == nil {
			if recorded, err = OpenStore(ctx, f.ownStore(planned)); err != nil {
				return enqueue.Receipt{}, err
			}
		}
	}
	receipt, closed, err := f.Collector().Submit(ctx, enqueue.Submission{
		Evaluation: e, Texts: s.Texts, Settings: s.Settings, Record: planned, Plans: plans,
		ResultsURL: public, ResultsID: url, Retry: o.Retry, Lost: o.Lost,
	}, recorded)
	if err != nil || !closed {
		return receipt, WithKind(err)
	}

	err = f.once(ctx, id) // results that wait in Redis were paid for as well
	switch dir := f.FolderOf(record.Evaluation{ID: id, Name: e.Name}); {
	case errors.Is(err, outdir.ErrInUse):
		fmt.Fprintf(
			f.Screen,
			"output folder %s is in use by another evalfleet: calls under a budget or daily quota start once it has collected the results of %s\n",
			dir, id,
		)
		return receipt, nil
	case err != nil:
		return receipt, fmt.Errorf(
			"%s is submitted, but its results cannot be collected, and calls under its budget or daily quota wait for that: %w",
			id, err,
		)
	}
	return receipt, nil
}

// Known returns the words for an evaluation that Redis had before it was submitted: what became of it, and, if
// the submission names another results store than the record, where its results are. Those stay where they are.
func (f *Connection) Known(ctx context.Context, id eval.ID) (became, elsewhere string, err error) {
	r, err := f.Store.Evaluation(ctx, id)
	if err != nil {
		return "", "", WithKind(err)
	}
	became = "already in Redis, resumed"
	if r.Status == record.StatusDone {
		became = "already in Redis, and done"
	}

	asked, err := outdir.SavedURL(f.ResultsURL)
	if err != nil {
		return "", "", outdir.StoreError(err)
	}
	has, err := outdir.SavedURL(r.ResultsURL)
	if err != nil || asked == "" || asked == has {
		return became, "", outdir.StoreError(err)
	}
	where := "in the output folder of the process that collects it"
	if has != "" {
		where = "in " + outdir.PublicURL(r.ResultsURL)
	}
	return became, fmt.Sprintf(
		"its results are %s, not in %s, because an evaluation has one results store", where, outdir.PublicURL(f.ResultsURL),
	), nil
}

// claim creates the results store of an evaluation that this process is about to submit and to
// collect, and returns the store's id. The evaluation's record has it from the beginning, so that
// no other process begins to collect, however late this one does. The id is empty if another
// process collects, or Redis has the evaluation already. Runs whose questions other evaluations in
// that store have answered are recorded in it; known is their number.
func (f *Connection) claim(ctx context.Context, s *config.Submission, asking reuse.Asking) (id string, known int, err error) {
	if _, err := f.Store.Evaluation(ctx, asking.Record.ID); !errors.Is(err, store.ErrNoEvaluation) {
		return "", 0, failure.With(failure.Unavailable, err)
	}
	db, err := f.Open(ctx, asking.Record)
	if err != nil {
		return "", 0, err
	}
	if !s.NoReuse {
		if known, err = f.reuse(ctx, db, s, asking); err != nil {
			return "", 0, errors.Join(outdir.StoreError(err), db.Close())
		}
	}
	return db.ID(), known, outdir.StoreError(db.Close())
}

// reuse records the runs of an evaluation whose questions others in its results store have answered.
func (f *Connection) reuse(ctx context.Context, db results.Store, s *config.Submission, asking reuse.Asking) (int, error) {
	known, err := reuse.Find(ctx, asking, db)
	if err != nil || known.Runs() == 0 {
		return 0, err
	}
	if err := collect.Put(ctx, db, asking.Record, asking.Evaluation, s.Texts); err != nil {
		return 0, err
	}
	fmt.Fprintf(f.Screen, "%s and not asked again\n", known)
	return known.Runs(), known.Store(ctx, db)
}

// Stay collects until the evaluation is complete, and submits it again if Redis has lost it. While
// another process uses the output folder, such as a controller that collects the evaluation, Stay
// waits. It returns the record of what was collected.
func (f *Connection) Stay(ctx context.Context, s *config.Submission, id eval.ID, o Options) (record.Evaluation, error) {
	o.Lost = true
	collector := f.Collector()
	collector.Stops = true
	var files *outdir.EarlyFiles
	collector.Open = func(ctx context.Context, r record.Evaluation) (results.Store, error) {
		db, err := f.Open(ctx, r)
		files = &outdir.EarlyFiles{Reader: db, ID: id, Place: f.Place, Log: f.Log}
		files.Place.Dir = f.FolderOf(r)
		return db, err
	}
	collector.Committed = func(entries []record.Entry) { files.Committed(context.WithoutCancel(ctx), entries) }
	var outcome collect.Outcome
	of := record.Evaluation{ID: id, Name: s.Evaluation.Name}
	err := collect.Resubmitting(ctx, f.Log, id,
		func(ctx context.Context) error {
			return f.inTurn(ctx, of, func() (err error) { outcome, err = collector.Follow(ctx, id); return err })
		},
		func(ctx context.Context) error {
			return f.inTurn(ctx, of, func() error { _, err := f.Submit(ctx, s, o); return err })
		})
	return outcome.Record, cmp.Or(f.Failure(err), f.ended(outcome))
}

// folderTime is the interval at which inTurn checks whether an output folder is still in use.
const folderTime = time.Second

// inTurn calls do as soon as no other process uses the output folder of an evaluation.
func (f *Connection) inTurn(ctx context.Context, of record.Evaluation, do func() error) error {
	dir, said := f.FolderOf(of), false
	for {
		err := do()
		if !errors.Is(err, outdir.ErrInUse) {
			return err
		}

		if !said {
			fmt.Fprintf(f.Screen, "output folder %s is in use by another evalfleet; waiting until it has collected the results\n", dir)
			said = true
		}
		for errors.Is(err, outdir.ErrInUse) {
			if outage.Pause(ctx, folderTime) != nil {
				return failure.With(failure.Interrupted, fmt.Errorf("interrupted while waiting for output folder %s; %s stays in Redis", dir, of.ID))
			}
			err = free(dir)
		}
	}
}

// free returns outdir.ErrInUse if another process uses an output folder.
func free(dir string) error {
	out, err := outdir.Open(dir)
	if err != nil {
		return err
	}
	return out.Close()
}

// Unserved returns a warning that names the judges' providers that no live worker can call, because
// no worker has their key or address. Their runs wait for one. It is empty if there are none.
func (f *Connection) Unserved(ctx context.Context, s *config.Submission) string {
	offered, err := f.Store.Offered(ctx)
	if err != nil {
		f.Log.Warn().Err(err).Msg("cannot determine whether a worker can call the judges")
		return ""
	}
	var unserved []string
	for _, judge := range s.Settings.Everyone(s.Evaluation) {
		if !slices.Contains(offered, judge.Provider) && !slices.Contains(unserved, judge.Provider) {
			unserved = append(unserved, judge.Provider)
		}
	}
	if len(unserved) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"no live worker can call %s: runs wait for a worker that has its key (and its address, if it is not built in)",
		strings.Join(unserved, " or "),
	)
}
