package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
)

// winsHead is the head of columns of wins against the average candidate, the one number of a ranking by pairs.
const winsHead = "wins against the average"

// winShare returns the share of decided verdicts that a candidate of an ability wins against the average candidate,
// whose ability is 0. In the model of Bradley and Terry (1952, "Rank Analysis of Incomplete Block Designs") i beats j
// with probability 1/(1+e^(λ_j−λ_i)), so the share is 1/(1+e^−λ). Ties do not change it: in Davidson's model (1970)
// the odds of decided verdicts are the same. The function only grows, so limits of an ability become limits of the
// share.
func winShare(ability float64) float64 { return 1 / (1 + math.Exp(-ability)) }

func winPercent(ability float64) float64 { return 100 * winShare(ability) }

// scoreWords returns the head of the column of scores, and what a score is.
func (r *Report) scoreWords() (head, means string) {
	switch {
	case r.ByScore():
		single := r.Evaluation.Plan.Single
		if single.Rubric {
			return "mean score", "Scores are points earned, in percent of those that the rubric offers, from " + scaleWords(single.Scale) + "."
		}
		return "mean score", "Scores go from " + scaleWords(single.Scale) + "."
	case !r.abilities():
		return "win rate", "A tie is half a win."
	default:
		means = "Wins against the average candidate, of decided verdicts" + r.byDegree() + ": 50 % is average."
		if direct := r.winsOfTwo(); direct != "" {
			means += " " + direct
		}
		return winsHead, means
	}
}

// winsOfTwo says how often the better of only two candidates wins against the other, which is more than against the
// average of both; empty if there are not two.
func (r *Report) winsOfTwo() string {
	if len(r.Groups) != 1 || len(r.Groups[0].Ranked) != 2 {
		return ""
	}
	better, other := r.Groups[0].Ranked[0], r.Groups[0].Ranked[1]
	return fmt.Sprintf("Against %s, %s wins %s%s.",
		called(other.Name), called(better.Name), probability(winShare(better.Ability-other.Ability)), r.byDegree())
}

// byDegree says, after a comma, that wins count by their degree; empty if verdicts have none.
func (r *Report) byDegree() string {
	if r.degrees() < 2 {
		return ""
	}
	return ", counted by their degree"
}

// score formats the number that ranks a candidate: its wins against the average candidate, its mean score, or its win
// rate.
func (r *Report) score(c Ranked) string {
	switch {
	case r.ByScore():
		return mean(c.Overall)
	case !r.abilities():
		return percent(c.WinRate())
	default:
		return winsOf(c)
	}
}

// winsOf formats the wins against the average candidate.
func winsOf(c Ranked) string { return probability(winShare(c.Ability)) }

// winsInterval formats the limits of the wins at 95 %; "–" if they are not known.
func winsInterval(c Ranked) string {
	if math.IsNaN(c.Low) {
		return "–"
	}
	return uncertain(winShare(c.Low)) + " – " + uncertain(winShare(c.High)) + " %"
}

// scoreInterval formats the limits of score at 95 %; "–" if they are not known.
func (r *Report) scoreInterval(c Ranked) string {
	known := func(limits rank.Limits, form string, by float64) string {
		if math.IsNaN(limits.Low) || limits.Low == limits.High {
			return "–"
		}
		return fmt.Sprintf(form, by*limits.Low, by*limits.High)
	}
	switch {
	case r.ByScore():
		return known(c.ScoreLimits, "%.2f – %.2f", 1)
	case !r.abilities():
		return known(c.WinLimits, "%.0f – %.0f %%", 100)
	default:
		return winsInterval(c)
	}
}

// withScoreTables puts a table of scores before each ranking, with which sections begins, as the page does. The
// ranking itself becomes the details.
func (r *Report) withScoreTables(sections []section) []section {
	head, means := r.scoreWords()
	var all []section
	for k, s := range sections {
		if k >= len(r.Groups) || s.title != r.groupTitle(k) || r.Verdicts == 0 {
			all = append(all, s)
			continue
		}
		shown := len(s.table[0].Cells)
		t := append(lines.Table{{Head: "rank"}, {Head: "candidate", Flexible: true}}, lines.Heads(head, "95 % interval")...)
		for _, c := range r.Groups[k].Ranked[:shown] {
			t.Add(r.ranks(c), harmless.Line(c.Name), r.score(c), r.scoreInterval(c))
		}
		all = append(all, section{title: s.title, table: t, lines: []string{means}})
		s.title += ", details"
		all = append(all, s)
	}
	return all
}
