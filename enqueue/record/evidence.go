package record

import (
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Bounds on the evidence kept of an answer: a call's record travels through Redis into the results
// store, for millions of calls.
const (
	keptQueries   = 20
	keptSources   = 50
	keptLine      = 2 << 10 // bytes of a query, an address or a title
	keptReasoning = 16 << 10
	keptRatings   = 20
	keptRating    = 64 // bytes of a category or a probability
)

// Evidence stores in the call what an answer shows of searches and reasoning. It keeps the first 20
// queries, 50 sources and 20 safety ratings, with up to 2 KiB of each text, and 16 KiB of the
// reasoning. The number of searches is kept in full.
func (c *Call) Evidence(result *providers.Result) {
	c.Reasoning = beginning(result.Reasoning, keptReasoning)
	shown := result.Grounding
	if !shown.Evident() && len(shown.Safety) == 0 {
		return
	}
	kept := &providers.Grounding{Searches: shown.Searches}
	for _, query := range shown.Queries[:min(len(shown.Queries), keptQueries)] {
		kept.Queries = append(kept.Queries, beginning(query, keptLine))
	}
	for _, source := range shown.Sources[:min(len(shown.Sources), keptSources)] {
		kept.Sources = append(kept.Sources, providers.Source{URL: beginning(source.URL, keptLine), Title: beginning(source.Title, keptLine)})
	}
	for _, rating := range shown.Safety[:min(len(shown.Safety), keptRatings)] {
		rating.Category, rating.Probability = beginning(rating.Category, keptRating), beginning(rating.Probability, keptRating)
		kept.Safety = append(kept.Safety, rating)
	}
	c.Grounding = kept
}

// beginning returns the first n bytes of text, without an incomplete character at their end.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
