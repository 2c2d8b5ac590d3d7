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
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
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
			watched := &limitsLook{source: s, judges: judges{}}
			return p.look(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				view, err := watched.look(ctx, now)
				if err != nil {
					return "", false, err
				}
				if c.Bool(jsonFlag) {
					text, err := asJSON(view, c.Bool(watchFlag))
					return text, view.Ended, err
				}
				return limitsText(view, now), view.Ended, nil
			})
		},
	}
}

// limitsView is what `limits` says; the names are those of --json.
type limitsView struct {
	// Ended: no call is made any more. The limits are those that were in force for
	// the evaluation, and say how long its calls waited.
	Ended      bool           `json:"ended"`
	Evaluation eval.ID        `json:"evaluation,omitempty"` // whose calls keep these limits; empty: all limits
	Name       string         `json:"name,omitempty"`
	Limits     []limitView    `json:"limits"`
	Cooldowns  []cooldownView `json:"cooldowns,omitempty"`
	Free       *waitView      `json:"not_held_back,omitempty"` // after the end: calls that no limit held back
}

type limitView struct {
	ID       string         `json:"limit"`
	Words    string         `json:"words"`
	Kind     ratelimit.Kind `json:"kind"`
	Allowed  int64          `json:"allowed"`             // in flight, per period, or per day; of a budget nano-USD
	PeriodS  float64        `json:"period_s,omitempty"`  // of a rate
	Resets   string         `json:"resets,omitempty"`    // of a quota: the time zone at whose midnight its day ends
	ResetsAt *time.Time     `json:"resets_at,omitempty"` // that midnight
	Adaptive bool           `json:"adaptive,omitempty"`  // it is cut when the provider refuses calls
	Cap      int64          `json:"cap,omitempty"`       // of one that is cut: what is pinned
	CutAt    *time.Time     `json:"cut_at,omitempty"`    // and when it was, last
	InUse    *int           `json:"in_use,omitempty"`    // calls in flight, tokens in the window, or calls of the day
	SpentUSD *float64       `json:"spent_usd,omitempty"` // of a budget: spent and reserved; null: unknown
	Debt     int64          `json:"debt,omitempty"`      // in use above what is allowed
	Ready    *int           `json:"ready,omitempty"`     // of a rate: calls that may start at once
	Waiting  int            `json:"waiting_workers"`     //
	NextS    *float64       `json:"next_s,omitempty"`    // until the next call may start; absent: when one ends
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

// limitsLook looks at limits, again and again where they are watched.
type limitsLook struct {
	source *source
	judges judges
}

// look reads the limits in force, or those that were.
func (l *limitsLook) look(ctx context.Context, now time.Time) (limitsView, error) {
	if redis := l.source.fleet(ctx); redis != nil {
		view, err := l.inRedis(ctx, redis, now)
		if err == nil || l.source.dir == "" {
			return view, err
		}
	}
	reader, id, err := l.source.readFolder(ctx)
	if err != nil {
		return limitsView{}, err
	}
	return endedLimits(ctx, reader, id)
}

func (l *limitsLook) inRedis(ctx context.Context, redis *drain, now time.Time) (limitsView, error) {
	view := limitsView{Limits: []limitView{}}
	kept := func(ratelimit.Limit) bool { return true }
	if l.source.only != "" || l.source.dir != "" {
		ids, err := l.source.evaluations(ctx, redis)
		if err != nil {
			return limitsView{}, err
		}
		if len(ids) == 1 { // a run's own Redis has none at its very beginning
			r, err := redis.store.Evaluation(ctx, ids[0])
			if err != nil {
				return limitsView{}, withCode(exitUnreachable, err)
			}
			if r.Status == record.StatusDone || r.Status == record.StatusCancelled {
				if sink := l.source.sink(ctx, r); sink != nil {
					return endedLimits(ctx, sink, r.ID)
				}
			}
			view.Evaluation, view.Name = r.ID, r.Name
			if kept, err = l.judges.keep(ctx, redis, r); err != nil {
				return limitsView{}, withCode(exitUnreachable, err)
			}
		}
	}
	limiter := redis.limiter()
	usage, err := limiter.Usage(ctx)
	if err != nil {
		return limitsView{}, withCode(exitUnreachable, err)
	}
	for _, u := range usage {
		if !kept(u.Limit) {
			continue
		}
		of, err := usedLimit(ctx, redis, limiter, u, now)
		if err != nil {
			return limitsView{}, withCode(exitUnreachable, err)
		}
		view.Limits = append(view.Limits, of)
	}
	cooldowns, err := limiter.Cooldowns(ctx)
	if err != nil {
		return limitsView{}, withCode(exitUnreachable, err)
	}
	view.Cooldowns = cooldownViews(cooldowns, kept)
	return view, nil
}

func usedLimit(ctx context.Context, redis *drain, limiter *ratelimit.Limiter, u ratelimit.Usage, now time.Time) (limitView, error) {
	of := newLimitView(u.Limit)
	of.Waiting, of.Binds, of.PinnedBy = u.Waiting, u.Binds(), u.Holders
	if u.Cap > 0 {
		of.Cap, of.CutAt = u.Cap, &u.Cut
	}
	key, rate, ok := limiter.RedisRate(u.Limit)
	if !ok {
		bucket := u.Limit.Period > 0 && u.Limit.Window == ratelimit.Window{} // of tokens
		next := u.Wait.Seconds()
		if !bucket {
			of.InUse, of.Debt = &u.InUse, max(0, int64(u.InUse)-of.Allowed)
		}
		if u.Limit.Resets != "" {
			at, err := nextMidnight(now, u.Limit.Resets)
			if err != nil {
				return of, err
			}
			of.ResetsAt = &at
		}
		switch {
		case u.Limit.Kind == ratelimit.Cost:
			of.Debt = max(0, u.Spent-of.Allowed)
			if spent := usd(u.Spent); !u.Closed {
				of.SpentUSD = &spent
			}
		case !bucket && int64(u.InUse) < of.Allowed:
			of.NextS = new(float64)
		case bucket || u.Limit.Resets != "":
			of.NextS = &next
		}
		return of, nil
	}
	of.Shared = &sharedRate{key, rate.Rate, rate.Burst, rate.Period}
	// Read as whoever shares it does. Taking none changes nothing.
	state, err := redis_rate.NewLimiter(redis.client).AllowN(ctx, key, rate, 0)
	if err != nil {
		return of, err
	}
	next := max(0, state.ResetAfter-time.Duration(rate.Burst-1)*rate.Period).Seconds()
	of.Ready, of.NextS = &state.Remaining, &next
	return of, nil
}

// newLimitView is a limit of which nothing is known yet. Tokens are counted in
// windows, where the provider has them, that may be shorter or longer than the
// period.
func newLimitView(l ratelimit.Limit) limitView {
	view := limitView{ID: l.ID(), Words: l.String(), Kind: l.Kind, Allowed: l.Max, PeriodS: l.Period.Seconds(), Resets: l.Resets, Adaptive: l.Adaptive}
	if l.Kind != ratelimit.Requests && l.Window.Length > 0 {
		view.Allowed = int64(float64(l.Max) * l.Window.Length.Seconds() / l.Period.Seconds())
		view.PeriodS = l.Window.Length.Seconds()
	}
	return view
}

// nextMidnight is when the day of now ends in a time zone.
func nextMidnight(now time.Time, zone string) (time.Time, error) {
	in, err := time.LoadLocation(zone)
	if err != nil {
		return now, err
	}
	year, month, day := now.In(in).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, in), nil
}

// endedLimits says what limits an evaluation's settings had, and what its calls
// waited for. It closes the reader.
func endedLimits(ctx context.Context, reader results.Reader, id eval.ID) (limitsView, error) {
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
			view.Limits = append(view.Limits, limitView{ID: wait.Limit, Words: ratelimit.WaitedFor(wait.Limit)})
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
