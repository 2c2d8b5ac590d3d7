// Package estimate predicts, before anything is spent, an evaluation's runs, calls and tokens, and the shortest time
// that its limits allow.
//
// It is arithmetic on the plan, the texts and the settings. It calls no provider and reads no clock or file. It
// assumes that every limit is unused at the start. It does not predict failures: retries and repairs are extra.
package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Question holds the input of an estimate.
type Question struct {
	Evaluation *eval.Evaluation
	Plans      []*plan.Plan      // of its phases, with the settings of the run
	Texts      map[string]string // documents by hash
	Settings   record.Settings
	Latency    time.Duration // assumed for every call; above 0
	TokensOut  int           // assumed for every answer; 0: derived from the question
	Now        time.Time     // start of the evaluation; days are counted from it
	Slots      int           // calls in flight in one process; 0: any number of processes
	// TwoCalls reports whether a judge's verdicts take a second call, to Evaluation.Jsonify; nil: none do.
	TwoCalls func(kind eval.Kind, judge eval.Judge) bool
	// Flags says that flags choose what is compared, because no evaluation file does.
	Flags bool
	// Capabilities returns what is known about a judge's model; nil: nothing is.
	Capabilities func(judge eval.Judge) providers.Capabilities
	// Known says which runs are not asked. Designs with fewer calls take none of them for known.
	Known Known
	// Accounts says how many accounts each provider has; 0: it is one account.
	Accounts map[string]int
}

// Estimate holds the predicted size, cost and duration of an evaluation. `evalfleet estimate --json` prints its JSON
// form.
type Estimate struct {
	Evaluation eval.ID `json:"evaluation"`
	Name       string  `json:"name"`
	// Parts holds the work of each phase and judge, in that order. If a judge's verdicts take a second call, its part
	// is followed by one for the calls that write JSON. Total is the sum.
	Parts []Part `json:"parts"`
	Total Part   `json:"total"`
	// Prompts is how many prompts were built to estimate input tokens.
	Prompts int `json:"prompts_sampled"`
	// Unpriced lists the models, as "provider:model" or "provider:model (tier)", whose price is unknown.
	Unpriced []string `json:"unpriced"`
	// CostUSD is the cost of the calls at the prices in the settings; null if any price is unknown.
	CostUSD *float64 `json:"cost_usd" jsonschema:"nullable"`
	// LeastCalls and LeastCostUSD are the calls and the cost if no pair is contested; absent: they do not depend on that.
	LeastCalls   int      `json:"calls_at_least,omitempty"`
	LeastCostUSD *float64 `json:"cost_usd_at_least,omitempty"`
	// PricesAsOf is the day of the list prices among them; empty if there are none.
	PricesAsOf string `json:"prices_as_of,omitempty"`
	// OldPrices lists the providers with prices that are older than 90 days.
	OldPrices []OldPrice `json:"old_prices"`
	// Seconds is the shortest possible duration, and Latency the assumed duration of a call.
	Seconds float64 `json:"seconds"`
	Latency float64 `json:"latency_seconds"`
	// Bounds holds the limits that cover any calls, the slowest first.
	Bounds []Bound `json:"bounds"`
	// Batch is what goes through batch endpoints; absent: nothing.
	Batch *Batch `json:"batch,omitempty"`
	// TooLarge lists the prompts that exceed known context windows.
	TooLarge []TooLarge `json:"too_large"`
	// Ways lists the ways in which the evaluation could be asked. The first is how it would be asked now.
	Ways []Way `json:"ways"`
	// BudgetUSD is the most that the evaluation may cost; absent: no bound.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	// Savings lists designs that need fewer calls for the same question, the one with the fewest first.
	Savings []Saving `json:"savings"`
	flags   bool     // as in Question
	// Until says when the evaluation may end early; nil if it cannot.
	Until *Until `json:"until,omitempty"`
}

// Until describes the first check whether the best candidates are known.
type Until struct {
	Top        int     `json:"top"` // candidates
	Confidence float64 `json:"confidence"`
	Pairs      int     `json:"first_check_pairs"`
	Runs       int     `json:"first_check_runs"` // runs before the first check
}

// Part is one judge's work in one phase.
type Part struct {
	Kind  eval.Kind `json:"kind,omitempty"`
	Judge string    `json:"judge,omitempty"`
	// Anchors means that the judge is asked about anchors.
	Anchors bool `json:"anchors,omitempty"`
	Runs    int  `json:"runs"`
	// Identical counts the runs whose verdict follows without a call: on two equal texts, or on one that fails a gate.
	Identical int `json:"identical"`
	// Recorded counts the runs that have ended already, and Answered those to whose question an earlier evaluation has
	// recorded an answer.
	Recorded int   `json:"recorded,omitempty"`
	Answered int   `json:"answered_before,omitempty"`
	Calls    int   `json:"calls"` // the minimum: one for each other run
	Input    int64 `json:"input_tokens"`
	Output   int64 `json:"output_tokens"`
	// OutputBound is the maximum number of output tokens according to max_completion_tokens; 0 if that is not set.
	OutputBound int64 `json:"output_tokens_bound,omitempty"`
}

// Batch is what goes through the batch endpoints of providers. No limit bounds how long that takes: only its deadline.
type Batch struct {
	Calls    int     `json:"calls"`
	Deadline float64 `json:"deadline_s"` // within which a batch must be answered
}

// Of computes an estimate. It returns an error if a prompt cannot be built.
func Of(q Question) (Estimate, error) {
	made, _, err := of(q)
	return made, err
}

// of computes an estimate, and returns the demands of all runs, whether or not they are known.
func of(q Question) (Estimate, []demand, error) {
	e := q.Evaluation
	estimate := Estimate{Evaluation: e.ID(), Name: e.Name, Latency: q.Latency.Seconds(), TooLarge: []TooLarge{}}
	perPhase := promptsSampled
	if len(q.Plans) > 1 {
		perPhase /= len(q.Plans)
	}

	var asked, again, whole []demand // without what is known; without what is recorded; everything
	for phase, p := range q.Plans {
		if plan.Recorded(e, phase) {
			continue
		}
		prompts, err := samplePrompts(q, p, perPhase)
		if err != nil {
			return Estimate{}, nil, fmt.Errorf("estimate the %s phase: %w", p.Kind(), err)
		}
		estimate.Prompts += prompts.count
		if q.Capabilities != nil {
			estimate.TooLarge = append(estimate.TooLarge, overWindows(q, p, prompts)...)
		}

		loads, of := loadsOf(q, phase), &sized{q, p.Kind(), prompts, sampledIn(e, phase, p)}
		first, judges := plan.JudgesIn(e, phase)
		for i, judge := range e.JudgesOf(p.Kind()) {
			if i < first || i >= first+judges {
				continue
			}
			l := loads[i]
			if together(q, p.Kind(), judge) {
				l = l.together(len(e.Panel.Dimensions))
			}
			part := of.part(judge, l.calls.calls)
			part.Runs, part.Identical, part.Recorded, part.Answered = l.runs, l.identical, l.recorded, l.answered
			part.Anchors = e.Anchors != nil
			estimate.add(part)
			if q.TwoCalls != nil && q.TwoCalls(p.Kind(), judge) {
				_, written := second(q, part, prompts)
				estimate.add(written)
			}
			asked = append(asked, of.demands(i, judge, l.calls)...)
			again = append(again, of.demands(i, judge, l.again)...)
			whole = append(whole, of.demands(i, judge, l.whole)...)
		}
	}

	estimate.CostUSD, estimate.PricesAsOf = cost(q, asked), q.Settings.PricesAsOf
	estimate.OldPrices, estimate.Unpriced = OldPrices(q.Now, q.Settings), unpriced(q, asked)
	estimate.BudgetUSD = float64(q.Settings.Budget()) / ratelimit.Dollar
	least := leastOf(asked)
	estimate.Bounds, estimate.Batch = bounds(q, least), batched(q, asked)
	estimate.Seconds, _ = shortest(q, estimate.Bounds, least)
	if n := callsOf(least); n < callsOf(asked) {
		estimate.LeastCalls, estimate.LeastCostUSD = n, cost(q, least)
	}
	estimate.Savings, estimate.Until, estimate.flags = cheaper(q, estimate.Total.Calls, whole), until(q), q.Flags
	estimate.Ways = waysOf(q, asked, again, estimate.Savings)
	return estimate, whole, nil
}

// add adds a part to the estimate.
func (e *Estimate) add(part Part) {
	e.Parts = append(e.Parts, part)
	e.Total = e.Total.plus(part)
}

// Then returns the estimate of two evaluations, of which the second begins when the first has ended. It has the name
// and id of the first.
func (e Estimate) Then(next Estimate) Estimate {
	both := e
	both.Parts = slices.Concat(e.Parts, next.Parts)
	both.Total, both.Prompts = e.Total.plus(next.Total), e.Prompts+next.Prompts
	if e.LeastCalls+next.LeastCalls > 0 {
		both.LeastCalls = cmp.Or(e.LeastCalls, e.Total.Calls) + cmp.Or(next.LeastCalls, next.Total.Calls)
		both.LeastCostUSD = sum(cmp.Or(e.LeastCostUSD, e.CostUSD), cmp.Or(next.LeastCostUSD, next.CostUSD))
	}
	both.CostUSD, both.PricesAsOf = sum(e.CostUSD, next.CostUSD), cmp.Or(e.PricesAsOf, next.PricesAsOf)
	both.Unpriced = distinct(e.Unpriced, next.Unpriced)
	both.Ways = waysThen(e.Ways, next.Ways)
	both.OldPrices = oldestOfEach(slices.Concat(e.OldPrices, next.OldPrices))

	both.Batch = cmp.Or(next.Batch, e.Batch)
	if e.Batch != nil && next.Batch != nil {
		both.Batch = &Batch{e.Batch.Calls + next.Batch.Calls, e.Batch.Deadline + next.Batch.Deadline}
	}
	both.Seconds = e.Seconds + next.Seconds
	both.Bounds = slices.Concat(e.Bounds, next.Bounds)
	slices.SortStableFunc(both.Bounds, func(a, b Bound) int { return cmp.Compare(b.Seconds, a.Seconds) })
	both.TooLarge = slices.Concat(e.TooLarge, next.TooLarge)
	both.Savings, both.flags = slices.Clone(next.Savings), next.flags
	for i := range both.Savings {
		both.Savings[i].Calls += e.Total.Calls
		both.Savings[i].CostUSD = sum(e.CostUSD, both.Savings[i].CostUSD)
	}
	if next.Until != nil {
		until := *next.Until
		until.Runs += e.Total.Runs
		both.Until = &until
	}
	return both
}

// batched returns what goes through batch endpoints; nil: nothing.
func batched(q Question, asked []demand) *Batch {
	if calls := callsIn(asked, providers.TierBatch); calls > 0 {
		return &Batch{calls, q.Settings.Batch.Deadline.Seconds()}
	}
	return nil
}

func until(q Question) *Until {
	how := q.Settings.Until
	if how == nil {
		return nil
	}
	rule := how.Rule(q.Evaluation)
	u := &Until{Top: rule.Top, Confidence: rule.Sure(), Pairs: rule.Pairs(1)}
	for phase, p := range q.Plans {
		if p.Kind() != eval.KindPairwise {
			u.Runs += p.Runs()
			continue
		}
		u.Runs += u.Pairs * plan.RunsOfPair(q.Evaluation, phase)
		break
	}
	return u
}

// capabilities returns what is known about a judge's model.
func (q *Question) capabilities(judge eval.Judge) providers.Capabilities {
	if q.Capabilities == nil {
		return providers.Capabilities{}
	}
	return q.Capabilities(judge)
}

// together reports whether an agent scores all dimensions in one call.
func together(q Question, kind eval.Kind, judge eval.Judge) bool {
	return kind == eval.KindPanel && slices.Contains(q.Settings.Batching, judge.Name)
}

// together returns the load of a judge that is asked about so many runs in one call.
func (l load) together(runs int) load {
	calls := func(of amount) amount { return amount{calls: (of.calls + runs - 1) / runs} }
	l.whole, l.again, l.calls = calls(l.whole), calls(l.again), calls(l.calls)
	return l
}

// cost returns the cost of the calls in USD, in the service tiers that are asked for; nil if a price is unknown.
func cost(q Question, asked []demand) *float64 {
	var nano int64
	for _, d := range asked {
		price, known := q.priceOf(d)
		if d.calls > 0 && !known {
			return nil
		}
		nano += price.Cost(providers.Usage{Input: d.input, Output: d.output}, 0)
	}
	usd := float64(nano) / ratelimit.Dollar
	return &usd
}

// priceOf returns the price of the calls of a demand in its tier; false: unknown.
func (q *Question) priceOf(d demand) (providers.Price, bool) {
	price, ok := q.Settings.Prices[d.judge.Target()]
	price, known := price.In(d.tier)
	if price.Long != nil && d.calls > 0 && d.input/int64(d.calls) <= price.Long.Above {
		price.Long = nil // its prices are those of long calls, not of many
	}
	return price, ok && known
}

// unpriced returns the models whose price is unknown, in the tiers that are asked for.
func unpriced(q Question, asked []demand) []string {
	names := []string{}
	for _, d := range asked {
		if _, known := q.priceOf(d); d.calls > 0 && !known {
			name := d.judge.Target()
			if d.tier != "" {
				name += " (" + d.tier + ")"
			}
			names = append(names, name)
		}
	}
	return distinct(names)
}

// distinct returns the names in all lists, sorted.
func distinct(lists ...[]string) []string {
	all := append([]string{}, slices.Concat(lists...)...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (p Part) plus(other Part) Part {
	total := Part{
		Runs: p.Runs + other.Runs, Identical: p.Identical + other.Identical, Calls: p.Calls + other.Calls,
		Recorded: p.Recorded + other.Recorded, Answered: p.Answered + other.Answered,
		Input: p.Input + other.Input, Output: p.Output + other.Output,
	}
	if other.OutputBound > 0 && (p.Runs == 0 || p.OutputBound > 0) { // only if all have a bound
		total.OutputBound = p.OutputBound + other.OutputBound
	}
	return total
}

// identicalByJudge counts the runs whose verdict follows without a call, by position of the judge.
func identicalByJudge(e *eval.Evaluation, p *plan.Plan) []int {
	counts := make([]int, len(e.JudgesOf(p.Kind())))
	failed := func(d eval.Document) bool { return d.Failed != nil }
	if p.Kind() != eval.KindPairwise || !anyIdentical(e.Documents) && !slices.ContainsFunc(e.Documents, failed) {
		return counts
	}
	for index := range p.Runs() {
		if run := p.Run(index); same(e, p.Kind(), run) {
			counts[run.Judge]++
		}
	}
	return counts
}

// anyIdentical reports whether any two documents of an item have the same text. For most evaluations this avoids
// iterating over the plan.
func anyIdentical(documents []eval.Document) bool {
	type text struct {
		item int
		hash string
	}
	seen := make(map[text]bool, len(documents))
	for _, d := range documents {
		key := text{d.Item, d.Hash}
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// same reports whether a run's verdict follows without a call.
func same(e *eval.Evaluation, kind eval.Kind, run plan.Run) bool {
	if kind != eval.KindPairwise {
		return false
	}
	_, _, decided := e.Decided(e.Documents[run.First], e.Documents[run.Second])
	return decided
}
