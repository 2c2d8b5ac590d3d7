// Package local runs an evaluation on this machine, in one process: it submits the evaluation,
// works on it, drains the results into the output folder and ends it. Without a Redis it starts
// one for itself. It parses no flags and opens no providers.
package local

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/telemetry/eventlog"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Config says what to run and how.
type Config struct {
	Submission *config.Submission
	Record     record.Evaluation // of the submission, as enqueue.Plan returns it with Plans
	Plans      []*plan.Plan
	// Worker executes the runs. Without a Client, an embedded Redis is started.
	Worker   worker.Config
	Place    results.Place               // of files; Dir is the output folder
	StoreURL string                      // of the results store; empty: results.db in the folder
	Earlier  []string                    // URLs of results stores that may have answers to the same questions
	Retry    func(enqueue.Recorded) bool // failed runs to retry; nil: none

	Owner  outdir.Owner // seals the folder's resume.json
	FailOn string       // which failures make the command fail, for resume.json
	Judged bool         // judges compare the answers afterwards, in another evaluation; for resume.json
	Resume string       // the command that resumes after an interruption
	Raise  string       // how to resume with a higher budget

	Screen plain.Screen // shows progress
	// Conclude ranks and writes files, once every run has ended or the evaluation was ended early.
	Conclude func(context.Context, results.Reader) error
}

// job is one call of Run.
type job struct {
	Config
	id eval.ID
}

// Run runs the evaluation and returns when it has ended. If it is interrupted, it keeps finished
// work and its error says how to resume. An evaluation that ends early is an error of package
// collect.
func Run(ctx context.Context, c Config) (err error) {
	j := &job{c, c.Record.ID}
	out, err := outdir.Open(j.Place.Dir)
	if err != nil {
		return err
	}
	defer out.Close()
	db, err := out.OpenStore(ctx, j.StoreURL)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := collect.Put(ctx, db, j.Record, j.Submission.Evaluation, j.Submission.Texts); err != nil {
		return outdir.StoreError(err)
	}
	if len(j.Record.Phases) == 0 { // only votes: no model is asked
		if err := db.Finish(ctx, j.id, time.Now()); err != nil {
			return outdir.StoreError(err)
		}
		return j.Conclude(ctx, db)
	}
	if err := j.reuse(ctx, db); err != nil {
		return err
	}
	if err := j.saveResumption(); err != nil {
		return outdir.Failed(err)
	}
	own := j.Worker.Client == nil
	var more collect.Unrecorded
	var rest *results.Rest
	if own {
		if rest, err = j.openRest(ctx, out, db); err != nil {
			return err
		}
		defer func() { err = errors.Join(failure.With(failure.Unavailable, rest.Close()), err) }()
		end, err := j.embedded()
		if err != nil {
			return err
		}
		defer end()
		begun, openErr := j.openBegun(ctx, out, db)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(failure.With(failure.Unavailable, begun.Close()), err) }()
		more.Begun = begun.Between
		j.Worker.Observer = observe.Join(j.Worker.Observer, observe.Observer{Begun: begun.Note})
		if err := j.remember(ctx, db, begun); err != nil {
			return err
		}
	}

	events, err := eventlog.OpenOwn(out.Path(outdir.EventsFile))
	if err != nil {
		return failure.With(failure.Unavailable, err)
	}
	defer func() { err = errors.Join(failure.With(failure.Unavailable, events.Close()), err) }()
	j.Worker.Cache, j.Worker.Observer = db, observe.Join(j.Worker.Observer, observe.Observer{Event: events.Write})
	if more.Spent, err = collect.Spent(ctx, j.id, j.Submission.Settings, db); err != nil {
		return err
	}

	if own && j.Submission.Settings.Budget() > 0 {
		spending, openErr := outdir.OpenSpent(out.Path(outdir.SpentFile), j.id, more.Spent)
		if openErr != nil {
			return failure.With(failure.Unavailable, openErr)
		}
		defer func() { err = errors.Join(failure.With(failure.Unavailable, spending.Close()), err) }()
		j.Worker.Observer.Spending, more.Spent = spending.Note, spending.Nano()
	}

	ended := j.work(ctx, db, rest, more)
	if ended != nil && !collect.IsEnding(ended) {
		return ended
	}
	return cmp.Or(ended, j.Conclude(context.WithoutCancel(ctx), db))
}

// saveResumption writes what is needed to resume the job.
func (j *job) saveResumption() error {
	e := j.Submission.Evaluation
	r := outdir.Resumption{
		Evaluation: j.id, Providers: map[string]catalog.Entry{},
		Lease: j.Submission.Lease, Slots: j.Worker.Slots, Grace: j.Worker.Grace, FailOn: j.FailOn,
		Redis: j.Worker.Client != nil, Judged: j.Judged, NoReuse: j.Submission.NoReuse,
		Out: j.Place.Out, Data: j.Place.Data, Input: j.Place.Input, CSV: j.Place.CSV, Outs: j.Place.Outs,
	}
	for _, judge := range j.Submission.Settings.Everyone(e) {
		r.Providers[judge.Provider] = j.Submission.Providers[judge.Provider]
	}
	var err error
	if r.ResultsURL, err = outdir.SavedURL(j.StoreURL); err != nil {
		return err
	}
	if err := errors.Join(j.Owner.NoteStore(j.StoreURL), j.Owner.Seal(&r)); err != nil {
		j.Worker.Log.Debug().Err(err).Msg("resume.json is not sealed: resuming will ask about addresses")
	}
	return r.Save(j.Place.Dir)
}
