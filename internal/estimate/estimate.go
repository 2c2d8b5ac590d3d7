// Package estimate predicts, before anything is spent, an evaluation's runs, calls, tokens, and
// the shortest time that its limits allow.
//
// It is arithmetic on the plan, the texts and the settings. It calls no provider and reads no
// clock or file, assumes every limit unused at the start, and does not guess at failures:
// retries and repairs are extra.
package estimate

import (
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// Question is what an estimate is made of.
type Question struct {
	Evaluation *eval.Evaluation
	Plans      []*plan.Plan      // of its phases, as they would run
	Texts      map[string]string // documents by hash
	Settings   record.Settings
	Latency    time.Duration // assumed of every call; above 0
	TokensOut  int           // assumed of every answer; 0: derived from the question
	Now        time.Time     // of the start, from which days are counted
	Slots      int           // calls in flight in one process; 0: any number of processes
	// TwoCalls reports which models' verdicts take a second call, of Evaluation.Jsonify; nil:
	// none.
	TwoCalls func(kind eval.Kind, judge eval.Judge) bool
	// Window is the context window of a judge's model in tokens, 0 if it is not known; nil: none
	// is.
	Window func(judge eval.Judge) int
}

// Estimate is what an evaluation will come to. Its JSON form is what
// `evalfleet estimate --json` prints.
type Estimate struct {
	Evaluation eval.ID `json:"evaluation"`
	Name       string  `json:"name"`
	// Parts are the runs of each phase and judge, in that order, and after those of a
	// judge whose verdicts take a second call the calls that write their JSON; Total
	// sums them.
	Parts []Part `json:"parts"`
	Total Part   `json:"total"`
	// Prompts is how many prompts were built to count input tokens.
	Prompts int `json:"prompts_sampled"`
	// CostUSD is what the calls cost by the prices in the settings; null when the
	// price of any that are made is unknown, which is not 0.
	CostUSD *float64 `json:"cost_usd" jsonschema:"nullable"`
	// PricesAsOf is the day of the list prices among them; empty: there are none.
	PricesAsOf string `json:"prices_as_of,omitempty"`
	// Seconds is the shortest possible duration, Latency the time assumed of one
	// call in it.
	Seconds float64 `json:"seconds"`
	Latency float64 `json:"latency_seconds"`
	// Bounds are the limits that the calls meet, the one that binds first.
	Bounds []Bound `json:"bounds"`
	// TooLarge are prompts that are larger than known context windows.
	TooLarge []TooLarge `json:"too_large"`
	// Savings are settings that ask fewer calls of the same documents.
	Savings []Saving `json:"savings"`
	// Until says when the evaluation may end before all its calls are made; absent: it does not.
	Until *Until `json:"until,omitempty"`
}

// Until is when it is checked first whether the best candidates are known.
type Until struct {
	Top        int     `json:"top"` // candidates
	Confidence float64 `json:"confidence"`
	Pairs      int     `json:"first_check_pairs"`
	Runs       int     `json:"first_check_runs"` // until then
}

// Part is one judge's work in one phase.
type Part struct {
	Kind  eval.Kind `json:"kind,omitempty"`
	Judge string    `json:"judge,omitempty"`
	Runs  int       `json:"runs"`
	// Identical are the runs on two equal texts, which are ties without a call.
	Identical int   `json:"identical"`
	Calls     int   `json:"calls"` // the least: one for each other run
	Input     int64 `json:"input_tokens"`
	Output    int64 `json:"output_tokens"`
	// OutputBound is what the answers cannot pass, by max_completion_tokens; 0: no
	// bound is set.
	OutputBound int64 `json:"output_tokens_bound,omitempty"`
}

// Saving is a setting and how many calls are left with it.
type Saving struct {
	Setting string `json:"setting"`
	Calls   int    `json:"calls"`
}

// The settings that savings refer to.
const (
	OneOrder  = "order: random"
	OneInFive = "pairs: sample:0.2"
)

// Of makes an estimate. Its error is one of a prompt that cannot be built.
func Of(q Question) (Estimate, error) {
	e := q.Evaluation
	estimate := Estimate{Evaluation: e.ID(), Name: e.Name, Latency: q.Latency.Seconds(), TooLarge: []TooLarge{}}
	perPhase := promptsSampled
	if len(q.Plans) > 1 {
		perPhase /= len(q.Plans)
	}
	var asked []demand // beside estimate.Parts
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
		for i, judge := range e.Asked(p.Kind()) {
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
				asked = append(asked, newDemand(judge, group, part))
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
	estimate.Bounds = bounds(q, asked)
	if len(estimate.Bounds) > 0 {
		estimate.Seconds = estimate.Bounds[0].Seconds
	} else if estimate.Total.Calls > 0 {
		estimate.Seconds = estimate.Latency
	}
	estimate.Savings, estimate.Until = savings(e, estimate), until(q)
	return estimate, nil
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

// together reports whether an agent is asked for all dimensions in one call.
func together(q Question, kind eval.Kind, judge eval.Judge) bool {
	return kind == eval.KindPanel && slices.Contains(q.Settings.Batching, judge.Name)
}

// cost is what the calls cost that are asked for; nil where a price is not known.
func cost(q Question, asked []demand) *float64 {
	var nano int64
	for _, d := range asked {
		price, ok := q.Settings.Prices[d.judge.Target()]
		if d.calls > 0 && !ok {
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
	if other.OutputBound > 0 && (p.Runs == 0 || p.OutputBound > 0) { // a bound on all or none
		total.OutputBound = p.OutputBound + other.OutputBound
	}
	return total
}

// identicalByJudge counts the runs on two equal texts, by position of the judge.
func identicalByJudge(e *eval.Evaluation, p *plan.Plan) []int {
	counts := make([]int, len(e.Asked(p.Kind())))
	if p.Kind() != eval.KindPairwise || !anyIdentical(e.Documents) {
		return counts
	}
	for index := range p.Runs() {
		if run := p.Run(index); same(e, p.Kind(), run) {
			counts[run.Judge]++
		}
	}
	return counts
}

// turnsByModel counts the calls that prompts take, one a turn, by position of the model;
// nil where none are asked. One that cannot be read takes none.
func turnsByModel(q Question, p *plan.Plan) []int {
	if p.Kind() != eval.KindPrompts {
		return nil
	}
	prompts := q.Evaluation.Prompts
	counts, turns := make([]int, len(prompts.Models)), map[int]int{}
	for index := range p.Runs() {
		run := p.Run(index)
		if _, known := turns[run.First]; !known {
			written, _ := prompt.ReadRow(prompts.Format, q.Texts[prompts.Rows[run.First].Hash]) // its error: no turns
			turns[run.First] = len(written.Turns)
		}
		counts[run.Judge] += turns[run.First]
	}
	return counts
}

// anyIdentical reports whether any two documents of an item have one text, which
// spares most evaluations the walk through their plan.
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

// same reports whether a run compares a text with itself.
func same(e *eval.Evaluation, kind eval.Kind, run plan.Run) bool {
	return kind == eval.KindPairwise && e.Documents[run.First].Hash == e.Documents[run.Second].Hash
}

// savings are the settings that ask less, with the calls left under each.
func savings(e *eval.Evaluation, estimate Estimate) []Saving {
	all := []Saving{}
	if e.Pairwise == nil {
		return all
	}
	pairwise := 0
	for _, part := range estimate.Parts {
		if part.Kind == eval.KindPairwise {
			pairwise += part.Calls
		}
	}
	rest := estimate.Total.Calls - pairwise
	if e.Pairwise.Order == eval.OrderBoth && pairwise > 1 {
		all = append(all, Saving{OneOrder, rest + (pairwise+1)/2})
	}
	if e.Pairwise.Pairs.Mode == eval.PairsAll && pairwise > 4 {
		all = append(all, Saving{OneInFive, rest + (pairwise+4)/5})
	}
	return all
}
