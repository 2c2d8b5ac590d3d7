package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/results"
)

// exit is the process's exit code. Scripts rely on them.
type exit int

// The exit codes.
const (
	exitOK          exit = 0   // all succeeded
	exitRunsFailed  exit = 1   // some run failed
	exitUsage       exit = 2   // command line, file or configuration wrong; output folder not writable
	exitUnreachable exit = 3   // Redis or the sink cannot be reached, disk full
	exitInterrupted exit = 130 // finished work is kept
)

// exitError is an error that knows its exit code.
type exitError struct {
	code exit
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode gives err an exit code; nil stays nil.
func withCode(code exit, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
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
	return withCode(exitInterrupted, errors.New(what))
}

// usageError is something wrong with the command line.
func usageError(format string, args ...any) error {
	return withCode(exitUsage, fmt.Errorf(format, args...))
}

// codeOf is the exit code for a command's error: the code given with withCode, or one derived
// from the error itself. An unforeseen error counts as the environment's failure, because
// settings are checked before anything is begun.
func codeOf(err error) exit {
	var coded *exitError
	var problems config.Problems
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problems):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case outOfRoom(err):
		return exitUnreachable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return exitUsage
	}
	return exitUnreachable
}

// outOfRoom reports whether the disk is full, or a quota or a bound on the size
// of files is reached.
func outOfRoom(err error) bool {
	return errors.Is(err, results.ErrFull) ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
