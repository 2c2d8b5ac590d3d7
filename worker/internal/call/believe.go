package call

import (
	"errors"

	"github.com/evalfleet/evalfleet/providers"
)

// believe removes impossible counts and costs from a provider's report, as if it had not
// reported them: the limits and the budget then keep the reservation. It logs each model once.
func (c *Calls) believe(model string, result *providers.Result, err error) {
	var wrong error
	disbelieve := func(used *providers.Usage) {
		if problem := used.Check(); problem != nil {
			*used, wrong = providers.Usage{Tier: used.Tier}, problem
		}
	}
	if result != nil {
		disbelieve(&result.Usage)
		result.Grounding.Searches = min(max(result.Grounding.Searches, 0), providers.MostSearches)
	}
	var failed *providers.Error
	if errors.As(err, &failed) {
		disbelieve(&failed.Used)
	}
	if wrong == nil {
		return
	}
	if _, said := c.by.said.absurd.LoadOrStore(model, true); !said {
		c.by.Worker.Log.Warn().Err(wrong).Str("model", model).Msg("the provider reports an impossible usage; using the reservation")
	}
}
