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
	return []cli.Flag{
		&cli.StringSliceFlag{Name: judgeFlag, Usage: "`PROVIDER:MODEL` that judges; needed where a folder stands instead of a file, and may be repeated"},
		&cli.IntFlag{Name: limitFlag, Usage: "only the first `N` runs of the plan; by default 0, which is all"},
		&cli.StringFlag{Name: againFlag, Usage: "`NAME` that makes the same question a fresh evaluation; without it a submission resumes"},
		&cli.IntFlag{Name: maxConcurrencyFlag, Usage: "at most `N` calls of this evaluation in flight; by default as in its file, else what the fleet or its providers allow, else 5"},
		&cli.StringFlag{Name: jsonModeFlag, Usage: "structured output: `MODE` is false, true or auto; the file's own where nothing is said"},
	}
}

func sinkFlag() cli.Flag {
	return &cli.StringFlag{Name: sinkFlagName, Usage: "`URL` of the results store, sqlite:PATH; by default results.db in the output folder"}
}

// submission reads the evaluation that the command line names. forFleet: other
// processes will make the calls.
func (p *process) submission(c *cli.Context, forFleet bool) (*config.Submission, error) {
	argument, err := oneArgument(c, "FILE")
	if err != nil {
		return nil, err
	}
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return nil, err
	}
	options := config.Options{
		Env: p.env, Fleet: fleet, ForFleet: forFleet,
		JSON: eval.JSONMode(c.String(jsonModeFlag)), Again: c.String(againFlag), Limit: c.Int(limitFlag),
	}
	if options.Limit < 0 {
		return nil, usageError("--%s must be 0 or more, got %d", limitFlag, options.Limit)
	}
	if c.IsSet(maxConcurrencyFlag) {
		n := c.Int(maxConcurrencyFlag)
		options.MaxConcurrency = &n
	}
	judges := c.StringSlice(judgeFlag)
	var s *config.Submission
	switch info, statErr := os.Stat(argument); {
	case statErr == nil && info.IsDir():
		s, err = config.FolderSubmission(argument, judges, options)
	case len(judges) > 0:
		return nil, usageError("--%s goes with a folder; %s is a file, whose judges stand in it", judgeFlag, argument)
	default:
		s, err = config.LoadEvaluation(argument, options)
	}
	if err != nil {
		return nil, err
	}
	p.warn(s.Warnings)
	return s, nil
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
