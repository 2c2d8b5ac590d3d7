package estimate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// Saving is another design for the same question, with fewer calls.
type Saving struct {
	// Setting is what to write into an evaluation file: pairs, order and top_n are keys of pairwise, others of the
	// file. Without such a file, it is a flag where there is one.
	Setting string `json:"setting"`
	// Calls is the number of calls of the whole evaluation then. With AtLeast, it is the smallest possible.
	Calls   int      `json:"calls"`
	AtLeast bool     `json:"at_least"`
	CostUSD *float64 `json:"cost_usd" jsonschema:"nullable"`
	Loses   string   `json:"loses"` // what the design tells less well
}

// The settings of savings.
const (
	OneOrder  = "order: random"
	OneInFive = "pairs: sample:0.2"
	InRounds  = "pairs: swiss"
	ScoreAll  = "single: {criteria: [quality]}"
	BestOnly  = "top_n: 5"
	AllPairs  = "pairs: sample:1"
	UntilBest = "until: {top: 1}"
)

// asFlags maps settings to the flags that have their effect on a folder or on files of answers.
var asFlags = map[string]string{
	OneInFive:                   "--pairs sample:0.2",
	InRounds:                    "--pairs swiss",
	UntilBest:                   "--top 1",
	AllPairs + ", " + UntilBest: "--top 1",
}

// best is the number in BestOnly.
const best = 5

// pairwiseCost is the part of an estimate that grows with the number of pairs, and the rest.
type pairwiseCost struct {
	pairs, calls, rest int
	usd, restUSD       *float64
}

// cheaper returns the designs that need fewer calls for the same documents and judges, the one with the fewest first.
// asked are the demands of the estimate's parts.
func cheaper(q Question, made Estimate, asked []demand) []Saving {
	all := []Saving{}
	if q.Evaluation.Pairwise == nil {
		return all
	}
	now := costOfPairs(q, made, asked)
	add := func(setting string, part, of int, scores *Estimate, atLeast bool, loses string) {
		s := now.with(part, of, scores)
		s.Setting, s.AtLeast, s.Loses = setting, atLeast, loses
		if flag, ok := asFlags[setting]; ok && q.Flags {
			s.Setting = flag
		}
		if s.Calls < made.Total.Calls && now.calls > 0 {
			all = append(all, s)
		}
	}

	pairwise := q.Evaluation.Pairwise
	if pairwise.Order == eval.OrderBoth {
		add(OneOrder, 1, 2, nil, false, "a judge's bias for a place is not seen")
	}
	if pairwise.Pairs.Mode == eval.PairsAll {
		add(OneInFive, 1, 5, nil, false, "intervals are about twice as wide")
	}
	if q.Settings.Until == nil {
		now.inRounds(q, add)
		now.bestOnly(q, add)
		now.untilBest(q, add)
	}

	slices.SortStableFunc(all, func(a, b Saving) int { return cmp.Compare(a.Calls, b.Calls) })
	return all
}

// adding adds a design that asks a part of the pairs, after scores if they are not nil.
type adding func(setting string, part, of int, scores *Estimate, atLeast bool, loses string)

func costOfPairs(q Question, made Estimate, asked []demand) pairwiseCost {
	now := pairwiseCost{pairs: pairsOf(q.Evaluation), rest: made.Total.Calls}
	var pairwise, others []demand
	for i, part := range made.Parts {
		if part.Kind != eval.KindPairwise {
			others = append(others, asked[i])
			continue
		}
		pairwise = append(pairwise, asked[i])
		now.calls += part.Calls
		now.rest -= part.Calls
	}
	now.usd, now.restUSD = cost(q, pairwise), cost(q, others)
	return now
}

// with returns the calls and the cost with part/of of the pairs, and with scores unless they are nil.
func (c pairwiseCost) with(part, of int, scores *Estimate) Saving {
	share := float64(part) / float64(of)
	s := Saving{Calls: c.rest + int(share*float64(c.calls)+0.999)}
	if c.usd != nil && c.restUSD != nil {
		usd := *c.restUSD + share**c.usd
		s.CostUSD = &usd
	}
	if scores != nil {
		s.Calls += scores.Total.Calls
		s.CostUSD = sum(s.CostUSD, scores.CostUSD)
	}
	return s
}

// sum adds two costs; it returns nil if one is unknown.
func sum(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	both := *a + *b
	return &both
}

func (c pairwiseCost) inRounds(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.Apart || (record.Until{}).Rule(e).Candidates > rank.MaxCandidates {
		return
	}
	rounds, pairwise := *e, *e.Pairwise
	rounds.Pairwise = &pairwise
	pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: plan.SwissShare}
	if pairs := pairsOf(&rounds); pairs > 0 {
		add(InRounds, pairs, c.pairs, nil, false, "places the top well, the middle less surely")
	}
}

func (c pairwiseCost) bestOnly(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.TopN > 0 {
		return
	}
	few, pairwise := *e, *e.Pairwise
	few.Pairwise = &pairwise
	pairwise.TopN = best
	setting, scores := BestOnly, (*Estimate)(nil)
	if e.Single == nil {
		few.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "quality"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
		made, err := scoresOf(q, few.Single)
		if err != nil {
			return
		}
		setting, scores = ScoreAll+", "+BestOnly, &made
	}
	if pairs := pairsOf(&few); pairs > 0 {
		add(setting, pairs, c.pairs, scores, false, fmt.Sprintf("compares only the best %d of each item", best))
	}
}

// scoresOf estimates the scores that choose the best documents.
func scoresOf(q Question, single *eval.Single) (Estimate, error) {
	e := *q.Evaluation
	e.Single, e.Pairwise, e.Panel, e.Runs, e.Prompts = single, nil, nil, nil, nil
	p, err := plan.New(&e, 0, plan.Options{JudgeQueues: anyQueue(e.Judges)})
	if err != nil {
		return Estimate{}, err
	}
	q.Evaluation, q.Plans, q.Window = &e, []*plan.Plan{p}, nil
	return Of(q)
}

func (c pairwiseCost) untilBest(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.TopN > 0 || e.Panel != nil || e.Runs != nil {
		return
	}
	rule := (&record.Until{Top: 1}).Rule(e)
	if rule.Check() != nil || rule.Pairs(1) >= c.pairs {
		return
	}
	setting := UntilBest
	if e.Pairwise.Pairs.Mode == eval.PairsAll {
		setting = AllPairs + ", " + UntilBest
	}
	add(setting, rule.Pairs(1), c.pairs, nil, true, "ends once the best is known; the rest are less sure")
}

// wide reports whether an evaluation compares all pairs.
func wide(e *eval.Evaluation) bool {
	pairs := e.Pairwise.Pairs
	return pairs.Mode == eval.PairsAll || pairs.Mode == eval.PairsSample && pairs.Sample == 1
}

// pairsOf counts the pairs of an evaluation; 0 if it cannot be planned.
func pairsOf(e *eval.Evaluation) int {
	runs := 0
	for phase, kind := range plan.Phases(e) {
		if kind != eval.KindPairwise {
			continue
		}
		p, err := plan.New(e, phase, plan.Options{JudgeQueues: anyQueue(e.Judges)})
		if err != nil {
			return 0
		}
		runs += p.Runs()
	}
	return runs / plan.RunsOfPair(e)
}

// anyQueue returns a queue for each judge.
func anyQueue(judges []eval.Judge) []string { return slices.Repeat([]string{"all"}, len(judges)) }
