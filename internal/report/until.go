package report

import (
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// joint returns the permitted probability that any bound of a rank is wrong; 0 means the default of 5 %. An
// evaluation with an early stopping rule has been looked at before, so its report counts as one more look. So has one that
// placed newcomers.
func (b *builder) joint() float64 {
	until, asked := b.report.Evaluation.Settings.Until, b.report.Evaluation.Plan
	if asked.Pairwise != nil && asked.Pairwise.Pairs.Mode == eval.PairsGrown {
		return rank.PlacedLevel
	}
	if until == nil {
		return 0
	}
	rule := until.Rule(asked)
	b.verdicts.merge()
	pairs := 0
	var low, high int32 = -1, -1
	for _, c := range b.verdicts.cells {
		if l, h := c.pair(); l != low || h != high {
			pairs, low, high = pairs+1, l, h
		}
	}
	return rule.Level(rule.Look(pairs) + 1)
}

// known reports whether the evaluation ended early because its best candidates are known.
func (r *Report) known() bool {
	why := r.Evaluation.Stopped
	return why != nil && why.Known != nil
}
