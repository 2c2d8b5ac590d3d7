package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/record"
)

const allowSinkFlag = "allow-sink"

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
		saved, err := folder.SavedURL(url)
		if err != nil {
			return nil, folder.StoreError(err)
		}
		allowed = append(allowed, saved)
	}
	return append(allowed, p.own.Stores()...), nil
}

// of is the results store that an evaluation's record names; empty: none. The error is
// errForeignSink.
func (a allowedSinks) of(r record.Evaluation) (string, error) {
	if r.SinkURL == "" {
		return "", nil
	}
	if saved, err := folder.SavedURL(r.SinkURL); err == nil && slices.Contains(a, saved) {
		return r.SinkURL, nil
	}
	return "", fmt.Errorf("%s: %w: %q; --%s %s opens it", r.ID, errForeignSink, folder.PublicURL(r.SinkURL), allowSinkFlag, quoted(folder.PublicURL(r.SinkURL)))
}
