package estimate

import (
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// pooled returns the limits of the evaluation, and in place of those of accounts what all accounts of a provider allow
// together. An account without such a limit leaves its provider without one.
func (q Question) pooled() []ratelimit.Limit {
	var limits []ratelimit.Limit
	pools, sizes := map[string]int{}, map[string]int{} // by ID: where the pool is in limits, and how many accounts it has
	for _, l := range q.Settings.Limits {
		provider, account := catalog.ProviderOf(l.Provider)
		if account == "" {
			limits = append(limits, l)
			continue
		}
		l.Provider = provider
		id := l.ID()
		if sizes[id]++; sizes[id] == 1 {
			pools[id] = len(limits)
			limits = append(limits, l)
		} else {
			limits[pools[id]].Max += l.Max
		}
	}

	kept := limits[:0]
	for i, l := range limits {
		if at, is := pools[l.ID()]; is && at == i && sizes[l.ID()] < q.Accounts[l.Provider] {
			continue
		}
		kept = append(kept, l)
	}
	return kept
}
