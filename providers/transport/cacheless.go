package transport

import (
	"errors"
	"regexp"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// cacheless remembers the models of an endpoint that refuse what is said about prompt caches: a gateway may lack the
// fields of its vendor. The zero value knows none. It is safe for concurrent use.
type cacheless struct {
	mu     sync.Mutex
	models map[string]bool
}

// of returns how a model is told what to cache, where way is the known way.
func (c *cacheless) of(model string, way providers.PromptCache) providers.PromptCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.models[model] {
		return providers.PromptCacheUntold
	}
	return way
}

// learn learns from err, the failure of a call of a model that was told in the given way. If the endpoint refuses that,
// providers.ErrAgain is in the chain of the returned error.
func (c *cacheless) learn(model string, way providers.PromptCache, err error) error {
	var failed *providers.Error
	if way == providers.PromptCacheUntold || !errors.As(err, &failed) || failed.Class != providers.BadRequest ||
		!aboutCaches.MatchString(failed.Message) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.models == nil {
		c.models = map[string]bool{}
	}
	c.models[model] = true
	failed.Err = providers.ErrAgain
	return failed
}

var aboutCaches = regexp.MustCompile(`(?i)prompt_cache_|cache_control`)
