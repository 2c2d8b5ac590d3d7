package transport

import (
	"regexp"

	"github.com/evalfleet/evalfleet/providers"
)

// cacheless has the models of an endpoint that refuse the fields of prompt caches: a gateway may lack those of its vendor.
type cacheless struct{ Refusals }

// of returns by which fields a model is asked to cache, where way is the known way.
func (c *cacheless) of(model string, way providers.PromptCache) providers.PromptCache {
	if c.Has(model) {
		return providers.PromptCacheUntold
	}
	return way
}

// learn learns from err, the failure of a call that asked to cache in the given way; see Refusals.Learn.
func (c *cacheless) learn(model string, way providers.PromptCache, err error) error {
	return c.Learn(model, err, func(failed *providers.Error) bool {
		return way != providers.PromptCacheUntold && failed.Class == providers.BadRequest && aboutCaches.MatchString(failed.Message)
	})
}

var aboutCaches = regexp.MustCompile(`(?i)prompt_cache_|cache_control`)
