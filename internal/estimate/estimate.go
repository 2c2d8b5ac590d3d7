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
	"github.com/evalfleet/evalfleet/eval/prompt"
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
	// Window returns the context window of a judge's model in tokens, 0 if unknown; nil: all are unknown.
	Window func(judge eval.Judge) int
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
	// CostUSD is the cost of the calls at the prices in the settings; null if any price is unknown.
	CostUSD *float64 `json:"cost_usd" jsonschema:"nullable"`
	// PricesAsOf is the day of the list prices among them; empty if there are none.
	PricesAsOf string `json:"prices_as_of,omitempty"`
	// Seconds is the shortest possible duration, and Latency the assumed duration of a call.
	Seconds float64 `json:"seconds"`
	Latency float64 `json:"latency_seconds"`
	// Bounds holds the limits that cover any calls, the slowest first.
	Bounds []Bound `json:"bounds"`
	// Batch is what goes through batch endpoints; absent: nothing.
	Batch *Batch `json:"batch,omitempty"`
	// TooLarge lists the prompts that exceed known context windows.
	TooLarge []TooLarge `json:"too_large"`
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
	Runs  int       `json:"runs"`
	// Identical counts the runs whose verdict follows without a call: on two equal texts, or on one that fails a gate.
	Identical int   `json:"identical"`
	Calls     int   `json:"calls"` // the minimum: one for each other run
	Input     int64 `json:"input_tokens"`
	Output    int64 `json:"output_tokens"`
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
	e := q.Evaluation
	estimate := Estimate{Evaluation: e.ID(), Name: e.Name, Latency: q.Latency.Seconds(), TooLarge: []TooLarge{}}
	perPhase := promptsSampled
	if len(q.Plans) > 1 {
		perPhase /= len(q.Plans)
	}

	var asked []demand // parallel to estimate.Parts
	for _, p := range q.Plans {
		prompts, err := samplePrompts(q, p, perPhase)
		if err != nil {
			return Estimate{}, fmt.Errorf("estimate the %s phase: %w", p.Kind(), err)
		}
		estimate.Prompts += prompts.count
		if q.Window != nil {
			estimate.TooLarge = append(estimate.TooLarge, overWindows(q, p, prompts)...)
		}
		asks, identical, turns := plan.Asks(e, p.Kind(), p.Runs()), identicalByJudge(e, p), turnsByModel(q, p)
		for i, judge := range e.JudgesOf(p.Kind()) {
			part := Part{Kind: p.Kind(), Judge: judge.Name, Runs: asks[i], Identical: identical[i]}
			part.Calls = part.Runs - part.Identical
			if turns != nil {
				part.Calls = turns[i]
			}
			group := q.Settings.Group(p.Kind(), i)
			if together(q, p.Kind(), judge) {
				dimensions := len(e.Panel.Dimensions)
				part.Calls = (part.Calls + dimensions - 1) / dimensions
			}
			part.Input = prompts.tokens(part.Calls)
			part.Output, part.OutputBound = output(q, p.Kind(), judge, part.Calls)
			add := func(judge eval.Judge, part Part) {
				asked = append(asked, newDemand(judge, group, q.Settings.Tier(part.Kind, judge), part))
				estimate.Parts = append(estimate.Parts, part)
				estimate.Total = estimate.Total.plus(part)
			}
			add(judge, part)
			if q.TwoCalls != nil && q.TwoCalls(p.Kind(), judge) {
				add(second(q, part, prompts))
			}
		}
	}

	estimate.CostUSD, estimate.PricesAsOf = cost(q, asked), q.Settings.PricesAsOf
	estimate.Bounds, estimate.Batch = bounds(q, asked), batched(q, asked)
	if len(estimate.Bounds) > 0 {
		estimate.Seconds = estimate.Bounds[0].Seconds
	} else if estimate.Total.Calls > 0 {
		estimate.Seconds = estimate.Latency
	}

	estimate.Savings, estimate.Until, estimate.flags = cheaper(q, estimate, asked), until(q), q.Flags
	return estimate, nil
}

// Then returns the estimate of two evaluations, of which the second begins when the first has ended. It has the name
// and id of the first.
func (e Estimate) Then(next Estimate) Estimate {
	both := e
	both.Parts = slices.Concat(e.Parts, next.Parts)
	both.Total, both.Prompts = e.Total.plus(next.Total), e.Prompts+next.Prompts
	both.CostUSD, both.PricesAsOf = sum(e.CostUSD, next.CostUSD), cmp.Or(e.PricesAsOf, next.PricesAsOf)

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
	calls := 0
	for _, d := range asked {
		if d.tier == providers.TierBatch {
			calls += d.calls
		}
	}
	if calls == 0 {
		return nil
	}
	return &Batch{calls, q.Settings.Batch.Deadline.Seconds()}
}

func until(q Question) *Until {
	how := q.Settings.Until
	if how == nil {
		return nil
	}
	rule := how.Rule(q.Evaluation)
	u := &Until{Top: rule.Top, Confidence: rule.Sure(), Pairs: rule.Pairs(1)}
	for _, p := range q.Plans {
		if p.Kind() != eval.KindPairwise {
			u.Runs += p.Runs()
			continue
		}
		u.Runs += u.Pairs * plan.RunsOfPair(q.Evaluation)
		break
	}
	return u
}

// together reports whether an agent scores all dimensions in one call.
func together(q Question, kind eval.Kind, judge eval.Judge) bool {
	return kind == eval.KindPanel && slices.Contains(q.Settings.Batching, judge.Name)
}

// cost returns the cost of the calls in USD, in the service tiers that are asked for; nil if a price is unknown.
func cost(q Question, asked []demand) *float64 {
	var nano int64
	for _, d := range asked {
		price, ok := q.Settings.Prices[d.judge.Target()]
		price, known := price.In(d.tier)
		if d.calls > 0 && (!ok || !known) {
			return nil
		}
		nano += price.Cost(providers.Usage{Input: d.input, Output: d.output}, 0)
	}
	usd := float64(nano) / ratelimit.Dollar
	return &usd
}

func (p Part) plus(other Part) Part {
	total := Part{
		Runs: p.Runs + other.Runs, Identical: p.Identical + other.Identical, Calls: p.Calls + other.Calls,
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

// turnsByModel counts the calls of prompts, one for each turn, by position of the model. It returns nil for other
// kinds. A prompt that cannot be read needs no calls.
func turnsByModel(q Question, p *plan.Plan) []int {
	if p.Kind() != eval.KindPrompts {
		return nil
	}
	prompts := q.Evaluation.Prompts
	counts, turns := make([]int, len(prompts.Models)), map[int]int{}
	for index := range p.Runs() {
		run := p.Run(index)
		if _, known := turns[run.First]; !known {
			written, _ := prompt.ReadRow(prompts.Format, q.Texts[prompts.Rows[run.First].Hash]) // no turns on an error
			turns[run.First] = len(written.Turns)
		}
		counts[run.Judge] += turns[run.First]
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
