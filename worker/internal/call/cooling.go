package call

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// MaxCooled is how many of a run's calls a provider may refuse as too many before
// they count as attempts.
const MaxCooled = 20

// TooMany reports whether a provider refused a call because of too many requests, now or today. All its callers must
// then wait, including this run's next call.
func TooMany(failed *providers.Error) bool {
	return failed.Class == providers.RateLimited || failed.Class == providers.QuotaDaily
}

// costsNothing reports whether a refused call does not count as an attempt of the run. A refused call of a panel
// counts, unless a fallback model may answer.
func (c *Calls) costsNothing(failed *providers.Error) bool {
	counts := c.run.Task.Kind == eval.KindPanel && failed.Class == providers.RateLimited
	return TooMany(failed) && (c.chain.In() || !counts && c.run.Progress.Cooled < MaxCooled)
}

// LongestHint is the longest hint of a provider that is followed, unless a day's quota is used up: some providers say
// that a limit per minute resets in 24 hours. After that time one call is made.
const LongestHint = 10 * time.Minute

// Hint returns how long the provider wants no more calls; 0: it did not say. A day's quota without a hint resets at the
// end of the provider's day.
func (c *Calls) Hint(s Step, failed *providers.Error) time.Duration {
	switch {
	case failed.Class == providers.RateLimited:
		return min(failed.RetryAfter, LongestHint)
	case failed.Class == providers.QuotaDaily && failed.RetryAfter <= 0:
		now := time.Now().In(c.zone(s))
		year, month, day := now.Date()
		return time.Date(year, month, day+1, 0, 0, 0, 0, now.Location()).Sub(now)
	}
	return failed.RetryAfter
}

// zone returns the time zone in which a provider's days end: that of a configured quota on the call, else the
// endpoint's, else UTC.
func (c *Calls) zone(s Step) *time.Location {
	call := c.run.Scope(s.Target).At(s.at())
	for _, limits := range [][]ratelimit.Limit{c.run.Settings().Limits, c.by.Limits} {
		for _, limit := range limits {
			if limit.Resets == "" || !limit.Matches(call) {
				continue
			}
			if zone, err := time.LoadLocation(limit.Resets); err == nil {
				return zone
			}
		}
	}
	if zone := c.by.endpoint(s).Zone; zone != nil {
		return zone
	}
	return time.UTC
}

// holdBack starts a cooldown for every worker's calls under the limit that a provider says is exceeded. If a day's
// quota is used up, the cooldown covers all of the provider unless it named the model.
func (c *Calls) holdBack(ctx context.Context, lease *ratelimit.Lease, s Step, failed *providers.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.PauseTime)
	defer cancel()
	var err error
	switch {
	case failed.Class == providers.QuotaDaily:
		scope := ratelimit.Scope{Provider: s.at()}
		if model := s.Target.Model; strings.Contains(failed.Message, model) || bytes.Contains(failed.Raw, []byte(model)) {
			scope.Model = model
		}
		err = c.by.Worker.Limiter.Park(ctx, scope, c.Hint(s, failed))
	case lease == nil:
		err = c.by.Worker.Limiter.Cool(ctx, ratelimit.Scope{Provider: s.at(), Model: s.Target.Model,
			Tier: s.Target.Tier()}, c.Hint(s, failed))
	default:
		err = lease.Cool(ctx, ratelimit.Kind(failed.Exceeded), c.Hint(s, failed))
	}
	if err != nil {
		c.by.Worker.Log.Warn().Err(err).Msg("cannot share a cooldown with other workers")
	}
}
