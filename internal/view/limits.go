package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Limits holds the limits in force, or those that applied to an evaluation that has ended.
type Limits struct {
	// Ended: no more calls are made. The limits are those that were in force for the evaluation, and say how long its
	// calls waited.
	Ended      bool       `json:"ended"`
	Evaluation eval.ID    `json:"evaluation,omitempty"` // whose calls keep these limits; empty: all limits
	Name       string     `json:"name,omitempty"`
	Limits     []Limit    `json:"limits"`
	Cooldowns  []Cooldown `json:"cooldowns,omitempty"`
	// HeldBy lists what else prevents calls from starting: a Redis that accepts no writes, or queues that are paused in
	// asynqmon.
	HeldBy []string `json:"held_by,omitempty"`
	Free   *Wait    `json:"not_held_back,omitempty"` // after the end: calls that no limit delayed
}

// Limit is a limit and how much of it is used.
type Limit struct {
	ID       string         `json:"limit"`
	Words    string         `json:"words"`
	Kind     ratelimit.Kind `json:"kind"`
	Allowed  int64          `json:"allowed"`                 // in flight, per period, or per day; of a budget nano-USD
	PeriodS  float64        `json:"period_s,omitempty"`      // of a rate
	Resets   string         `json:"resets,omitempty"`        // of a quota: the time zone at whose midnight its day ends
	ResetsAt *time.Time     `json:"resets_at,omitempty"`     // that midnight
	Adaptive bool           `json:"adaptive,omitempty"`      // it is cut when the provider refuses calls
	Cap      int64          `json:"cap,omitempty"`           // for a limit that is cut: the pinned value
	CutAt    *time.Time     `json:"cut_at,omitempty"`        // when it was last cut
	SendS    *float64       `json:"margin_send_s,omitempty"` // of a measured margin: the latest sending of calls
	PathS    *float64       `json:"margin_path_s,omitempty"` // and by how much the network path varies
	InUse    *int           `json:"in_use,omitempty"`        // calls in flight, tokens in the window or enqueued, or calls of the day
	SpentUSD *float64       `json:"spent_usd,omitempty"`     // of a budget: spent and reserved; null: unknown
	Debt     int64          `json:"debt,omitempty"`          // in use above the limit
	Ready    *int           `json:"ready,omitempty"`         // of a rate: calls that may start at once
	Waiting  int            `json:"waiting_workers"`         //
	NextS    *float64       `json:"next_s,omitempty"`        // until the next call may start; absent: when one ends
	Binds    bool           `json:"binds"`
	PinnedBy []string       `json:"pinned_by,omitempty"`
	Shared   *SharedRate    `json:"redis_rate,omitempty"`
	Waited   *Wait          `json:"waited,omitempty"` // after the end
	// Usage is the underlying usage of a limit in force.
	Usage ratelimit.Usage `json:"-"`
}

// SharedRate is what another program passes to redis_rate to share a rate.
type SharedRate struct {
	Key    string        `json:"key"`
	Rate   int           `json:"rate"`
	Burst  int           `json:"burst"`
	Period time.Duration `json:"period_ns"`
}

// Wait sums how long calls waited.
type Wait struct {
	Calls  int     `json:"calls"`
	TotalS float64 `json:"total_s"`
}

// LimitsInForce returns the limits and cooldowns that kept selects, and what prevents the tasks of queues from being
// pulled; nil for all queues.
func (f Redis) LimitsInForce(ctx context.Context, kept func(ratelimit.Limit) bool, queues []string, now time.Time) (Limits, error) {
	in, err := f.inForce(ctx)
	if err == nil && queues == nil {
		queues, err = f.Store.Queues(ctx)
	}
	if err != nil {
		return Limits{}, err
	}
	paused, _, err := gate.HoldPaused(ctx, f.Store.Client(), queues)
	if err != nil {
		return Limits{}, err
	}

	limits, err := f.limits(ctx, in, kept, now)
	limits.HeldBy = slices.Concat(in.holds, paused)
	return limits, err
}

func (f Redis) limits(ctx context.Context, in inForce, kept func(ratelimit.Limit) bool, now time.Time) (Limits, error) {
	view := Limits{Limits: []Limit{}}
	for _, u := range in.usage {
		if !kept(u.Limit) {
			continue
		}
		of, err := f.limit(ctx, u, now)
		if err != nil {
			return Limits{}, err
		}
		view.Limits = append(view.Limits, of)
	}
	view.Cooldowns = Cooldowns(in.cooldowns, kept)
	return view, nil
}

// AllLimits selects every limit.
func AllLimits(ratelimit.Limit) bool { return true }

// inForce holds the limits and cooldowns of a fleet at one moment.
type inForce struct {
	usage     []ratelimit.Usage
	cooldowns []ratelimit.Cooldown
	holds     []string // why Redis accepts no writes, in words
}

func (f Redis) inForce(ctx context.Context) (in inForce, err error) {
	if in.usage, err = f.Limits.Usage(ctx); err == nil {
		in.cooldowns, err = f.Limits.Cooldowns(ctx)
	}
	if err == nil {
		in.holds = gate.Refusals(ctx, f.Store.Client())
	}
	return in, err
}

// binding returns the limits that kept selects, and the cooldowns, for which calls wait, including calls of other
// evaluations.
func (in inForce) binding(kept func(ratelimit.Limit) bool, now time.Time) []string {
	var words []string
	for _, c := range Cooldowns(in.cooldowns, kept) {
		words = append(words, c.Text(now))
	}
	for _, u := range in.usage {
		if kept(u.Limit) && u.Binds() {
			words = append(words, u.Limit.String())
		}
	}
	return words
}

// limit describes a limit in force.
func (f Redis) limit(ctx context.Context, u ratelimit.Usage, now time.Time) (Limit, error) {
	of := NewLimit(u.Limit)
	of.Waiting, of.Binds, of.PinnedBy, of.Usage = u.Waiting, u.Binds(), u.Holders, u
	if u.Cap > 0 {
		of.Cap, of.CutAt = u.Cap, &u.Cut
	}
	if u.Margin != (ratelimit.Margin{}) {
		send, path := u.Margin.Send.Seconds(), u.Margin.Path.Seconds()
		of.SendS, of.PathS = &send, &path
	}

	key, rate, ok := f.Limits.RedisRate(u.Limit)
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
			if spent := USD(u.Spent); !u.Closed {
				of.SpentUSD = &spent
			}
		case !bucket && int64(u.InUse) < of.Allowed:
			of.NextS = new(float64)
		case bucket || u.Limit.Resets != "":
			of.NextS = &next
		}
		return of, nil
	}

	of.Shared = &SharedRate{key, rate.Rate, rate.Burst, rate.Period}
	// Read it as programs that share it do. Asking for 0 changes nothing.
	state, err := redis_rate.NewLimiter(f.Store.Client()).AllowN(ctx, key, rate, 0)
	if err != nil {
		return of, err
	}

	next := max(0, state.ResetAfter-time.Duration(rate.Burst-1)*rate.Period).Seconds()
	of.Ready, of.NextS = &state.Remaining, &next
	return of, nil
}

// NewLimit returns a limit with only its settings. If the provider counts tokens in windows, Allowed and PeriodS are
// those of a window, which may be shorter or longer than the limit's period.
func NewLimit(l ratelimit.Limit) Limit {
	view := Limit{
		ID: l.ID(), Words: l.String(), Kind: l.Kind, Allowed: l.Max, PeriodS: l.Period.Seconds(), Resets: l.Resets,
		Adaptive: l.Adaptive,
	}
	if l.Kind != ratelimit.Requests && l.Window.Length > 0 {
		view.Allowed = int64(float64(l.Max) * l.Window.Length.Seconds() / l.Period.Seconds())
		view.PeriodS = l.Window.Length.Seconds()
	}
	return view
}

// nextMidnight returns when the day of now ends in a time zone.
func nextMidnight(now time.Time, zone string) (time.Time, error) {
	in, err := time.LoadLocation(zone)
	if err != nil {
		return now, err
	}
	year, month, day := now.In(in).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, in), nil
}

// EndedLimits returns the limits in an evaluation's settings, and how long its calls
// waited for each.
func EndedLimits(ctx context.Context, reader results.Reader, id eval.ID) (Limits, error) {
	e, err := reader.Evaluation(ctx, id)
	if err != nil {
		return Limits{}, err
	}
	waits, err := reader.Waits(ctx, id)
	if err != nil {
		return Limits{}, err
	}
	return LimitsOf(e, waits), nil
}

// LimitsOf joins the limits that an evaluation had and those for which its calls waited, which other evaluations may
// have pinned.
func LimitsOf(e results.Evaluation, waits []results.Wait) Limits {
	view := Limits{Ended: true, Evaluation: e.ID, Name: e.Plan.Name, Free: new(Wait)}
	for _, limit := range e.Settings.Limits {
		of := NewLimit(limit)
		of.Waited = new(Wait)
		view.Limits = append(view.Limits, of)
	}
	for _, wait := range waits {
		of := Wait{Calls: wait.Calls, TotalS: wait.Total.Seconds()}
		if wait.Limit == "" {
			view.Free = &of
			continue
		}
		i := slices.IndexFunc(view.Limits, func(l Limit) bool { return l.ID == wait.Limit })
		if i < 0 {
			i = len(view.Limits)
			view.Limits = append(view.Limits, Limit{ID: wait.Limit, Words: ratelimit.WaitedFor(wait.Limit)})
		}
		view.Limits[i].Waited = &of
	}
	slices.SortStableFunc(view.Limits, func(a, b Limit) int { return cmp.Compare(b.Waited.Calls, a.Waited.Calls) })
	return view
}
