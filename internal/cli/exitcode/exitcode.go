// Package exitcode gives errors the code with which the process ends. For an error without a code,
// package main derives one from the kind of error.
package exitcode

import (
	"errors"
	"fmt"
)

// Code is the process's exit code. Scripts rely on the values.
type Code int

// The exit codes.
const (
	OK          Code = 0   // all succeeded
	RunsFailed  Code = 1   // some run failed
	Usage       Code = 2   // invalid command line, file or configuration; output folder not writable
	Unreachable Code = 3   // Redis or the results store is unreachable, or the disk is full
	Interrupted Code = 130 // finished work is kept
)

// codedError is an error that knows its exit code.
type codedError struct {
	code Code
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// With gives err an exit code; nil stays nil.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
}

// Usagef returns an error about something that the user can correct: a flag, a file or a folder.
func Usagef(format string, args ...any) error { return With(Usage, fmt.Errorf(format, args...)) }

// Of returns the code of err; false: it has none.
func Of(err error) (Code, bool) {
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code, true
	}
	return 0, false
}
