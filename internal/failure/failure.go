// Package failure gives errors a kind, which says what has to happen before the operation can
// succeed. A command chooses its exit code by the kind, and a page its status.
package failure

import (
	"errors"
	"fmt"
)

// Kind says what has to happen before an operation can succeed.
type Kind int

// The kinds of failures.
const (
	Unforeseen  Kind = iota // no kind was given
	Usage                   // the user corrects a command line, a file or a setting, or chooses another folder
	Unavailable             // Redis, a results store, a server or the disk has to become usable again
	Interrupted             // the same is done again; finished work is kept
	RunsFailed              // the operation ended, and runs failed or a requirement is not met
)

// kindError is an error that knows its kind.
type kindError struct {
	kind Kind
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// With gives err a kind, which replaces an earlier one; nil stays nil.
func With(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &kindError{kind, err}
}

// Usagef returns an error about something that the user can correct: a flag, a file or a folder.
func Usagef(format string, args ...any) error { return With(Usage, fmt.Errorf(format, args...)) }

// KindOf returns the kind that err was given last.
func KindOf(err error) Kind {
	var known *kindError
	if errors.As(err, &known) {
		return known.kind
	}
	return Unforeseen
}
