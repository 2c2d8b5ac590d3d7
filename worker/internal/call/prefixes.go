package call

import (
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/prefixes"
)

// prefixes decides what a step's request asks its provider to keep in its prompt cache.
func (c *Calls) prefixes(s Step) *prefixes.Call {
	capabilities := c.by.Worker.Endpoints[s.Target.Provider].Capabilities
	if capabilities == nil {
		return nil
	}
	known, target := capabilities(s.Target.Model), s.Target.Target()
	terms := prefixes.Terms{
		Way: known.PromptCache, Minimum: known.CacheMinimum, PerByte: c.by.Tokens.PerByte(target),
		Price: c.priceOf(target), Runs: c.runsOfJudge(),
	}
	of := prefixes.Of{Evaluation: c.run.Task.Evaluation, Judge: c.run.Place.Judge, Model: target}
	return c.by.Prefixes.Begin(of, s.Request, terms, time.Now())
}

// priceOf returns the price of "provider:model"; nil: it is not known.
func (c *Calls) priceOf(target string) *providers.Price {
	if price, ok := c.run.Settings().Prices[target]; ok {
		return &price
	}
	return nil
}

// runsOfJudge returns how many runs of the phase the run's judge has, at most.
func (c *Calls) runsOfJudge() int {
	kind, p := c.run.Task.Kind, c.run.Evaluation.Plans[c.run.Task.Phase]
	if kind == eval.KindRuns || kind == eval.KindPrompts { // each has its own model
		return p.Runs()
	}
	return (p.Runs() + p.Judges() - 1) / p.Judges()
}
