package results

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Statistics counts the ended runs of an evaluation that needed a model, by whether it or a
// fallback answered. It also counts their waits for rate limits.
type Statistics struct {
	Total              int `json:"total_requests"`
	Primary            int `json:"primary_requests"`  // answered by the model that was asked
	Fallback           int `json:"fallback_requests"` // answered by another
	RateLimitWaits     int `json:"rate_limit_waits"`
	RateLimitFallbacks int `json:"rate_limit_fallbacks"` // changes to another model because of rate limits
	ContextFallbacks   int `json:"context_fallbacks"`    // changes because the text was too large
	Waited             int `json:"-"`                    // runs that waited
}

// String returns the most important numbers as a short line.
func (s Statistics) String() string {
	return fmt.Sprintf("%s of %s runs answered by the model asked, %s by a fallback; %s for rate limits",
		wording.Count(s.Primary), wording.Count(s.Total), wording.Count(s.Fallback), wording.Counted(s.RateLimitWaits, "wait"))
}

// Shares of the runs above which Advice recommends to change a setting.
const (
	manyFallbacks = 0.1
	manyWaits     = 0.3
)

// Advice says which settings to change, if many runs were answered by another model or had to wait.
// how is the evaluation's fallback.
func (s Statistics) Advice(how *record.Fallback) []string {
	var advice []string
	if how == nil {
		return nil
	}
	if over(s.Fallback, s.Total, manyFallbacks) {
		change := "most of them after errors: see the failures of the calls, or set fallback.on_error to after_retries"
		if 2*s.RateLimitFallbacks >= s.Fallback {
			change = fmt.Sprintf("raise fallback.max_retries (%d)", how.MaxRetries)
			if how.MaxWait > 0 {
				change = fmt.Sprintf("raise fallback.max_wait_seconds (%g) or fallback.max_retries (%d)", how.MaxWait.Seconds(), how.MaxRetries)
			}
		}
		advice = append(advice, fmt.Sprintf("%s of the runs were answered by fallback models, more than %s: %s",
			share(s.Fallback, s.Total), share(10, 100), change))
	}
	if over(s.Waited, s.Total, manyWaits) {
		advice = append(advice, fmt.Sprintf("%s of the runs waited for rate limits, more than %s: with a higher tier of "+
			"the provider, raise its limits under concurrency",
			share(s.Waited, s.Total), share(30, 100)))
	}
	return advice
}

func over(n, of int, most float64) bool { return float64(n) > most*float64(of) }

func share(n, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of)) }

// Statistics counts the runs that ended and needed a model.
func (r *reader) Statistics(ctx context.Context, id eval.ID) (Statistics, error) {
	var s Statistics
	err := r.one(ctx, `
SELECT coalesce(sum(runs), 0), coalesce(sum(runs) FILTER (WHERE state = 'succeeded' AND answered_by = model), 0),
  coalesce(sum(runs) FILTER (WHERE state = 'succeeded' AND answered_by <> model), 0), coalesce(sum(rate_limit_waits), 0),
  coalesce(sum(rate_limit_fallbacks), 0), coalesce(sum(context_fallbacks), 0), coalesce(sum(waited), 0)
FROM run_totals WHERE evaluation = ? AND (state = 'failed' OR state = 'succeeded' AND answered_by <> '')`, string(id)).
		Scan(&s.Total, &s.Primary, &s.Fallback, &s.RateLimitWaits, &s.RateLimitFallbacks, &s.ContextFallbacks, &s.Waited)
	if err != nil {
		return Statistics{}, r.unread(err)
	}
	return s, nil
}
