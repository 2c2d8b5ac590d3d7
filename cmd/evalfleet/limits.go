package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

func limitsCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "limits",
		Usage:     "say how much of each limit is used, who waits, and what binds now",
		ArgsUsage: "[DIR]",
		Description: "Reads the limits in force from the fleet's Redis, or from that of a run that is going on in an output folder. " +
			"After the end it says which limits were in force and how long calls waited for each. " +
			"With each request rate stands the redis_rate.Limit with which another program can share it through the same Redis.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("limits takes one folder or none, got %d arguments", c.Args().Len())
			}
			s, err := p.source(c, c.Args().First())
			if err != nil {
				return err
			}
			defer s.Close()
			return p.look(c, func(ctx context.Context, _ time.Time) (string, bool, error) {
				view, err := s.limits(ctx)
				if err != nil {
					return "", false, err
				}
				if c.Bool(jsonFlag) {
					text, err := asJSON(view, c.Bool(watchFlag))
					return text, view.Ended, err
				}
				return limitsText(view), view.Ended, nil
			})
		},
	}
}

// limitsView is what `limits` says; the names are those of --json.
type limitsView struct {
	// Ended: no Redis is there to ask. The limits are those that were in force for
	// the folder's evaluation, and say how long its calls waited.
	Ended      bool        `json:"ended"`
	Evaluation eval.ID     `json:"evaluation,omitempty"` // of the folder
	Name       string      `json:"name,omitempty"`
	Limits     []limitView `json:"limits"`
	Free       *waitView   `json:"not_held_back,omitempty"` // after the end: calls that no limit held back
}

type limitView struct {
	ID       string         `json:"limit"`
	Words    string         `json:"words"`
	Kind     ratelimit.Kind `json:"kind"`
	Allowed  int64          `json:"allowed"`            // in flight, or per period
	PeriodS  float64        `json:"period_s,omitempty"` // of a rate
	InUse    *int           `json:"in_use,omitempty"`   // of a concurrency limit
	Ready    *int           `json:"ready,omitempty"`    // of a rate: calls that may start at once
	Waiting  int            `json:"waiting_workers"`    //
	NextS    *float64       `json:"next_s,omitempty"`   // until the next call may start; absent: when one ends
	Binds    bool           `json:"binds"`
	PinnedBy []string       `json:"pinned_by,omitempty"`
	Shared   *sharedRate    `json:"redis_rate,omitempty"`
	Waited   *waitView      `json:"waited,omitempty"` // after the end
}

// sharedRate is what another program gives to redis_rate.
type sharedRate struct {
	Key    string        `json:"key"`
	Rate   int           `json:"rate"`
	Burst  int           `json:"burst"`
	Period time.Duration `json:"period_ns"`
}

type waitView struct {
	Calls  int     `json:"calls"`
	TotalS float64 `json:"total_s"`
}

// limits looks at the limits in force, or at those that were.
func (s *source) limits(ctx context.Context) (limitsView, error) {
	if redis := s.fleet(ctx); redis != nil {
		view, err := limitsInRedis(ctx, redis)
		if err == nil || s.dir == "" {
			return view, withCode(exitUnreachable, err)
		}
	}
	return limitsInFolder(ctx, s.dir)
}

func limitsInRedis(ctx context.Context, d *drain) (limitsView, error) {
	limiter := ratelimit.New(d.client, ratelimit.Config{Namespace: d.store.Keys().Namespace})
	usage, err := limiter.Usage(ctx)
	if err != nil {
		return limitsView{}, err
	}
	view := limitsView{Limits: make([]limitView, len(usage))}
	for i, u := range usage {
		of := newLimitView(u.Limit)
		of.Waiting, of.Binds, of.PinnedBy = u.Waiting, u.Binds(), u.Holders
		if key, rate, ok := limiter.RedisRate(u.Limit); ok {
			of.Shared = &sharedRate{key, rate.Rate, rate.Burst, rate.Period}
			// Read as whoever shares it does. Taking none changes nothing.
			state, err := redis_rate.NewLimiter(d.client).AllowN(ctx, key, rate, 0)
			if err != nil {
				return limitsView{}, err
			}
			next := max(0, state.ResetAfter-time.Duration(rate.Burst-1)*rate.Period).Seconds()
			of.Ready, of.NextS = &state.Remaining, &next
		} else {
			of.InUse = &u.InUse
			if int64(u.InUse) < u.Limit.Max {
				of.NextS = new(float64)
			}
		}
		view.Limits[i] = of
	}
	return view, nil
}

func newLimitView(l ratelimit.Limit) limitView {
	return limitView{ID: l.ID(), Words: l.String(), Kind: l.Kind, Allowed: l.Max, PeriodS: l.Period.Seconds()}
}

// limitsInFolder says what limits its settings had, and what its calls waited
// for.
func limitsInFolder(ctx context.Context, dir string) (limitsView, error) {
	reader, id, err := readFolder(ctx, dir)
	if err != nil {
		return limitsView{}, err
	}
	defer reader.Close()
	e, err := reader.Evaluation(ctx, id)
	if err != nil {
		return limitsView{}, withCode(exitUnreachable, err)
	}
	waits, err := reader.Waits(ctx, id)
	if err != nil {
		return limitsView{}, withCode(exitUnreachable, err)
	}
	return limitsOf(e, waits), nil
}

// limitsOf joins the limits that an evaluation had and those that its calls
// waited for, which others may have pinned.
func limitsOf(e results.Evaluation, waits []results.Wait) limitsView {
	view := limitsView{Ended: true, Evaluation: e.ID, Name: e.Plan.Name, Free: new(waitView)}
	for _, limit := range e.Settings.Limits {
		of := newLimitView(limit)
		of.Waited = new(waitView)
		view.Limits = append(view.Limits, of)
	}
	for _, wait := range waits {
		of := waitView{Calls: wait.Calls, TotalS: wait.Total.Seconds()}
		if wait.Limit == "" {
			view.Free = &of
			continue
		}
		i := slices.IndexFunc(view.Limits, func(l limitView) bool { return l.ID == wait.Limit })
		if i < 0 {
			i = len(view.Limits)
			view.Limits = append(view.Limits, limitView{ID: wait.Limit, Words: wait.Limit})
		}
		view.Limits[i].Waited = &of
	}
	slices.SortStableFunc(view.Limits, func(a, b limitView) int { return cmp.Compare(b.Waited.Calls, a.Waited.Calls) })
	return view
}

// asJSON is a value as JSON, on one line or for reading.
func asJSON(value any, compact bool) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	if !compact {
		encoder.SetIndent("", "  ")
	}
	err := encoder.Encode(value)
	return out.String(), err
}
