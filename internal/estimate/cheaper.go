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
	asked   []demand
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

// pairwiseWork is the work that grows with the number of pairs, and the rest.
type pairwiseWork struct {
	pairs          int
	compares, rest []demand
}

// cheaper returns the designs that need fewer calls for the same documents and judges than are needed now, the one with
// the fewest first. They ask everything, whether or not it is known. whole is the work of all runs.
func cheaper(q Question, calls int, whole []demand) []Saving {
	all := []Saving{}
	if q.Evaluation.Pairwise == nil || q.Evaluation.Escalate != nil || q.Evaluation.Anchors != nil {
		return all
	}
	now := pairwiseWork{pairs: pairsOf(q.Evaluation)}
	for _, d := range whole {
		if d.kind == eval.KindPairwise {
			now.compares = append(now.compares, d)
		} else {
			now.rest = append(now.rest, d)
		}
	}
	add := func(setting string, part, of int, scores []demand, atLeast bool, loses string) {
		s := Saving{Setting: setting, AtLeast: atLeast, Loses: loses}
		s.asked = slices.Concat(scores, now.rest)
		pairs := callsOf(now.compares)
		s.Calls = callsOf(s.asked) + (pairs*part+of-1)/of
		for _, d := range now.compares {
			s.asked = append(s.asked, d.share(part, of))
		}
		s.CostUSD = cost(q, s.asked)
		if flag, ok := asFlags[setting]; ok && q.Flags {
			s.Setting = flag
		}
		if s.Calls < calls && pairs > 0 {
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

	if s, ok := escalating(q, whole); ok {
		all = append(all, s)
	}

	slices.SortStableFunc(all, func(a, b Saving) int { return cmp.Compare(a.Calls, b.Calls) })
	return all
}

// adding adds a design that asks a part of the pairs, after scores.
type adding func(setting string, part, of int, scores []demand, atLeast bool, loses string)

// sum adds two costs; it returns nil if one is unknown.
func sum(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	both := *a + *b
	return &both
}

func (w pairwiseWork) inRounds(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.Apart || (record.Until{}).Rule(e).Candidates > rank.MaxCandidates {
		return
	}
	rounds, pairwise := *e, *e.Pairwise
	rounds.Pairwise = &pairwise
	pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: plan.SwissShare}
	if pairs := pairsOf(&rounds); pairs > 0 {
		add(InRounds, pairs, w.pairs, nil, false, "places the top well, the middle less surely")
	}
}

func (w pairwiseWork) bestOnly(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.TopN > 0 {
		return
	}
	few, pairwise := *e, *e.Pairwise
	few.Pairwise = &pairwise
	pairwise.TopN = best
	setting, scores := BestOnly, []demand(nil)
	if e.Single == nil {
		few.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "quality"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
		made, err := scoresOf(q, few.Single)
		if err != nil {
			return
		}
		setting, scores = ScoreAll+", "+BestOnly, made
	}
	if pairs := pairsOf(&few); pairs > 0 {
		add(setting, pairs, w.pairs, scores, false, fmt.Sprintf("compares only the best %d of each item", best))
	}
}

// scoresOf returns the work of the scores that choose the best documents.
func scoresOf(q Question, single *eval.Single) ([]demand, error) {
	e := *q.Evaluation
	e.Single, e.Pairwise, e.Panel, e.Runs, e.Prompts = single, nil, nil, nil, nil
	p, err := plan.New(&e, 0, plan.Options{JudgeQueues: anyQueue(e.Judges)})
	if err != nil {
		return nil, err
	}
	q.Evaluation, q.Plans, q.Capabilities, q.Known = &e, []*plan.Plan{p}, nil, Known{}
	_, scores, err := of(q)
	return scores, err
}

func (w pairwiseWork) untilBest(q Question, add adding) {
	e := q.Evaluation
	if !wide(e) || e.Pairwise.TopN > 0 || e.Panel != nil || e.Runs != nil || q.Settings.Batch != nil {
		return
	}
	rule := (&record.Until{Top: 1}).Rule(e)
	if rule.Check() != nil || rule.Pairs(1) >= w.pairs {
		return
	}
	setting := UntilBest
	if e.Pairwise.Pairs.Mode == eval.PairsAll {
		setting = AllPairs + ", " + UntilBest
	}
	add(setting, rule.Pairs(1), w.pairs, nil, true, "ends once the best is known; the rest are less sure")
}

// wide reports whether an evaluation compares all pairs.
func wide(e *eval.Evaluation) bool {
	pairs := e.Pairwise.Pairs
	return pairs.Mode == eval.PairsAll || pairs.Mode == eval.PairsSample && pairs.Sample == 1
}

// pairsOf counts the pairs of an evaluation; 0 if it cannot be planned.
func pairsOf(e *eval.Evaluation) int {
	pairs := 0
	for phase, kind := range plan.Phases(e) {
		if kind != eval.KindPairwise {
			continue
		}
		p, err := plan.New(e, phase, plan.Options{JudgeQueues: anyQueue(e.Judges)})
		if err != nil {
			return 0
		}
		pairs += p.Runs() / plan.RunsOfPair(e, phase)
	}
	return pairs
}

// anyQueue returns a queue for each judge.
func anyQueue(judges []eval.Judge) []string { return slices.Repeat([]string{"all"}, len(judges)) }
