package config

import (
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// until reads {top: 3, confidence: 0.95, max_pairs: 200}.
func (s *draft) until(y *yamlFile, v value) {
	s.settings.Until, s.untilAt = &record.Until{}, v.key
	y.mapping(v, keys{
		"top":        func(v value) { s.settings.Until.Top = y.integer(v, 1, math.MaxInt32) },
		"confidence": func(v value) { s.settings.Until.Confidence = y.confidence(v) },
		"max_pairs":  func(v value) { s.settings.Until.MaxPairs = y.integer(v, 1, math.MaxInt32) },
	})
	if s.settings.Until.Top == 0 {
		s.settings.Until.Top = 1
	}
}

func (y *yamlFile) confidence(v value) float64 {
	const want = "a number between 0.5 and 1, for example 0.95"
	confidence := y.number(v, 0.5, want)
	if confidence >= 1 {
		y.refuse(v.place, "want "+want, "no number of pairs can reach a confidence of %g", confidence)
		return 0
	}
	return confidence
}

// checkUntil refuses until for evaluations whose first pairs say nothing about the rest.
func (s *draft) checkUntil() {
	until := s.settings.Until
	if until == nil || s.err() != nil {
		return
	}
	switch e := &s.asked; {
	case e.Pairwise == nil:
		s.refuse(s.untilAt, "add pairwise: {pairs: sample:1}", "until needs pairwise comparisons, but there are none")
	case e.Pairwise.TopN > 0:
		s.refuse(s.untilAt, "leave top_n out", "until cannot be combined with top_n")
	case !plan.Prefixes(e):
		s.refuse(
			s.untilAt, "use pairs: sample:1, which compares all pairs in random order",
			"until needs pairs in random order, so that the first ones are a fair sample",
		)
	case e.Panel != nil || e.Runs != nil:
		s.refuse(s.untilAt, "move them to a separate evaluation", "until would also end the panel or the listed runs")
	default:
		if err := until.Rule(e).Check(); err != nil {
			s.refuse(s.untilAt, "", "until: %s", err)
		}
	}
}

// boundPairs limits the number of runs to max_pairs, once the evaluation is complete.
func (s *draft) boundPairs() {
	until := s.settings.Until
	if until == nil || until.MaxPairs == 0 {
		return
	}
	runs := until.MaxPairs * plan.RunsOfPair(&s.asked, slices.Index(plan.Phases(&s.asked), eval.KindPairwise))
	if s.asked.Single != nil {
		runs += len(s.asked.Documents) * s.asked.Single.Trials * len(s.asked.Judges)
	}
	if limit := s.settings.Limit; runs > 0 && runs <= record.MostRuns && (limit == 0 || runs < limit) {
		s.settings.Limit = runs
	}
}
