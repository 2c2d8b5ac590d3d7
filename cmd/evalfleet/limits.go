package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/view"
	"github.com/evalfleet/evalfleet/view/plain"
)

func limitsCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "limits",
		Usage:     "Show limits, their use, and which one binds",
		ArgsUsage: "[ID|DIR]",
		Description: "Shows the limits in force in the fleet's Redis: all of them, or those that apply to one evaluation. With an " +
			"output folder, shows the run in progress there; after its end, the limits that applied and how long calls " +
			"waited for each. Request rates come with the redis_rate.Limit that other programs can use to share them through " +
			"the same Redis.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("limits takes one ID or folder or none, got %d", c.Args().Len())
			}
			s, err := p.source(c, c.Args().First())
			if err != nil {
				return err
			}
			defer s.Close()
			watched := &limitsLook{source: s, looks: view.NewLooks(s.log)}
			return p.look(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				limits, err := watched.look(ctx, now)
				if err != nil {
					return "", false, err
				}
				if c.Bool(jsonFlag) {
					text, err := asJSON(limits, c.Bool(watchFlag))
					return text, limits.Ended, err
				}
				return plain.Limits(limits, now), limits.Ended, nil
			})
		},
	}
}

// limitsLook looks at limits, again and again where they are watched.
type limitsLook struct {
	source *source
	looks  *view.Looks
}

// look reads the limits in force, or those that were.
func (l *limitsLook) look(ctx context.Context, now time.Time) (view.Limits, error) {
	if redis := l.source.fleet(ctx); redis != nil {
		limits, err := l.inRedis(ctx, redis, now)
		if err == nil || l.source.dir == "" {
			return limits, err
		}
	}
	reader, id, err := l.source.readFolder(ctx)
	if err != nil {
		return view.Limits{}, err
	}
	return endedLimits(ctx, reader, id)
}

func (l *limitsLook) inRedis(ctx context.Context, redis *drain, now time.Time) (view.Limits, error) {
	var only record.Evaluation
	kept := view.AllLimits
	if l.source.only != "" || l.source.dir != "" {
		ids, err := l.source.evaluations(ctx, redis)
		if err != nil {
			return view.Limits{}, err
		}
		if len(ids) == 1 { // a run's own Redis has none at its very beginning
			if only, err = redis.store.Evaluation(ctx, ids[0]); err != nil {
				return view.Limits{}, withCode(exitUnreachable, err)
			}
			if only.Status == record.StatusDone || only.Status == record.StatusCancelled {
				if sink := l.source.sink(ctx, only); sink != nil {
					return endedLimits(ctx, sink, only.ID)
				}
			}
			if kept, err = l.looks.Kept(ctx, redis.view(), only); err != nil {
				return view.Limits{}, withCode(exitUnreachable, err)
			}
		}
	}
	limits, err := redis.view().LimitsInForce(ctx, kept, now)
	limits.Evaluation, limits.Name = only.ID, only.Name
	return limits, withCode(exitUnreachable, err)
}

// endedLimits reads the limits that applied to an evaluation, and closes the reader.
func endedLimits(ctx context.Context, reader results.Reader, id eval.ID) (view.Limits, error) {
	defer reader.Close()
	limits, err := view.EndedLimits(ctx, reader, id)
	return limits, withCode(exitUnreachable, err)
}
