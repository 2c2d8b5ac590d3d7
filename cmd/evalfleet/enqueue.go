package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/report"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
)

const waitFlag = "wait"

func enqueueCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "enqueue",
		Usage:     "Submit an evaluation to a fleet and print its id",
		ArgsUsage: "FILE|FOLDER",
		Description: "Stores the plan, the documents and the first runs in Redis for the workers, and prints the evaluation's id as " +
			"the last line. Submitting the same evaluation again resumes it. With --wait, the command stays until all " +
			"results are in the results store, and then writes the output files.",
		Flags: append(submitFlags(), sinkFlag(),
			&cli.StringFlag{Name: serverFlag, Usage: "`URL` of a controller's pages that takes the evaluation instead of a Redis, such as https://ann@evals.example.org (default --redis)"},
			&cli.BoolFlag{Name: waitFlag, Usage: "wait until all runs have ended, collect the results and write the output files"}),
		Action: func(c *cli.Context) error {
			if c.IsSet(dryRunFlag) {
				return p.dryRun(c, true)
			}
			on, err := failOnOf(c)
			if err != nil {
				return err
			}
			if c.IsSet(serverFlag) {
				return p.enqueueAt(c, on)
			}
			asked, err := p.request(c, true)
			if err != nil {
				return err
			}
			if asked.judges != nil && !c.Bool(waitFlag) {
				return usageError("--%s needs --%s: its judges are asked when the experiment has ended", judgeFolderFlag, waitFlag)
			}
			return p.inTurn(c, asked, func(s *config.Submission) ([]string, error) {
				if len(plan.Phases(s.Evaluation)) == 0 {
					return nil, usageError("no judges, so there is nothing to enqueue; `evalfleet run` ranks votes alone")
				}
				return p.enqueue(c, s, on)
			})
		},
	}
}

func (p *process) enqueue(c *cli.Context, submission *config.Submission, on failOn) (answers []string, err error) {
	d, err := p.openDrain(c, 0, true)
	if err != nil {
		return nil, err
	}
	defer d.client.Close()
	d.dir = outDir(c, submission)
	d.sinkURL = cmp.Or(c.String(sinkFlagName), submission.Sink)
	if err := p.own.NoteStore(d.sinkURL); err != nil {
		d.log.Debug().Err(err).Msg("the results store is not noted: other commands need --" + allowSinkFlag)
	}
	if c.Bool(retryFailedFlag) {
		d.retry = everyFailed
	}
	d.waits = c.Bool(waitFlag)
	receipt, err := d.submit(c.Context, submission, false)
	if errors.Is(err, store.ErrCancelled) {
		return nil, usageError("%w; `evalfleet delete %s` lets it be submitted again", err, submission.Evaluation.ID())
	}
	if err != nil {
		return nil, err
	}
	if receipt.Kept {
		fmt.Fprintf(d.console, "%s is active with other settings, which stay in force: `evalfleet pause %s`, then submit it again\n", receipt.ID, receipt.ID)
	}
	verb := "enqueued"
	if !receipt.Created {
		verb = "already in Redis, resumed"
	}
	fmt.Fprintf(d.console, "%s: %s in queues %v\n", verb, wording.Counted(receipt.Runs, "run"), receipt.Queues)
	if warning := d.unserved(c.Context, submission); warning != "" {
		fmt.Fprintln(d.console, warning)
	}
	if c.Bool(waitFlag) {
		d.again = p.again(c)
		if d.place, err = placeOf(c, submission, ""); err != nil {
			return nil, err
		}
		collected, cancelled := d.stay(c.Context, submission, receipt.ID)
		if cancelled != nil && !collect.IsEnding(cancelled) {
			return nil, goOnWith(cancelled, p.again(c))
		}
		if err := cmp.Or(cancelled, d.conclude(c.Context, collected, on)); err != nil {
			return d.answers, err
		}
	}
	_, err = fmt.Fprintln(p.stdout, receipt.ID)
	return d.answers, err
}

// unserved names the judges' providers that no live worker can call, because no worker
// has their key or address. Their runs wait for one. It is empty if there are none.
func (d *drain) unserved(ctx context.Context, s *config.Submission) string {
	offered, err := d.store.Offered(ctx)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot determine whether a worker can call the judges")
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
	return fmt.Sprintf("no live worker can call %s: runs wait for a worker with its key, and with its address if it is not built in", strings.Join(unserved, " or "))
}

// submit stores the evaluation, with the runs that its results store may have recorded before.
// lost: Redis knew it.
func (d *drain) submit(ctx context.Context, s *config.Submission, lost bool) (enqueue.Receipt, error) {
	public, err := results.Public(d.sinkURL)
	if err != nil {
		return enqueue.Receipt{}, folder.StoreError(err)
	}
	e := s.Evaluation
	id := e.ID()
	if _, _, err := enqueue.Plan(id, e, s.Settings); err != nil {
		return enqueue.Receipt{}, withCode(exitUsage, err)
	}
	var recorded results.Reader
	stored, err := results.OpenReadOnly(ctx, cmp.Or(d.sinkURL, filepath.Join(cmp.Or(d.dir, folder.Default(e.Name, id)), folder.ResultsFile)))
	switch {
	case err == nil:
		recorded = stored
		defer stored.Close()
	case !errors.Is(err, results.ErrNoSink):
		return enqueue.Receipt{}, folder.StoreError(err)
	}
	sink, err := d.claim(ctx, e, id)
	if err != nil {
		return enqueue.Receipt{}, err
	}
	receipt, closed, err := d.fleet().Submit(ctx, enqueue.Submission{
		Evaluation: e, Texts: s.Texts, Settings: s.Settings, SinkURL: public, Sink: sink, Retry: d.retry, Lost: lost,
	}, recorded)
	if err == nil && closed {
		return receipt, d.once(ctx, id) // results waiting in Redis were paid for as well
	}
	return receipt, collectError(err)
}

// claim makes the results store of an evaluation that this process is about to submit and to
// collect, and returns its id. It is in the evaluation's record from the first, so that no
// other process begins to collect, however late this one does. It is empty if another process
// is to collect, or Redis has the evaluation.
func (d *drain) claim(ctx context.Context, e *eval.Evaluation, id eval.ID) (string, error) {
	if !d.waits {
		return "", nil
	}
	if _, err := d.store.Evaluation(ctx, id); !errors.Is(err, store.ErrNoEvaluation) {
		return "", withCode(exitUnreachable, err)
	}
	sink, err := d.open(ctx, record.Evaluation{ID: id, Name: e.Name})
	if err != nil {
		return "", err
	}
	return sink.ID(), folder.StoreError(sink.Close())
}

// stay collects until the evaluation is complete, and submits it again when Redis has
// lost it. It returns the record of what was collected.
func (d *drain) stay(ctx context.Context, s *config.Submission, id eval.ID) (record.Evaluation, error) {
	fleet := d.fleet()
	fleet.Stops = true
	var files *folder.EarlyFiles
	fleet.Open = func(ctx context.Context, r record.Evaluation) (results.Sink, error) {
		sink, err := d.open(ctx, r)
		files = &folder.EarlyFiles{Reader: sink, ID: id, Place: d.place, Log: d.log}
		files.Place.Dir = d.folderOf(r)
		return sink, err
	}
	fleet.Committed = func(entries []record.Entry) { files.Committed(context.WithoutCancel(ctx), entries) }
	var outcome collect.Outcome
	err := collect.Resubmitting(ctx, d.log, id,
		func(ctx context.Context) (err error) { outcome, err = fleet.Follow(ctx, id); return err },
		func(ctx context.Context) error { _, err := d.submit(ctx, s, true); return err })
	return outcome.Record, cmp.Or(d.failure(err), d.ended(outcome))
}

// conclude writes the exports of a complete evaluation from its results store. Redis is only
// told of the result: by now it may be unavailable, or have lost the evaluation.
func (d *drain) conclude(ctx context.Context, r record.Evaluation, on failOn) error {
	sink, err := d.open(ctx, r)
	if err != nil {
		return d.failure(err)
	}
	defer sink.Close()
	id := r.ID
	place := d.place
	place.Dir = d.folderOf(r)
	return conclude(ctx, conclusion{reader: sink, id: id, place: place, failOn: on, again: d.again, answers: &d.answers, printing: d.printing, stdout: d.stdout, console: d.console,
		ended: func(built *report.Report) error {
			result := record.Result{At: time.Now().UTC().Truncate(time.Second), Headline: built.Headline(), Elsewhere: r.SinkURL == ""}
			return withCode(exitUnreachable, outage.Through(ctx, func(ctx context.Context) error { return d.store.Conclude(ctx, id, result) }))
		}})
}

// openDrain connects to the fleet's Redis, for those who stay or look in; lease is as
// in connect.
func (p *process) openDrain(c *cli.Context, lease time.Duration, stays bool) (*drain, error) {
	out, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	if c.String(redisFlag) == "" {
		return nil, usageError("%s needs the fleet's Redis: name it with --%s or REDIS_URL", c.Command.Name, redisFlag)
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return nil, err
	}
	allowed, err := p.allowedSinks(c)
	if err != nil {
		return nil, err
	}
	client, err := connect(c.Context, at, c.String(namespaceFlag), roleOf(c), lease, stays, log)
	if err != nil {
		return nil, err
	}
	return &drain{
		client: client, store: store.New(client, c.String(namespaceFlag)),
		dir: c.String(outDirFlag), allowed: allowed, printing: p.printing(c), stdout: p.stdout, console: out, log: log,
	}, nil
}
