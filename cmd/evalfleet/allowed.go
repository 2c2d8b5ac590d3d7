package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
)

const allowSinkFlag = "allow-sink"

// allowedStores returns the results stores that evaluations in Redis may use: those of --sink, --allow-sink and
// --config, of EVALFLEET_SINK, and of earlier submissions of this user.
func (p *process) allowedStores(c *cli.Context) (fleet.Stores, error) {
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
		saved, err := outdir.SavedURL(url)
		if err != nil {
			return nil, outdir.StoreError(err)
		}
		allowed = append(allowed, saved)
	}
	return append(allowed, p.own.Stores()...), nil
}
