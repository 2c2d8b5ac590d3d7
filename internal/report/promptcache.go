package report

import (
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// PromptCache says which share of the input providers read from their prompt caches, and what that saved. It is empty if
// they read nothing from them and wrote nothing.
func (r *Report) PromptCache() string { return cacheWords(r.total()) }

func cacheWords(u results.Usage) string {
	if u.Input == 0 || u.Cached+u.Written == 0 {
		return ""
	}
	words := percent(float64(u.Cached)/float64(u.Input)) + " of the input read from prompt caches"
	switch {
	case u.SavedUSD > 0:
		words += ", which saved " + ratelimit.USD(u.SavedUSD)
	case u.SavedUSD < 0:
		words += ", which cost " + ratelimit.USD(-u.SavedUSD) + " more than it saved"
	}
	return words
}
