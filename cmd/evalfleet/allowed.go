package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/fleet"
	"github.com/evalfleet/evalfleet/folder"
)

const allowSinkFlag = "allow-sink"

// allowedSinks returns the results stores that evaluations in Redis may use: those of --sink, --allow-sink and
// --config, of EVALFLEET_SINK, and of earlier submissions of this user.
func (p *process) allowedSinks(c *cli.Context) (fleet.Stores, error) {
	named := c.StringSlice(allowSinkFlag)
	if fromEnvironment, ok := p.env("EVALFLEET_SINK"); ok {
		named = append(named, fromEnvironment)
	}
	configured, err := config.LoadFleet(c.String(configFlag)) // with warnings that other commands print
	if err != nil {
		return nil, err
	}
	var allowed fleet.Stores
	for _, url := range append(named, c.String(sinkFlagName), configured.Sink) {
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
