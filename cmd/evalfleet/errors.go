package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/evalfleet/evalfleet/internal/cli/exitcode"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// exit is the process's exit code.
type exit = exitcode.Code

// The exit codes, by the names that commands use.
const (
	exitOK          = exitcode.OK
	exitRunsFailed  = exitcode.RunsFailed
	exitUsage       = exitcode.Usage
	exitUnreachable = exitcode.Unreachable
	exitInterrupted = exitcode.Interrupted
)

// withCode gives err an exit code; nil stays nil.
func withCode(code exit, err error) error { return exitcode.With(code, err) }

// stopped returns the result of a command that runs until it is stopped: exitOK after SIGTERM,
// which is how a service ends, and exitInterrupted after Ctrl-C, a closed terminal or a second
// signal.
func (p *process) stopped(ctx context.Context, what string) error {
	select {
	case <-p.atOnce:
	default:
		if errors.Is(context.Cause(ctx), errTerminated) {
			fmt.Fprintln(p.stderr, "evalfleet: "+what)
			return nil
		}
	}
	return withCode(exitInterrupted, errors.New(what))
}

// usageError returns an error about the command line, with the exit code for wrong usage.
func usageError(format string, args ...any) error {
	return exitcode.Usagef(format, args...)
}

// hint returns which flag helps after an error of a package that does not know the command line; empty: none.
func hint(err error) string {
	var lost *fleet.LostError
	var noRun *outdir.NoRunError
	answered := func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, answersDir, outdir.ResumeFile))
		return err == nil
	}

	switch {
	case errors.As(err, new(*outdir.OpenError)):
		return fmt.Sprintf("; choose another with --%s", outDirFlag)
	case errors.As(err, &noRun) && answered(noRun.Dir):
		return fmt.Sprintf(
			", and the answers in it are not judged yet; go on with the same `evalfleet run FILE --%s %s`", outDirFlag, wording.ShellWord(noRun.Dir),
		)
	case errors.As(err, &noRun):
		return fmt.Sprintf("; start one with `evalfleet run FILE --%s %s`", outDirFlag, wording.ShellWord(noRun.Dir))
	case errors.Is(err, fleet.ErrForeignStore):
		return fmt.Sprintf("; open it with --%s URL", allowSinkFlag)
	case errors.Is(err, fleet.ErrElsewhere):
		return fmt.Sprintf("; name that one with --%s", outDirFlag)
	case errors.Is(err, fleet.ErrNoClasses):
		return fmt.Sprintf("; name the results store with --%s, or retry without --%s", sinkFlagName, classFlag)
	case errors.As(err, new(*collect.UnpricedError)):
		return fmt.Sprintf(", or start a new evaluation with --%s NAME", againFlag)
	case errors.As(err, &lost):
		return fmt.Sprintf(
			"; submit it to the same Redis again: evalfleet enqueue FILE --%s --%s %s", waitFlag, outDirFlag,
			wording.ShellWord(lost.Dir),
		)
	}
	return ""
}

// codeOf returns the exit code for a command's error: the code given with withCode, or one derived from the error
// itself. An unforeseen error counts as a failure of the environment, because settings are checked before anything
// starts.
func codeOf(err error) exit {
	code, given := exitcode.Of(err)
	var problems config.Problems
	switch {
	case err == nil:
		return exitOK
	case given:
		return code
	case collect.IsEnding(err):
		return exitRunsFailed
	case errors.As(err, &problems):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case results.OutOfRoom(err):
		return exitUnreachable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return exitUsage
	}
	return exitUnreachable
}
