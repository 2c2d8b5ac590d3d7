package worker

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// maxCooled is how many of a run's calls a provider may refuse as too many before
// they count as attempts.
const maxCooled = 20

// tooMany reports whether a provider refused a call because of too many requests, now or today:
// all its callers must then wait, including this run's next call.
func tooMany(failed *providers.Error) bool {
	return failed.Class == providers.RateLimited || failed.Class == providers.QuotaDaily
}

// costsNothing reports whether a refused call is no attempt of the run. One of a panel
// is, unless another model may answer in its model's place.
func (r *run) costsNothing(failed *providers.Error) bool {
	counts := r.task.Kind == eval.KindPanel && failed.Class == providers.RateLimited
	return tooMany(failed) && (r.inChain() || !counts && r.progress.Cooled < maxCooled)
}

// longestHint is the longest hint of a provider that is followed, unless it names a day: some
// report a limit per minute as over in 24 hours. Then one call is made.
const longestHint = 10 * time.Minute

// hint is how long a provider wants not to be asked again; 0: it does not say. A
// day's quota without a hint is over when the provider's day is.
func (r *run) hint(s step, failed *providers.Error) time.Duration {
	switch {
	case failed.Class == providers.RateLimited:
		return min(failed.RetryAfter, longestHint)
	case failed.Class == providers.QuotaDaily && failed.RetryAfter <= 0:
		now := time.Now().In(r.zone(s))
		year, month, day := now.Date()
		return time.Date(year, month, day+1, 0, 0, 0, 0, now.Location()).Sub(now)
	}
	return failed.RetryAfter
}

// zone is where a provider's days end: as the user's quotas of it have it, else as
// its endpoint does.
func (r *run) zone(s step) *time.Location {
	call := r.callTo(s.target)
	for _, limits := range [][]ratelimit.Limit{r.evaluation.record.Settings.Limits, r.cfg.Limits} {
		for _, limit := range limits {
			if limit.Resets == "" || !limit.Matches(call) {
				continue
			}
			if zone, err := time.LoadLocation(limit.Resets); err == nil {
				return zone
			}
		}
	}
	if zone := r.cfg.Endpoints[s.target.Provider].Zone; zone != nil {
		return zone
	}
	return time.UTC
}

// holdBack keeps every worker from the limit that a provider says is exceeded, and
// from all of the provider where a day's quota is used up, unless it names the
// model.
func (r *run) holdBack(ctx context.Context, lease *ratelimit.Lease, s step, failed *providers.Error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseTime)
	defer cancel()
	var err error
	switch {
	case failed.Class == providers.QuotaDaily:
		scope := ratelimit.Scope{Provider: s.target.Provider}
		if model := s.target.Model; strings.Contains(failed.Message, model) || bytes.Contains(failed.Raw, []byte(model)) {
			scope.Model = model
		}
		err = r.limiter.Park(ctx, scope, r.hint(s, failed))
	case lease == nil:
		err = r.limiter.Cool(ctx, ratelimit.Scope{Provider: s.target.Provider, Model: s.target.Model}, r.hint(s, failed))
	default:
		err = lease.Cool(ctx, ratelimit.Kind(failed.Exceeded), r.hint(s, failed))
	}
	if err != nil {
		r.log.Warn().Err(err).Msg("cannot share a cooldown with other workers")
	}
}
