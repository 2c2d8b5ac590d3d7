package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
)

// Flags of the commands that submit or work.
const (
	judgeFlag          = "judge"
	limitFlag          = "limit"
	againFlag          = "again"
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
)

// submitFlags are those of `run` and `enqueue`.
func submitFlags() []cli.Flag {
	return append(questionFlags(), dryRunOption(), failOnOption(),
		&cli.BoolFlag{Name: retryFailedFlag, Usage: "make the runs again that failed before"})
}

func failOnOption() cli.Flag {
	return &cli.StringFlag{Name: failOnFlag, Value: string(failOnAny), Usage: "which failed runs end with exit code 1: `WHICH` is any, all or never"}
}

// questionFlags are those that say what is asked, and in which runs.
func questionFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: judgeFlag, Usage: "`PROVIDER:MODEL` that judges; needed where a folder stands instead of a file, and may be repeated"},
		&cli.IntFlag{Name: limitFlag, Usage: "only the first `N` runs of the plan; by default 0, which is all"},
		&cli.StringFlag{Name: againFlag, Usage: "`NAME` that makes the same question a fresh evaluation; without it a submission resumes"},
		&cli.IntFlag{Name: maxConcurrencyFlag, Usage: "at most `N` calls of this evaluation in flight; by default as in its file, else what the fleet or its providers allow, else 5"},
		&cli.StringFlag{Name: jsonModeFlag, Usage: "structured output: `MODE` is false, true or auto; the file's own where nothing is said"},
	}, listFlags()...)
}

// listFlags are those of listed runs.
func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: runsConfigFlag, Usage: "`FILE` that lists runs: a YAML list, or one under the key runs; FILE of the command line may then be left out, or hold the settings; without it that file lists them"},
		&cli.BoolFlag{Name: runsStdinFlag, Usage: "read the list of runs from standard input, as a JSON array"},
		&cli.StringFlag{Name: fileAFlag, Usage: "`FILE` of the instructions of one run, needed where --file-b stands"},
		&cli.StringFlag{Name: fileBFlag, Usage: "`FILE` of the input of one run, needed where --file-a stands"},
		&cli.StringFlag{Name: providerFlag, Usage: "`NAME` of whom listed runs ask that name nobody; by default as in their file, else in --config"},
		&cli.StringFlag{Name: modelFlag, Usage: "`NAME` of the model that listed runs ask that name none; by default as in their file, else in --config"},
		&cli.StringFlag{Name: outFlag, Usage: "`PATH`, anywhere, of the answer of --file-a and --file-b; by default in the output folder"},
		&cli.BoolFlag{Name: batchFlag, Usage: "make runs at once although the file says concurrency: {enabled: false}"},
	}
}

func sinkFlag() cli.Flag {
	return &cli.StringFlag{Name: sinkFlagName, Usage: "`URL` of the results store, sqlite:PATH; by default results.db in the output folder"}
}

// submission reads the evaluation that the command line names. forFleet: other
// processes will make the calls.
func (p *process) submission(c *cli.Context, forFleet bool) (*config.Submission, error) {
	listed := p.listed(c)
	argument := ""
	if listed == (config.Listed{}) || c.Args().Present() {
		var err error
		if argument, err = oneArgument(c, "FILE"); err != nil {
			return nil, err
		}
	}
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return nil, err
	}
	options := config.Options{
		Env: p.env, Fleet: fleet, ForFleet: forFleet, Listed: listed,
		Provider: c.String(providerFlag), Model: c.String(modelFlag), Batch: c.Bool(batchFlag),
		JSON: eval.JSONMode(c.String(jsonModeFlag)), Again: c.String(againFlag), Limit: c.Int(limitFlag),
	}
	if options.Limit < 0 {
		return nil, usageError("--%s must be 0 or more, got %d", limitFlag, options.Limit)
	}
	if c.IsSet(maxConcurrencyFlag) {
		n := c.Int(maxConcurrencyFlag)
		options.MaxConcurrency = &n
	}
	s, err := load(argument, c.StringSlice(judgeFlag), options)
	if err != nil {
		return nil, err
	}
	p.warn(s.Warnings)
	return s, nil
}

// listed are the runs that flags list.
func (p *process) listed(c *cli.Context) config.Listed {
	listed := config.Listed{
		File: c.String(runsConfigFlag), FileA: c.String(fileAFlag), FileB: c.String(fileBFlag), Out: c.String(outFlag),
	}
	if c.Bool(runsStdinFlag) {
		listed.JSON = p.stdin
	}
	return listed
}

// load makes the evaluation of a file, of a folder and judges, or of listed runs
// alone (argument is empty).
func load(argument string, judges []string, options config.Options) (*config.Submission, error) {
	info, err := os.Stat(argument)
	folder := argument != "" && err == nil && info.IsDir()
	switch {
	case folder && options.Listed != config.Listed{}:
		return nil, usageError("%s is a folder; beside listed runs stands a file of settings, or nothing", argument)
	case folder:
		return config.FolderSubmission(argument, judges, options)
	case len(judges) > 0 && argument == "":
		return nil, usageError("--%s goes with a folder; listed runs ask models of their own", judgeFlag)
	case len(judges) > 0:
		return nil, usageError("--%s goes with a folder; %s is a file, whose judges stand in it", judgeFlag, argument)
	case argument == "":
		return config.LoadRuns(options)
	}
	return config.LoadEvaluation(argument, options)
}

// output is where a command says what it does: a console, and a log on it.
func (p *process) output(c *cli.Context) (*console, zerolog.Logger, error) {
	out := newConsole(p.stderr)
	log, err := newLogger(out, out.terminal, c.String(logLevelFlag), c.String(logFormatFlag))
	return out, log, err
}

func failOnOf(c *cli.Context) (failOn, error) {
	switch on := failOn(c.String(failOnFlag)); on {
	case failOnAny, failOnAll, failOnNever:
		return on, nil
	default:
		return "", usageError("--%s: %q stands here, want any, all or never", failOnFlag, on)
	}
}

// again is the command line that goes on with what was interrupted: as it was
// given, with what the environment adds, and without passwords.
func (p *process) again(c *cli.Context) string {
	words := []string{"evalfleet", c.Command.Name}
	for _, argument := range c.Args().Slice() {
		words = append(words, quoted(argument))
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) || name == logLevelFlag || name == logFormatFlag {
			continue
		}
		values := []string{fmt.Sprint(c.Value(name))}
		switch value := c.Value(name).(type) {
		case bool:
			words = append(words, "--"+name)
			continue
		case cli.StringSlice:
			values = value.Value()
		}
		for _, value := range values {
			if name == redisFlag {
				value = redact(value)
			}
			words = append(words, "--"+name, quoted(value))
		}
	}
	return strings.Join(words, " ")
}

// quoted makes a word safe to paste into a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
