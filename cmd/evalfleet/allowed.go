package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/record"
)

const allowSinkFlag = "allow-sink"

// sinksFile, beside the key of a user's seals, lists the results stores that the user
// has named in submissions, one a line and without passwords.
const sinksFile = "sinks"

// errForeignSink means that an evaluation in Redis names a results store that the local user
// has not named. Anyone who may enqueue can write that name, and opening the store would give
// it this user's password.
var errForeignSink = errors.New("its results store is not one that was named here")

// allowedSinks are the results stores, as savedSink writes them, that evaluations in
// Redis may name.
type allowedSinks []string

// allowedSinks are those of --sink, --allow-sink and --config, of EVALFLEET_SINK, and
// of earlier submissions of this user.
func (p *process) allowedSinks(c *cli.Context) (allowedSinks, error) {
	named := c.StringSlice(allowSinkFlag)
	if fromEnvironment, ok := p.env("EVALFLEET_SINK"); ok {
		named = append(named, fromEnvironment)
	}
	fleet, err := config.LoadFleet(c.String(configFlag)) // with warnings that other commands print
	if err != nil {
		return nil, err
	}
	var allowed allowedSinks
	for _, url := range append(named, c.String(sinkFlagName), fleet.Sink) {
		if url == "" {
			continue
		}
		saved, err := savedSink(url)
		if err != nil {
			return nil, sinkError(err)
		}
		allowed = append(allowed, saved)
	}
	return append(allowed, p.own.sinks()...), nil
}

// of is the results store that an evaluation's record names; empty: none. The error is
// errForeignSink.
func (a allowedSinks) of(r record.Evaluation) (string, error) {
	if r.SinkURL == "" {
		return "", nil
	}
	if saved, err := savedSink(r.SinkURL); err == nil && slices.Contains(a, saved) {
		return r.SinkURL, nil
	}
	return "", fmt.Errorf("%s: %w: %q; --%s %s opens it", r.ID, errForeignSink, publicSink(r.SinkURL), allowSinkFlag, quoted(publicSink(r.SinkURL)))
}

// noteSink adds a results store to those that the user has named.
func (s sealer) noteSink(url string) error {
	saved, err := savedSink(url)
	if url == "" || err != nil || s.path == "" || slices.Contains(s.sinks(), saved) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(s.path), sinksFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, saved)
	return errors.Join(err, file.Close())
}

// sinks are the results stores that the user has named; none where they cannot be read.
func (s sealer) sinks() (known []string) {
	if s.path == "" {
		return nil
	}
	file, err := os.Open(filepath.Join(filepath.Dir(s.path), sinksFile))
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		known = append(known, lines.Text())
	}
	return known
}
