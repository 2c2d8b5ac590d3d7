package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/internal/table"
)

const criteriaName = "criteria"

// criterionLine is a line of the table of candidates by criterion.
type criterionLine struct {
	Ranked
	criterion string
	fitted    bool // it has an ability
}

// lines returns a criterion's candidates with verdicts, best first.
func (c CriterionResults) lines() []criterionLine {
	var all []criterionLine
	for _, one := range c.Ranked {
		if one.Games() > 0 {
			all = append(all, criterionLine{one, c.Name, c.fitted && one.Component >= 0})
		}
	}
	slices.SortStableFunc(all, func(a, b criterionLine) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.winRate(), a.winRate()), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (l criterionLine) winRate() float64 {
	if l.Games() == 0 {
		return math.NaN()
	}
	return l.WinRate()
}

// ability returns a number that is known only of candidates with an ability.
func (l criterionLine) ability(x float64) float64 {
	if !l.fitted {
		return math.NaN()
	}
	return x
}

var criteriaTable = table.Table[criterionLine]{
	table.Text("criterion", "the criterion", func(l criterionLine) string { return l.criterion }),
	table.Text("candidate", "the candidate", func(l criterionLine) string { return l.Name }),
	table.Positive("rank", "by strength on this criterion; missing: not ranked", func(l criterionLine) int { return l.Rank }),
	table.Number("win_rate", "share of verdicts by this criterion for it; a tie is half a win", criterionLine.winRate),
	table.Number("win_rate_low", "lower limit of `win_rate` at 95 %", func(l criterionLine) float64 { return l.WinLimits.Low }),
	table.Number("win_rate_high", "upper limit", func(l criterionLine) float64 { return l.WinLimits.High }),
	table.Number("ability", "in log-odds; 0 is the mean", func(l criterionLine) float64 { return l.ability(l.Ability) }),
	table.Number("low", "lower limit of `ability` at 95 %", func(l criterionLine) float64 { return l.ability(l.Low) }),
	table.Number("high", "upper limit", func(l criterionLine) float64 { return l.ability(l.High) }),
	table.Integer("wins", "verdicts for it", func(l criterionLine) int { return l.Wins }),
	table.Integer("losses", "verdicts against it", func(l criterionLine) int { return l.Losses }),
	table.Integer("ties", "verdicts for neither", func(l criterionLine) int { return l.Ties }),
}

// criterionLines returns the lines of all criteria, in the order of the plan.
func (r *Report) criterionLines() []criterionLine {
	var all []criterionLine
	for _, c := range r.ByCriteria.Criteria {
		all = append(all, c.lines()...)
	}
	return all
}
