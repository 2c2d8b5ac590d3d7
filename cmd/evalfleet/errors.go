package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// exit is the process's exit code. Scripts rely on the values.
type exit int

// The exit codes.
const (
	exitOK          exit = 0   // all succeeded
	exitRunsFailed  exit = 1   // some run failed
	exitUsage       exit = 2   // invalid command line, file or configuration; output folder not writable
	exitUnreachable exit = 3   // Redis or the results store is unreachable, or the disk is full
	exitInterrupted exit = 130 // finished work is kept
)

// exitCodes maps kinds of failures to exit codes.
var exitCodes = map[failure.Kind]exit{
	failure.RunsFailed:  exitRunsFailed,
	failure.Usage:       exitUsage,
	failure.Unavailable: exitUnreachable,
	failure.Interrupted: exitInterrupted,
}

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
	return failure.With(failure.Interrupted, errors.New(what))
}

// usageError returns an error about the command line, with the exit code for wrong usage.
func usageError(format string, args ...any) error { return failure.Usagef(format, args...) }

// hint returns which flag helps after an error of a package that does not know the command line; empty: none.
func hint(err error) string {
	var lost *fleet.LostError
	var noRun *outdir.NoRunError
	begun := func(dir, part string) bool {
		_, err := os.Lstat(filepath.Join(dir, part, outdir.ResumeFile))
		return err == nil
	}

	switch {
	case errors.As(err, new(*outdir.OpenError)):
		return fmt.Sprintf("; choose another with --%s", outDirFlag)
	case errors.As(err, &noRun) && begun(noRun.Dir, anchorsDir) && !begun(noRun.Dir, answersDir):
		return fmt.Sprintf(
			", only anchors were asked; resume with the same `evalfleet run FILE --%s %s`", outDirFlag, wording.ShellWord(noRun.Dir),
		)
	case errors.As(err, &noRun) && begun(noRun.Dir, answersDir):
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

// codeOf returns the exit code for a command's error.
func codeOf(err error) exit {
	if err == nil {
		return exitOK
	}
	return exitCodes[kindOf(err)]
}

// kindOf returns the kind of an error: the one that it was given, or one derived from the error itself. An
// unforeseen error counts as a failure of the environment, because settings are checked before anything starts.
func kindOf(err error) failure.Kind {
	kind := failure.KindOf(err)
	switch {
	case kind != failure.Unforeseen:
		return kind
	case collect.IsEnding(err):
		return failure.RunsFailed
	case errors.As(err, new(config.Problems)):
		return failure.Usage
	case errors.Is(err, context.Canceled):
		return failure.Interrupted
	case results.OutOfRoom(err):
		return failure.Unavailable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return failure.Usage
	}
	return failure.Unavailable
}
