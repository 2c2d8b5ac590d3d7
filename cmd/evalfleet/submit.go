package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Flags of the commands that submit or execute evaluations.
const (
	judgeFlag          = "judge"
	limitFlag          = "limit"
	againFlag          = "again"
	noReuseFlag        = "no-reuse"
	maxConcurrencyFlag = "max-concurrency"
	jsonModeFlag       = "json-mode"
	failOnFlag         = "fail-on"
	retryFailedFlag    = "retry-failed"
	sinkFlagName       = "sink"
	runsConfigFlag     = "runs-config"
	runsStdinFlag      = "runs-stdin"
	fileAFlag          = "file-a"
	fileBFlag          = "file-b"
	providerFlag       = "provider"
	modelFlag          = "model"
	outFlag            = "out"
	batchFlag          = "batch"
	pairsFlag          = "pairs"
	topFlag            = "top"
	budgetFlag         = "budget"
)

// submitFlags returns the flags of `run` and `enqueue`.
func submitFlags() []cli.Flag {
	return append(questionFlags(), dryRunOption(), failOnOption(), detailsOption(), openOption(), allowCommandsOption(),
		&cli.BoolFlag{Name: retryFailedFlag, Usage: "also retry failed runs"})
}

func allowCommandsOption() cli.Flag {
	return &cli.BoolFlag{
		Name:  allowCommandsFlag,
		Usage: "run the commands of FILE's checks on this machine (default ask on a terminal, else refuse)",
	}
}

func failOnOption() cli.Flag {
	return &cli.StringFlag{Name: failOnFlag, Value: string(failOnAny), Usage: "exit with 1 if `WHICH` runs failed: any, all or never"}
}

// questionFlags returns the flags that select the questions and the runs.
func questionFlags() []cli.Flag {
	return append([]cli.Flag{
		judgeOption(),
		&cli.IntFlag{Name: limitFlag, Usage: "execute only the first `N` runs of the plan (default 0, all)"},
		&cli.StringFlag{Name: againFlag, Usage: "start a new evaluation under this `NAME` (default resume the evaluation of the same questions)"},
		&cli.BoolFlag{Name: noReuseFlag, Usage: "also ask what earlier evaluations have recorded answers to"},
		&cli.IntFlag{
			Name:  maxConcurrencyFlag,
			Usage: "at most `N` calls of this evaluation in flight (default from its file, else from the fleet's or providers' limits, else 5)",
		},
		&cli.StringFlag{
			Name:  pairsFlag,
			Usage: "compare these `PAIRS` of a folder or of files of answers: all, sample:0.2, swiss or '{baseline: NAME}' (default all)",
		},
		&cli.IntFlag{Name: topFlag, Usage: "end once the best `N` of a folder or of files of answers are known (default 0, compare all)"},
		&cli.StringFlag{Name: budgetFlag, Usage: "start no call that could exceed `USD`, for a folder or files of answers (default no budget)"},
		&cli.StringFlag{Name: jsonModeFlag, Usage: "structured output `MODE`: false, true or auto (default from the file)"},
	}, slices.Concat(inputFlags(), listFlags())...)
}

func judgeOption() cli.Flag {
	return &cli.StringSliceFlag{
		Name: judgeFlag, Aliases: []string{"j"},
		Usage: "judge, as `PROVIDER:MODEL`, or for experiments a name in --judge-folder; required with a folder; repeatable (default none)",
	}
}

func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: runsConfigFlag,
			Usage: "`FILE` with a list of runs: a YAML list, or one under the key runs. The FILE argument is then optional " +
				"and contains the settings (default the list in that file)",
		},
		&cli.BoolFlag{Name: runsStdinFlag, Usage: "read the list of runs from standard input as a JSON array"},
		&cli.StringFlag{Name: fileAFlag, Usage: "`FILE` with the instructions of a single run; requires --file-b (default none)"},
		&cli.StringFlag{Name: fileBFlag, Usage: "`FILE` with the input of a single run; requires --file-a (default none)"},
		&cli.StringFlag{
			Name:  providerFlag,
			Usage: "`NAME` of the provider for listed runs that set none (default from their file, else --config), and for a Batch file",
		},
		&cli.StringFlag{
			Name:  modelFlag,
			Usage: "`NAME` of the model for listed runs that set none (default from their file, else --config), and for a Batch file",
		},
		&cli.StringFlag{Name: outFlag, Usage: "`PATH` for the answer of --file-a and --file-b, in any folder (default in the output folder)"},
		&cli.BoolFlag{Name: batchFlag, Usage: "execute runs concurrently even if the file says concurrency: {enabled: false}"},
	}
}

func sinkFlag() cli.Flag {
	return &cli.StringFlag{
		Name: sinkFlagName,
		Usage: "`URL` of the results store: sqlite:PATH or postgres://[user@]host/database, with ?search_path=SCHEMA if " +
			"needed (default from --config, else results.db in the output folder). " +
			"Pass the password in PGPASSWORD or ~/.pgpass; other libpq settings apply too",
	}
}

// request holds what a command line asks for: one evaluation, or each experiment of a folder.
type request struct {
	submissions []*config.Submission
	refused     []refusedInput      // those of several inputs that cannot be submitted
	judges      *config.JudgeFolder // asked about the answers of each experiment; nil: none
	options     config.Options
}

// refusedInput is an input that cannot be submitted, and why.
type refusedInput struct {
	path string
	err  error
}

// request reads what the command line names. forFleet means that other processes will make the calls. Of several
// experiments, the invalid ones are skipped; on any other error nothing is started.
func (p *process) request(c *cli.Context, forFleet bool) (*request, error) {
	listed := p.listed(c)
	inputs, err := p.inputs(c, listed != (config.Listed{}))
	if err != nil {
		return nil, err
	}

	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return nil, err
	}
	r := &request{options: config.Options{
		Env: p.keys, Now: p.now(), AllowOutside: c.Bool(allowOutsideFlag),
		RunsCommands: true, Fleet: fleet, ForFleet: forFleet, Waits: c.Bool(waitFlag),
		Listed: listed, Experiment: experimentOptions(c),
		Provider: c.String(providerFlag), Model: c.String(modelFlag), Batch: c.Bool(batchFlag),
		NoReuse: c.Bool(noReuseFlag),
		JSON:    eval.JSONMode(c.String(jsonModeFlag)), Again: c.String(againFlag), Limit: c.Int(limitFlag),
		Compare: config.Compare{Pairs: c.String(pairsFlag), Top: c.Int(topFlag), Budget: c.String(budgetFlag)},
	}}
	if r.options.Replaceable, err = results.Replaceable("."); err != nil {
		return nil, failure.With(failure.Usage, err)
	}
	if r.options.Limit < 0 {
		return nil, usageError("--%s must be 0 or more, got %d", limitFlag, r.options.Limit)
	}
	if c.IsSet(maxConcurrencyFlag) {
		n := c.Int(maxConcurrencyFlag)
		r.options.MaxConcurrency = &n
	}

	var problems []error
	for _, in := range inputs {
		s, err := in.Load(c.StringSlice(judgeFlag), r.options)
		if err != nil {
			r.refused = append(r.refused, refusedInput{in.Path, err})
			continue
		}
		for _, line := range s.Taken {
			fmt.Fprintln(p.stderr, p.folded(line))
		}
		p.warn(s.Warnings)
		r.submissions = append(r.submissions, s)
	}

	for _, in := range r.refused {
		if len(r.submissions) == 0 {
			problems = append(problems, in.err)
		} else {
			fmt.Fprintf(p.stderr, "evalfleet: skipping %s:\n%s\n", in.path, message(in.err))
		}
	}

	if dir := c.String(judgeFolderFlag); dir != "" {
		if r.judges, err = config.LoadJudgeFolder(dir, []string{c.String(judgeTemplatesFlag)}, c.StringSlice(judgeFlag), r.options); err != nil {
			problems = append(problems, err)
		}
	}

	return r, joined(problems)
}

// each processes one evaluation after another. It continues after failed runs, and ends on any other error. The error
// also names the inputs that were skipped.
func (r *request) each(do func(*config.Submission) error) error {
	var failed []error
	for _, s := range r.submissions {
		err := do(s)
		if err != nil && (len(r.submissions)+len(r.refused) == 1 || codeOf(err) != exitRunsFailed) {
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Evaluation.Name, err))
		}
	}
	for _, in := range r.refused {
		failed = append(failed, usageError("%s was skipped: see its problems above", in.path))
	}
	return joined(failed)
}

// joined joins all errors, with the exit code of the first.
func joined(problems []error) error {
	if len(problems) < 2 {
		return errors.Join(problems...)
	}
	texts := make([]string, len(problems))
	for i, err := range problems {
		texts[i] = message(err)
	}
	return failure.With(kindOf(problems[0]), errors.New(strings.Join(texts, "\n")))
}

// listed returns the runs that flags list.
func (p *process) listed(c *cli.Context) config.Listed {
	listed := config.Listed{
		File: c.String(runsConfigFlag), FileA: c.String(fileAFlag), FileB: c.String(fileBFlag), Out: c.String(outFlag),
	}
	if c.Bool(runsStdinFlag) {
		listed.JSON = p.stdin
	}
	return listed
}

// output returns a console for the command's messages, and a log that writes to it.
func (p *process) output(c *cli.Context) (*terminal.Console, zerolog.Logger, error) {
	out := terminal.New(p.stderr)
	level := c.String(logLevelFlag)
	if level == "" && p.format == terminal.Plain && !slices.Contains(services, c.Command.Name) {
		level = "warn" // people get the rest as messages
	}
	log, err := out.Log(level, p.format)
	switch {
	case errors.Is(err, terminal.ErrLevel):
		err = usageError("--%s: %w", logLevelFlag, err)
	case err != nil:
		err = usageError("--%s: %w", logFormatFlag, err)
	}
	return out, log, err
}

func failOnOf(c *cli.Context) (failOn, error) {
	switch on := failOn(c.String(failOnFlag)); on {
	case failOnAny, failOnAll, failOnNever:
		return on, nil
	default:
		return "", usageError("--%s: got %q, want any, all or never", failOnFlag, on)
	}
}

// raise begins the advice for an evaluation whose budget in its file is spent; a command follows.
const raise = "raise budget in the evaluation file and resume with: "

// raise says how to resume with a higher budget.
func (p *process) raise(c *cli.Context) string {
	if c.IsSet(budgetFlag) {
		return "continue with a higher budget: " + p.again(c, budgetFlag) + " --" + budgetFlag + " USD"
	}
	return raise + p.again(c)
}

// again returns the command line that resumes an interrupted command, without passwords and some flags.
func (p *process) again(c *cli.Context, without ...string) string {
	return commandline.Again(c, append(without, logLevelFlag, logFormatFlag), func(flag, value string) string {
		switch flag {
		case redisFlag:
			return dial.Redact(value)
		case sinkFlagName, cacheFlag:
			return outdir.PublicURL(value)
		}
		return value
	})
}
