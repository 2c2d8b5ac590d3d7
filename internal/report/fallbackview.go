package report

import (
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// fallbackView shows how often other models answered, and what to change.
type fallbackView struct {
	How    string // the settings
	Advice []string
	Fine   bool // fallback models are set, and nothing needs to change
	Rows   []fallbackRow
}

type fallbackRow struct {
	What, N, Share string
}

// fallbackView returns nil if no fallback models are set and no run waited for a rate limit.
func (r *Report) fallbackView() *fallbackView {
	s, how := r.Statistics, r.Evaluation.Settings.Fallback
	if how == nil && s.Fallback+s.RateLimitWaits == 0 {
		return nil
	}
	v := &fallbackView{How: "no fallback models"}
	if how != nil {
		longest := "any"
		if how.MaxWait > 0 {
			longest = span(how.MaxWait)
		}
		v.How = fmt.Sprintf("models: %s; longest single wait: %s; waits at most: %d; backoff base: %s",
			wording.Clip(harmless.Line(strings.Join(how.Models, ", ")), reasonRunes), longest, how.MaxRetries, wording.Plain(how.Base))
		v.Advice = s.Advice(how)
		v.Fine = len(v.Advice) == 0 && s.Total > 0
	}
	v.Rows = fallbackRows(s)
	return v
}

func fallbackRows(s results.Statistics) []fallbackRow {
	runs := func(what string, n int) fallbackRow {
		return fallbackRow{what, wording.Count(n), percentOf(n, s.Total)}
	}
	times := func(what string, n int) fallbackRow { return fallbackRow{What: what, N: wording.Count(n)} }
	return []fallbackRow{
		runs("runs", s.Total),
		runs("answered by the run's own model", s.Primary),
		runs("answered by another model", s.Fallback),
		runs("that waited for rate limits", s.Waited),
		times("waits for rate limits", s.RateLimitWaits),
		times("fallbacks because of rate limits", s.RateLimitFallbacks),
		times("fallbacks because the text was too large", s.ContextFallbacks),
	}
}
