package estimate

import (
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// part is a fraction of work; the zero value is all of it.
type part struct{ of, whole int }

// sampledIn returns which part of a phase is asked at least: the sample, if the phase is a strong judge's and its pairs are
// not chosen yet.
func sampledIn(e *eval.Evaluation, phase int, p *plan.Plan) part {
	if !plan.Escalated(e, phase) || !p.Open() {
		return part{}
	}
	pairs := p.Runs() / plan.RunsOfPair(e, phase)
	return part{plan.Sampled(e.Escalate, pairs), pairs}
}

// leastOf returns the work that is there if no pair is contested.
func leastOf(asked []demand) []demand {
	least := slices.Clone(asked)
	for i, d := range least {
		if d.least.whole > 0 {
			least[i] = d.share(d.least.of, d.least.whole)
		}
	}
	return least
}

// strongAlone asks only the strong judge, about all pairs; possible only if the file has escalate.
func strongAlone(q Question, asked []demand) (Way, bool) {
	if q.Evaluation.Escalate == nil {
		return Way{}, false
	}
	strong := q.Evaluation.Judges[q.Evaluation.Strong()]
	var alone []demand
	for _, d := range asked {
		if d.kind == eval.KindPairwise && d.least.whole == 0 {
			continue
		}
		d.least = part{}
		alone = append(alone, d)
	}
	way := q.way(StrongAlone, "judges: ["+strong.Target()+"]", alone)
	way.Judges = []string{strong.Name}
	return way, len(alone) > 0
}

// escalating returns the design in which the judge that costs most sees only a sample of the pairs and what the others
// contest. ok is false if the judges do not differ in price, or if the design is impossible.
func escalating(q Question, whole []demand) (s Saving, ok bool) {
	e := q.Evaluation
	if e.Escalate != nil || len(e.Judges) < 2 || e.Pairwise.TopN > 0 || e.Pairwise.Pairs.Mode == eval.PairsSwiss ||
		e.Pairwise.Pairs.Mode == eval.PairsGrown || q.Settings.Until != nil {
		return s, false
	}
	costs := make([]float64, len(e.Judges))
	for k, judge := range e.Judges {
		own := slices.DeleteFunc(slices.Clone(whole), func(d demand) bool { return d.kind != eval.KindPairwise || d.judge.Name != judge.Name })
		usd := cost(q, own)
		if usd == nil || len(own) == 0 {
			return s, false
		}
		costs[k] = *usd
	}
	strong := slices.Index(costs, slices.Max(costs))
	others := slices.Delete(slices.Clone(costs), strong, strong+1)
	if costs[strong] < dearer*slices.Max(others) {
		return s, false
	}

	pairs := pairsOf(e)
	if pairs == 0 {
		return s, false
	}
	sample := plan.Sampled(&eval.Escalate{Share: suggestedShare}, pairs)
	for _, d := range whole {
		if d.kind == eval.KindPairwise && d.judge.Name == e.Judges[strong].Name {
			d = d.share(sample, pairs)
		}
		s.asked = append(s.asked, d)
	}
	s.Setting = "escalate: {to: " + e.Judges[strong].Target() + "}"
	s.Calls, s.AtLeast, s.CostUSD = callsOf(s.asked), true, cost(q, s.asked)
	s.Loses = "not in the judges then; it sees what they contest, and the ranking is its own"
	return s, s.Calls < callsOf(whole)
}

const (
	// dearer is how many times as much a judge must cost as any other to be suggested as a strong one.
	dearer = 2
	// suggestedShare is the default of escalate.share.
	suggestedShare = 0.2
)

// span returns a number of calls that lies between two, such as "528 to 720"; least is 0 if there is one number.
func span(least, most int, to string) string {
	if least == 0 || least == most {
		return wording.Count(most)
	}
	return wording.Count(least) + to + wording.Count(most)
}

// costSpan returns a cost that lies between two; least may be nil.
func costSpan(least *float64, most float64, to string) string {
	if least == nil || ratelimit.USD(*least) == ratelimit.USD(most) {
		return ratelimit.USD(most)
	}
	return ratelimit.USD(*least) + to + ratelimit.USD(most)
}
