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

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/results"
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
			&cli.BoolFlag{Name: waitFlag, Usage: "wait until all runs have ended, collect the results and write the output files"}),
		Action: func(c *cli.Context) error {
			if c.IsSet(dryRunFlag) {
				return p.dryRun(c, true)
			}
			on, err := failOnOf(c)
			if err != nil {
				return err
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
	if err := p.own.noteSink(d.sinkURL); err != nil {
		d.log.Debug().Err(err).Msg("the results store is not noted: other commands need --" + allowSinkFlag)
	}
	if c.Bool(retryFailedFlag) {
		d.retry = everyFailed
	}
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
	fmt.Fprintf(d.console, "%s: %d runs in queues %v\n", verb, receipt.Runs, receipt.Queues)
	d.warnUnserved(c.Context, submission)
	if c.Bool(waitFlag) {
		d.again = p.again(c)
		if d.place, err = placeOf(c, submission, ""); err != nil {
			return nil, err
		}
		cancelled := d.stay(c.Context, submission, receipt.ID)
		if cancelled != nil && !isEnding(cancelled) {
			return nil, goOnWith(cancelled, p.again(c))
		}
		if err := cmp.Or(cancelled, d.conclude(c.Context, receipt.ID, on)); err != nil {
			return d.answers, err
		}
	}
	_, err = fmt.Fprintln(p.stdout, receipt.ID)
	return d.answers, err
}

// warnUnserved names the judges' providers that no worker says it can call: for
// want of a worker, an address or a key. Their runs wait for one.
func (d *drain) warnUnserved(ctx context.Context, s *config.Submission) {
	offered, err := d.store.Offered(ctx)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot determine whether a worker can call the judges")
		return
	}
	var unserved []string
	for _, judge := range s.Settings.Everyone(s.Evaluation) {
		if !slices.Contains(offered, judge.Provider) && !slices.Contains(unserved, judge.Provider) {
			unserved = append(unserved, judge.Provider)
		}
	}
	if len(unserved) > 0 {
		fmt.Fprintf(d.console, "no live worker can call %s: runs wait for a worker with its key, and with its address if it is not built in\n",
			strings.Join(unserved, " or "))
	}
}

// settleTime is how long workers have, after Redis lost an evaluation, to record
// what they have answered again: they look every second.
const settleTime = 3 * time.Second

// submit stores the evaluation, with what its sink may have recorded before. lost:
// Redis knew it.
func (d *drain) submit(ctx context.Context, s *config.Submission, lost bool) (enqueue.Receipt, error) {
	limits := d.limiter()
	public, err := results.Public(d.sinkURL)
	if err != nil {
		return enqueue.Receipt{}, sinkError(err)
	}
	submission := enqueue.Submission{Evaluation: s.Evaluation, Texts: s.Texts, Settings: s.Settings, SinkURL: public, Retry: d.retry, Lost: lost}
	r, _, err := enqueue.Plan(s.Evaluation.ID(), s.Evaluation, s.Settings)
	if err != nil {
		return enqueue.Receipt{}, withCode(exitUsage, err)
	}
	var recorded results.Reader
	url := cmp.Or(d.sinkURL, filepath.Join(cmp.Or(d.dir, defaultFolder(r.Name, r.ID)), sinkFile))
	stored, err := results.OpenReadOnly(ctx, url)
	if err != nil && !errors.Is(err, results.ErrNoSink) {
		return enqueue.Receipt{}, sinkError(err)
	}
	if err == nil {
		recorded = stored
		defer stored.Close()
		counts, err := recorded.Counts(ctx, r.ID)
		if err != nil {
			return enqueue.Receipt{}, sinkError(err)
		}
		if _, err := spentBefore(ctx, r.ID, s.Settings, recorded); err != nil {
			return enqueue.Receipt{}, err
		}
		for _, phase := range counts {
			lost = lost || phase.Succeeded+phase.Failed > 0
		}
		submission.Recorded = recordedIn(ctx, recorded, r)
		if submission.Choices, err = choicesIn(ctx, recorded, r.ID); err != nil {
			return enqueue.Receipt{}, sinkError(err)
		}
	}
	if lost {
		submission.Settle = settleTime
	}
	receipt, err := (&enqueue.Enqueuer{Store: d.store, Limits: limits, Log: d.log}).Submit(ctx, submission)
	if err == nil {
		err = reseed(ctx, limits, r.ID, recorded)
	}
	switch {
	case err != nil || s.Settings.Budget() == 0:
	case receipt.Created && !lost:
		err = limits.TellSpent(ctx, string(r.ID), 0)
	default:
		var closed bool
		if closed, err = budgetClosed(ctx, limits, r.ID); err == nil && closed {
			return receipt, d.once(ctx, r.ID) // what waits in Redis was spent as well
		}
	}
	return receipt, withCode(exitUnreachable, err)
}

// stay collects until the evaluation is complete.
func (d *drain) stay(ctx context.Context, s *config.Submission, id eval.ID) error {
	return followResubmitting(ctx, d.log, id,
		func(ctx context.Context) error {
			return d.untilRoom(ctx, id, func() error { return d.followOne(ctx, id, true, nil) })
		},
		func(ctx context.Context) error { _, err := d.submit(ctx, s, true); return err })
}

// followResubmitting follows an evaluation to its end. When Redis has lost it,
// it is submitted again; what is in the sink is not asked again. While Redis is
// away it waits.
func followResubmitting(ctx context.Context, log zerolog.Logger, id eval.ID, follow, submit func(context.Context) error) error {
	lost := false
	for {
		step := follow
		if lost {
			step = submit
		}
		err := step(ctx)
		switch {
		case err == nil && !lost:
			return nil
		case err == nil:
			lost = false
			continue
		case errors.Is(err, results.ErrNoEvaluation), errors.Is(err, store.ErrNoEvaluation):
			log.Warn().Str("evaluation", string(id)).Msg("Redis has lost the evaluation; submitting it again")
			lost = true
			continue
		case !outage.Is(err):
			return err
		}
		select {
		case <-time.After(awayFor):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awayFor is how long a Redis that is away is left alone.
const awayFor = 500 * time.Millisecond

// conclude writes the exports of a complete evaluation from its sink.
func (d *drain) conclude(ctx context.Context, id eval.ID, on failOn) error {
	_, sink, out, err := d.open(ctx, id)
	if err != nil {
		return err
	}
	defer out.Close()
	defer sink.Close()
	place := d.place
	place.Dir = out.dir
	return conclude(ctx, conclusion{reader: sink, id: id, place: place, failOn: on, again: d.again, answers: &d.answers, stdout: d.stdout, console: d.console})
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
	client, err := connect(c.Context, at, c.String(namespaceFlag), lease, stays, log)
	if err != nil {
		return nil, err
	}
	return &drain{
		client: client, store: store.New(client, c.String(namespaceFlag)),
		dir: c.String(outDirFlag), allowed: allowed, stdout: p.stdout, console: out, log: log,
	}, nil
}
