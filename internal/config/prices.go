package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// mostPrice and mostBudget bound amounts of USD so that sums stay exact: mostPrice for a million
// tokens or a thousand searches, mostBudget for an evaluation.
const (
	mostPrice  = 100_000
	mostBudget = 1_000_000
)

// prices reads prices by "provider:model". A key may end in a star, which matches every model whose
// name begins so.
func (y *yamlFile) prices(v value, into map[string]providers.Price) {
	y.entries(v, func(target string, v value) {
		if _, _, err := eval.ParseTarget(target); err != nil || !harmless.IsName(target) {
			y.refuse(v.key, `write "provider:model", or "provider:prefix*"`, "%q does not name a model", target)
			return
		}

		var p providers.Price
		others := keys{
			"search": func(v value) { p.Search = y.dollars(v) },
			"tiers": func(v value) {
				p.Tiers = map[string]float64{}
				y.entries(v, func(tier string, v value) { p.Tiers[tier] = y.number(v, 0, "a factor, at least 0") })
			},
			"search_once": func(v value) { p.SearchOnce = y.boolean(v) },
			"as_of":       func(v value) { p.AsOf = y.day(v) },
			"long": func(v value) {
				p.Long = &providers.LongRates{}
				written := false
				y.rates(v, &p.Long.Rates, keys{
					"above": func(v value) { p.Long.Above, written = int64(y.integer(v, 1, math.MaxInt32)), true },
				})
				if !written {
					y.refuse(v.key, "add above, a number of input tokens", "the length from which the price applies is missing")
				}
			},
		}
		y.rates(v, &p.Rates, others)
		into[target] = p
	})
}

// rates reads the prices of tokens, and the keys in others.
func (y *yamlFile) rates(v value, into *providers.Rates, others keys) {
	written := map[string]bool{}
	must := func(key string, into *float64) func(value) {
		return func(v value) { *into, written[key] = y.dollars(v), true }
	}
	may := func(into **float64) func(value) {
		return func(v value) { *into = new(float64); **into = y.dollars(v) }
	}
	all := keys{
		"input":        must("input", &into.Input),
		"output":       must("output", &into.Output),
		"cached_input": may(&into.CachedInput),
		"cache_write":  may(&into.CacheWrite),
	}
	maps.Copy(all, others)
	y.mapping(v, all)
	for _, key := range []string{"input", "output"} {
		if !written[key] {
			y.refuse(v.key, "add "+key+", US dollars per million tokens; 0 if they are free", "%s is missing", key)
		}
	}
}

func (y *yamlFile) dollars(v value) float64 {
	usd := y.number(v, 0, "a number of US dollars, at least 0")
	if usd > mostPrice {
		y.refuse(v.place, fmt.Sprintf("want at most %d", mostPrice), "%v dollars", usd)
	}
	return usd
}

// priceOf returns the price of a model: the row with its name, or else the one with the longest
// matching prefix.
func priceOf(rows map[string]providers.Price, target string) (providers.Price, bool) {
	if p, ok := rows[target]; ok {
		return p, true
	}
	best, found := "", false
	for key := range rows {
		prefix, open := strings.CutSuffix(key, "*")
		if open && strings.HasPrefix(target, prefix) && (!found || len(key) > len(best)) {
			best, found = key, true
		}
	}
	return rows[best], found
}

// money reads {usd: 50}. what names the amount in messages.
func (y *yamlFile) money(v value, what string) money {
	if word, ok := scalar(v.node); ok {
		y.refuse(v.place, "write {usd: "+strings.TrimPrefix(printable(word), "$")+"}", "the %s has no currency", what)
		return money{at: v.place}
	}
	at, usd, written, valid := v.place, 0.0, false, true
	y.mapping(v, keys{
		"usd": func(v value) {
			_, valid = number(v.node)
			at, usd, written = v.place, y.number(v, 0, "a number of US dollars above 0"), true
		},
	})
	nano := int64(math.Round(usd * ratelimit.Dollar))
	switch {
	case !valid: // already reported
	case !written:
		y.refuse(v.place, "add usd, for example {usd: 50}", "the %s has no amount", what)
	case nano < 1 || usd > mostBudget:
		y.refuse(at, fmt.Sprintf("want US dollars above 0, at most %d", mostBudget), "a %s of %v", what, usd)
	}
	return money{nano, at}
}

// money is an amount of money in nano-USD, 0 for none, with its place.
type money struct {
	nano int64
	at   place
}

// price returns a model's price. It is from the files, where the evaluation's rows override the
// fleet's, or else from the built-in table; listed reports the latter.
func (s *draft) price(provider, model string) (p providers.Price, known, listed bool) {
	rows := maps.Clone(s.fleet.Prices)
	maps.Copy(rows, s.prices)
	if p, known = priceOf(rows, provider+":"+model); known {
		return p, true, false
	}
	p, known = s.known[provider].Price(model, s.clock())
	return p, known, known && p.Input > 0
}

// priceEveryone stores the prices of all models in the settings. A budget requires all of them:
// without a price, the cost of a call is unknown, not 0.
func (s *draft) priceEveryone() {
	prices := map[string]providers.Price{}
	var unbounded []string
	places := slices.Concat(s.judgesAt, s.agentsAt, s.modelsAt)
	for i, asked := range s.settings.Everyone(&s.asked) {
		target := asked.Target()
		p, known, listed := s.price(asked.Provider, asked.Model)
		switch {
		case known:
			prices[target] = p
		case s.budget.nano > 0:
			at := s.budget.at
			if i < len(places) {
				at = places[i]
			}
			s.refuse(at, fmt.Sprintf(`add prices: {"%s": {input: …, output: …}}, US dollars per million tokens, here or to --config`, target),
				"the budget needs the price of %s", target)
		}
		if listed {
			s.settings.PricesAsOf = catalog.PricesAsOf()
		}
		if _, bounded := asked.Overrides["max_completion_tokens"]; !bounded && asked.Name != "" && p.Output > 0 {
			unbounded = append(unbounded, asked.Name)
		}
	}

	if len(prices) > 0 {
		s.settings.Prices = prices
	}
	if s.budget.nano > 0 && len(unbounded) > 0 {
		slices.Sort(unbounded)
		s.warn(s.budget.at, "add overrides: {max_completion_tokens: …} to them",
			"answers of unlimited length can exceed the budget: those of %s", strings.Join(slices.Compact(unbounded), ", "))
	}

	if s.budget.nano > 0 && s.demands(s.asked.Grounded) {
		s.warn(s.budget.at, "lower the budget accordingly, or set grounding: off",
			"searches can exceed the budget, because their cost cannot be bounded before the call")
	}
}
