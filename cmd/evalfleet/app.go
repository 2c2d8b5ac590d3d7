package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// commands returns all commands, in the order in which help shows them. A new command needs a line here.
func commands(p *process) []*cli.Command {
	return []*cli.Command{
		runCommand(p),
		addCommand(p),
		enqueueCommand(p),
		workerCommand(p),
		collectCommand(p),
		controllerCommand(p),

		statusCommand(p),
		showCommand(p),
		pauseCommand(p),
		resumeCommand(p),
		cancelCommand(p),
		retryCommand(p),
		deleteCommand(p),

		limitsCommand(p),
		reportCommand(p),
		rankCommand(p),
		migrateCommand(p),
		validateCommand(p),
		doctorCommand(p),
		estimateCommand(p),
		initCommand(p),
		schemaCommand(p),
		completionCommand(p),
		manCommand(p),

		uiCommand(p),
		voteCommand(p),
		demoCommand(p),
		simulateCommand(p),
		healthcheckCommand(p),
		versionCommand(p),
	}
}

func withCommonFlags(all []*cli.Command) []*cli.Command {
	for _, command := range all {
		command.Flags = append(command.Flags, commonFlags()...)
	}
	return all
}

const appHelp = `evalfleet ranks documents with LLM judges.

{{wrap "An evaluation file defines documents, judges and questions. Each question to one judge is a run. ` +
	`evalfleet executes runs within all provider limits, retries failures, records each run once, and ranks the results." 0}}

Usage: evalfleet COMMAND [FLAGS] [ARGUMENTS]

Commands:
{{range .}}  {{.Name}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}
      {{wrap .Usage 6}}
{{end}}
{{wrap "` + commandline.FlagHelp + `" 0}}

Run evalfleet COMMAND --help for details.
`

// appOf returns the description of the program for command lines: its commands, flags and arguments.
func appOf(p *process) commandline.App {
	arguments := map[string][]commandline.Candidate{}
	for _, shell := range shells {
		arguments["completion"] = append(arguments["completion"], commandline.Candidate{Word: shell, About: "print the script for " + shell})
	}
	for _, kind := range config.SchemaKinds {
		arguments["schema"] = append(arguments["schema"], commandline.Candidate{Word: kind, About: "print the schema of " + kind + " files"})
	}
	return commandline.App{
		Commands: withCommonFlags(commands(p)), Common: commonFlags(), Groups: flagGroups, Examples: examples,
		Elsewhere: otherCommands, Arguments: arguments,
	}
}

// otherCommands maps commands of other tools to what to use here.
var otherCommands = map[string]string{
	"dashboard":    "evalfleet ui serves the pages",
	"web":          "evalfleet ui serves the pages",
	"serve":        "evalfleet ui serves the pages",
	"view":         "evalfleet ui serves the pages, evalfleet report prints a result",
	"list":         "evalfleet status lists the evaluations",
	"ls":           "evalfleet status lists the evaluations",
	"ps":           "evalfleet status lists the evaluations",
	"start":        "evalfleet run FILE starts an evaluation here, evalfleet enqueue FILE on a fleet",
	"eval":         "evalfleet run FILE runs an evaluation here",
	"evaluate":     "evalfleet run FILE runs an evaluation here",
	"stop":         "evalfleet pause stops an evaluation until it is resumed, evalfleet cancel ends it",
	"run-pairwise": "evalfleet run FOLDER --judge PROVIDER:MODEL compares the documents of a folder in pairs",
	"run-single":   "evalfleet run FILE scores single documents if the evaluation file has the key single",
}

// process holds everything outside the program that a command may use.
type process struct {
	env    config.Lookup // settings: the environment, then the file of --env-file
	keys   config.Lookup // providers' keys and bounds on calls: env, then a .env that was found
	own    outdir.Owner  // knows the output folders of this user's runs
	stdin  io.Reader
	stdout io.Writer        // results: paths, ids, tables
	stderr io.Writer        // everything else
	format string           // of the log: terminal.JSON, terminal.Plain, or an invalid --log-format
	now    func() time.Time // the clock
	atOnce <-chan struct{}  // closed to give up everything in flight
}

// Main runs one command line and returns the process's exit code. args excludes the program's name; env is a function
// like os.LookupEnv. Cancelling ctx asks the command to stop. Closing atOnce after that makes it stop without waiting
// for calls in flight; with a nil atOnce they always have their grace time.
func Main(
	ctx context.Context, atOnce <-chan struct{}, args []string, env func(string) (string, bool), stdin io.Reader,
	stdout, stderr io.Writer,
) int {
	unblocked, end := terminal.Unblocked(stderr)
	defer end()

	// Text from others must not control a terminal. Results go to files and pipes unchanged.
	stderr = terminal.Stderr(unblocked)
	if terminal.Of(stdout) != nil {
		stdout = harmless.NewWriter(stdout)
	}
	p := &process{env: env, keys: env, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now, atOnce: atOnce}
	err := p.run(ctx, args)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // the error may come from any point of the command
		err = failure.With(failure.Interrupted, errors.New("interrupted: recorded results are kept; run the same command again to resume"))
	}
	if outage.WrongType(err) {
		err = failure.With(failure.Usage, fmt.Errorf("%w; a key of another program has this name: choose another --namespace", err))
	}
	if messages, ok := p.stderr.(*terminal.Messages); ok && err != nil {
		messages.Error(message(err))
		return int(codeOf(err))
	}
	for line := range strings.Lines(message(err)) {
		fmt.Fprintln(stderr, "evalfleet: "+strings.TrimRight(line, "\n"))
	}
	return int(codeOf(err))
}

// run parses the command line before the library does, because the library drops flags after an argument and reads the
// environment of the process itself instead of p.env.
func (p *process) run(ctx context.Context, args []string) error {
	all := appOf(p)
	all.Width = p.columns(p.stdout)
	for _, command := range all.Commands {
		command.HideHelp = true // we implement --help ourselves
		command.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usageError("%w", err) }
	}

	line, err := all.Parse(args)
	switch {
	case err != nil:
		return err
	case line.Help && line.Command == nil:
		return all.WriteHelp(p.stdout, appHelp)
	case line.Help:
		return all.WriteCommandHelp(p.stdout, line.Command, line.WholeHelp)
	case line.Command == nil:
		if err := all.WriteHelp(p.stderr, appHelp); err != nil {
			return err
		}
		return usageError("no command given")
	}

	if slices.Contains(working, line.Command.Name) {
		outlivePipes()
	}
	p.own = outdir.NewOwner(p.env)
	if p.env, p.keys, err = config.WithEnvFile(p.env, line.Value(envFileFlag, p.env)); err != nil {
		return err
	}
	p.format = p.logFormat(&line)
	if p.format == terminal.JSON && terminal.Of(p.stderr) == nil {
		p.stderr = terminal.NewMessages(p.stderr)
	}
	if err := line.Complete(p.env); err != nil {
		return err
	}
	app := &cli.App{
		Name:           "evalfleet",
		Commands:       all.Commands,
		HideHelp:       true,
		HideVersion:    true,
		Reader:         p.stdin,
		Writer:         p.stdout,
		ErrWriter:      p.stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // Main chooses the exit code
	}
	return app.RunContext(ctx, line.Canonical())
}

// services are the commands that run until they are stopped, without a person who reads their output.
var services = []string{"worker", "controller", "ui", "vote"}

// working are the commands that must not end when a program that reads their output has ended. Others end by SIGPIPE,
// as in `evalfleet status | head`.
var working = []string{"run", "resume", "retry", "demo", "enqueue", "collect", "worker", "controller", "ui", "vote"}

// logFormat returns the format of the log for a command line. All of standard error has this format: off a terminal,
// messages and errors become lines of a JSON log.
func (p *process) logFormat(line *commandline.Line) string {
	if format := line.Value(logFormatFlag, p.env); format != "" {
		return format
	}
	if terminal.Of(p.stderr) == nil && slices.Contains(services, line.Command.Name) {
		return terminal.JSON
	}
	return terminal.Plain
}

// oneArgument returns the command's only argument. Its error uses the argument's name in the help.
func oneArgument(c *cli.Context, name string) (string, error) {
	if c.Args().Len() == 1 && c.Args().First() != "" {
		return c.Args().First(), nil
	}
	usual, _, _ := strings.Cut(name, " ") // of "FILE or FOLDER"
	return "", usageError("%s wants one %s, got %d; write evalfleet %s %s", c.Command.Name, name, c.Args().Len(), c.Command.Name, usual)
}

// noArguments returns an error if a command that takes no arguments has some.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("%s takes no arguments, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}

// message returns the text for an error, with one line for each problem and the flag that helps.
func message(err error) string {
	var problems config.Problems
	switch {
	case err == nil:
		return ""
	case errors.As(err, &problems):
		return problems.Error()
	}
	return err.Error() + hint(err)
}
