package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/config/endpoints"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/fleet/local"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/worker"
)

func runCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "Run an evaluation on this machine",
		ArgsUsage: "FILE…|FOLDER",
		Description: "Plans, executes, collects and ranks in one process. It starts its own Redis unless --redis is set. Results are " +
			"written to the output folder as they arrive. To resume after an interruption, repeat the command or run " +
			"`evalfleet resume` with the output folder; recorded runs are not repeated. With until, it ends once the best are " +
			"known. A FOLDER instead of a FILE compares " +
			"its documents in pairs; set the judges with --judge. Files of answers, also several or a pattern, are compared question by " +
			"question, in the formats of many evaluation tools. Listed runs, from the file, --runs-config, --runs-stdin, " +
			"or --file-a and --file-b, write each answer to a file and print its path.",
		Flags: append(append(submitFlags(), workFlags(metricsOff)...), sinkFlag(), allowKeysOption(), yesOption()),
		Action: func(c *cli.Context) error {
			if c.IsSet(dryRunFlag) {
				return p.dryRun(c, false)
			}
			asked, err := p.request(c, false)
			if err != nil {
				return err
			}
			if err := p.grantKeys(c, asked); err != nil {
				return err
			}
			if err := p.grantCommands(c, asked); err != nil {
				return err
			}

			return p.inTurn(c, asked, func(s *config.Submission) (answers []string, err error) {
				if inParts(s) {
					return nil, p.runParts(c, s)
				}
				j, err := p.newJob(c, s, evaluationDir(c, s))
				if err != nil {
					return nil, err
				}
				if err := p.runCommands(c.Context, s, j.stored); err != nil {
					return nil, err
				}
				if err = p.confirmCost(c, s, j.how.slots); err != nil {
					return nil, err
				}
				err = j.run(c.Context)
				return j.answers, err
			})
		},
	}
}

// newJob reads the command line of `run` for one evaluation with the output folder dir.
func (p *process) newJob(c *cli.Context, submission *config.Submission, dir string) (*job, error) {
	out, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	on, err := failOnOf(c)
	if err != nil {
		return nil, err
	}

	how, err := workOf(c)
	if err != nil {
		return nil, err
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return nil, err
	}

	j := p.jobOf(c, submission, out, log)
	j.redis, j.how, j.failOn = at, how, on
	j.StoreURL = cmp.Or(c.String(sinkFlagName), submission.Sink)
	if j.Place, err = placeOf(c, submission, dir); err != nil {
		return nil, err
	}
	j.Earlier = p.own.Earlier(dir, submission.Providers)
	j.Resume, j.Raise = resumeWith(c, dir), p.raise(c)
	if c.IsSet(judgeFolderFlag) { // the part after it does not belong to the folder
		j.Resume = p.again(c)
	}
	if c.Bool(retryFailedFlag) {
		j.Retry = fleet.EveryFailed
	}
	return j, nil
}

// jobOf returns a job with the fields that come from the process and the command line.
func (p *process) jobOf(c *cli.Context, submission *config.Submission, out *terminal.Console, log zerolog.Logger) *job {
	j := &job{env: p.env, keys: p.keys, printing: p.printing(c), stdout: p.stdout, console: out}
	j.Submission, j.Owner = submission, p.own
	j.Worker = worker.Config{Namespace: c.String(namespaceFlag), AtOnce: p.atOnce, Log: log}
	return j
}

// job is one `run`: an evaluation, and the settings with which this process executes it.
type job struct {
	local.Config
	redis  dial.Settings // no URL: an embedded one
	how    work
	failOn failOn

	part    bool     // another part comes after it: its own result is not printed
	answers []string // paths of the files with answers, set after the run
	env     config.Lookup
	keys    config.Lookup // as in process
	printing
	stdout  io.Writer
	console *terminal.Console
}

// run opens what the job needs, and executes it. It reports invalid input before anything is written.
func (j *job) run(ctx context.Context) (err error) {
	e := j.Submission.Evaluation
	if j.Record, j.Plans, err = enqueue.Plan(e.ID(), e, j.Submission.Settings); err != nil {
		return failure.With(failure.Usage, err)
	}
	if err := local.CheckQueues(j.Record, j.how.queues, j.redis.URL == ""); err != nil {
		if errors.As(err, new(*local.UnservedError)) {
			err = fmt.Errorf("%w: add that queue, or set the fleet's Redis with --%s", err, redisFlag)
		}
		return usageError("--%s: %w", queuesFlag, err)
	}
	asked := endpoints.OfJudges(j.Submission.Settings.Everyone(e))
	callable, err := endpoints.Open(ctx, j.Submission.Providers, j.env, j.keys, j.how.slots, asked)
	if err != nil {
		return err
	}
	defer callable.Close()
	j.Worker.Endpoints, j.Worker.Lease = callable.ByName, j.Submission.Lease
	j.Worker.Observer.Stopping = func(inFlight int, grace time.Duration) {
		if ctx.Err() != nil {
			sayStopping(j.console, inFlight, grace)
		}
	}
	open, err := j.how.open(ctx, &j.Worker, j.env, callable, j.Worker.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(failure.With(failure.Unavailable, open.Close()), err) }()

	if j.redis.URL != "" {
		evaluations, err := connect(ctx, j.redis, j.Worker.Namespace, dial.Controller, j.Submission.Lease, true, j.Worker.Log)
		if err != nil {
			return err
		}
		j.Worker.Client = store.Universal(evaluations)
		defer j.Worker.Client.Close()
	}

	j.Screen, j.FailOn = j.console, string(j.failOn)
	j.Conclude = func(ctx context.Context, store results.Reader) error {
		err := conclude(ctx, conclusion{
			reader: store, id: e.ID(), place: j.Place, failOn: j.failOn,
			again: j.Resume, answers: &j.answers, part: j.part, printing: j.printing, stdout: j.stdout, console: j.console,
		})
		return failure.With(kindOf(err), err)
	}
	return fleet.WithKind(local.Run(ctx, j.Config))
}

// sayStopping tells a user who has asked for a stop what the command waits for, and how to stop without waiting.
func sayStopping(to io.Writer, inFlight int, grace time.Duration) {
	if inFlight > 0 {
		fmt.Fprintf(to, "stopping: %s in flight have up to %s to finish; press Ctrl-C again to abort them\n",
			wording.Counted(inFlight, "call"), grace)
	}
}
