package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// mostPrice and mostBudget keep money exact, in USD: of a million tokens or a
// thousand searches, and in all.
const (
	mostPrice  = 100_000
	mostBudget = 1_000_000
)

// prices reads rows of prices by "provider:model", which may end in a star for
// every model whose name begins so.
func (y *yamlFile) prices(v value, into map[string]record.Price) {
	y.entries(v, func(target string, v value) {
		if _, _, err := eval.ParseTarget(target); err != nil {
			y.refuse(v.key, `write "provider:model", or "provider:prefix*"`, "%q names no model", target)
			return
		}
		var p record.Price
		written := map[string]bool{}
		amount := func(key string, into *float64) func(value) {
			return func(v value) {
				written[key] = true
				if *into = y.number(v, 0, "a number of US dollars, at least 0"); *into > mostPrice {
					y.refuse(v.place, fmt.Sprintf("want at most %d", mostPrice), "%v dollars", *into)
				}
			}
		}
		y.mapping(v, keys{
			"input":  amount("input", &p.Input),
			"output": amount("output", &p.Output),
			"cached_input": func(v value) {
				p.CachedInput = new(float64)
				amount("cached_input", p.CachedInput)(v)
			},
			"search": amount("search", &p.Search),
		})
		for _, key := range []string{"input", "output"} {
			if !written[key] {
				y.refuse(v.key, "add "+key+", US dollars for a million tokens; 0 where they cost nothing", "%s is missing", key)
			}
		}
		into[target] = p
	})
}

// priceOf is the row of a model: the one of its name, else that of the longest
// prefix.
func priceOf(rows map[string]record.Price, target string) (record.Price, bool) {
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

// budget reads {usd: 50}.
func (y *yamlFile) budget(v value) money {
	at, usd, written := v.place, 0.0, false
	y.mapping(v, keys{
		"usd": func(v value) { at, usd, written = v.place, y.number(v, 0, "a number of US dollars above 0"), true },
	})
	nano := int64(math.Round(usd * ratelimit.Dollar))
	switch {
	case !written:
		y.refuse(v.place, "add usd, for example {usd: 50}", "the budget has no amount")
	case nano < 1 || usd > mostBudget:
		y.refuse(at, fmt.Sprintf("want US dollars above 0, at most %d", mostBudget), "a budget of %v", usd)
	}
	return money{nano, at}
}

// money is an amount of money in nano-USD, 0 for none, and where it stands.
type money struct {
	nano int64
	at   place
}

// priceJudges puts the prices of the judges into the settings. A budget needs
// them all: what a call costs would else be unknown, which is not 0.
func (s *draft) priceJudges() {
	rows := map[string]record.Price{}
	maps.Copy(rows, s.fleet.Prices)
	maps.Copy(rows, s.prices)
	prices := map[string]record.Price{}
	var unbounded []string
	for i, judge := range s.asked.Judges {
		target := judge.Target()
		p, ok := priceOf(rows, target)
		if ok {
			prices[target] = p
		} else if s.budget.nano > 0 {
			s.refuse(s.judgesAt[i], fmt.Sprintf(`add prices: {"%s": {input: …, output: …}}, US dollars for a million tokens, here or to --config`, target),
				"the budget needs the price of %s", target)
		}
		if _, bounded := judge.Overrides["max_completion_tokens"]; !bounded && p.Output > 0 {
			unbounded = append(unbounded, judge.Name)
		}
	}
	if len(prices) > 0 {
		s.settings.Prices = prices
	}
	if s.budget.nano > 0 && len(unbounded) > 0 {
		slices.Sort(unbounded)
		s.warn(s.budget.at, "add overrides: {max_completion_tokens: …} to them",
			"the budget can be passed by answers whose length nothing bounds: those of %s", strings.Join(slices.Compact(unbounded), ", "))
	}
}
