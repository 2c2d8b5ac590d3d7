package worker

import (
	"errors"

	"github.com/evalfleet/evalfleet/providers"
)

// believe removes counts and costs that no call has from what a provider reported, as if
// it had reported none: the limits and the budget then keep what was reserved. The log
// names each model once.
func (r *run) believe(model string, result *providers.Result, err error) {
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
	if _, said := r.absurd.LoadOrStore(model, true); !said {
		r.log.Warn().Err(wrong).Str("model", model).Msg("the provider reports a usage that no call has; using what was reserved")
	}
}
