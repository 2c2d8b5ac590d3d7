package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
)

// going reports whether the argument's evaluation is in a Redis. That is assumed for an ID; for a folder it is so while
// a run is active there.
func (p *process) going(c *cli.Context) (bool, error) {
	argument, err := oneArgument(c, c.Command.ArgsUsage)
	if err != nil {
		return false, err
	}
	if !outdir.Is(argument) {
		return true, nil
	}
	if _, err := outdir.ReadResumption(argument); err != nil {
		return false, err
	}
	return outdir.InUse(argument), nil
}

// target returns the evaluation that an ID or a folder names.
func (p *process) target(c *cli.Context) (*fleet.Target, error) {
	argument, err := oneArgument(c, c.Command.ArgsUsage)
	if err != nil {
		return nil, err
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return nil, err
	}

	id := eval.ID(argument)
	if outdir.Is(argument) {
		saved, err := outdir.ReadResumption(argument)
		if err != nil {
			return nil, err
		}
		id = saved.Evaluation
		switch {
		case !outdir.InUse(argument):
			return nil, usageError("no run is active in %s; resume it with `evalfleet resume %s`", argument, argument)
		case saved.Redis && at.URL == "":
			return nil, usageError("the run in %s uses the Redis of --%s: set it here, too", argument, redisFlag)
		case !saved.Redis:
			at = dial.Settings{}
			if at.URL, err = embedded.Address(argument); err != nil {
				return nil, usageError("the run in %s is starting or ending: %w", argument, err)
			}
		}
	} else if err := unplaced(c, argument); err != nil {
		return nil, err
	}

	d, err := p.connection(c, at, false)
	if err != nil {
		return nil, err
	}
	return &fleet.Target{Connection: d, ID: id, Name: argument}, nil
}

// steer changes the evaluation that the command line names, and prints the message that change
// returns.
func (p *process) steer(c *cli.Context, change func(*fleet.Target) (string, error)) error {
	t, err := p.target(c)
	if err != nil {
		return err
	}
	defer t.Close()
	said, err := change(t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.Screen, said)
	return err
}
