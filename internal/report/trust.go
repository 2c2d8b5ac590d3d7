package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// judgeSections returns the tables about judges: their scorecards, answers, biases, own rankings and agreement.
func (r *Report) judgeSections(candidates, width int) []section {
	if len(r.Judges) == 0 {
		return nil
	}
	var sections []section
	if s, ok := r.cardSection(); ok {
		sections = append(sections, s)
	}
	sections = append(sections, r.saidSection())
	if r.Verdicts > 0 {
		sections = append(sections, r.trustSection())
	}
	if s, ok := r.ranksByJudge(candidates, width); ok {
		sections = append(sections, s)
	}
	if r.Agreement != nil {
		sections = append(sections, r.agreementSection("Agreement on pairs", "judges", r.Agreement, 0))
	}
	for _, scores := range []struct {
		title string
		of    []*Agreement
	}{{"Agreement on scores", r.ScoreAgreement}, {"Agreement of the panel", r.PanelAgreement}} {
		if len(scores.of) > 0 {
			sections = append(sections, scoreAgreement(scores.title, scores.of))
		}
	}

	return sections
}

// saidSection returns a table of the answers that judges gave.
func (r *Report) saidSection() section {
	t := lines.Table{{Head: "judge", Flexible: true}}
	pairs, scores := r.Evaluation.Plan.Pairwise != nil, r.Evaluation.Plan.Single != nil
	if pairs {
		t = append(t, lines.Heads("verdicts", "first won", "second won", "ties", "identical")...)
	}
	if scores {
		t = append(t, lines.Heads("scores")...)
	}
	t = append(t, lines.Heads("by fallback", "failed")...)
	for _, j := range r.Judges {
		cells := []string{harmless.Line(j.Name)}
		if pairs {
			p := j.Positions
			cells = append(
				cells, wording.Count(p.Total()), r.byPosition(p.FirstWins), r.byPosition(p.SecondWins), wording.Count(p.Ties),
				wording.Count(j.Identical),
			)
		}
		if scores {
			n := 0
			for _, s := range j.Scores {
				n += s.N
			}
			cells = append(cells, wording.Count(n))
		}
		t.Add(append(cells, wording.Count(j.Fallback), wording.Count(j.Failed))...)
	}

	return section{title: "Judges", table: t}
}

// trustSection returns a table of each judge's biases. It shows how far verdicts depend on the order and the length
// of texts, and how often they are circular.
func (r *Report) trustSection() section {
	t := append(lines.Table{{Head: "judge", Flexible: true}}, lines.Heads(
		"order ± SE", "both orders", "consistent", "always 1st", "always 2nd", "longer won", "3-cycles",
	)...).InFull("", "order effect ± SE", "pairs in both orders", "same text both times", "always the first",
		"always the second", "longer text preferred", "circular triples")
	t[1].Means, t[2].Means = "log-odds for the text shown first", "pairs asked about in both"
	for _, j := range r.Judges {
		swap := func(n int) string {
			if j.Swaps.Total() == 0 {
				return "–"
			}
			return wording.Count(n)
		}
		t.Add(harmless.Line(j.Name), j.orderEffect(), wording.Count(j.Swaps.Total()),
			percentOf(j.Swaps.Consistent, j.Swaps.Total()), swap(j.Swaps.AlwaysFirst), swap(j.Swaps.AlwaysSecond),
			longerShare(j.Length), cyclesShare(r.cycles(j)))
	}

	if !r.ordered() {
		t = slices.Delete(t, 1, 6) // all of them are about the order
	}
	if r.Unweighed != nil {
		scale := lines.Column{Head: "scale", Right: true}
		for _, j := range r.Judges {
			scale.Cells = append(scale.Cells, j.scale())
		}
		t = append(t, scale)
	}

	s := section{title: "How far each judge can be trusted", table: t}
	if !r.ordered() {
		s.lines = append(s.lines, orderUnknown)
	}
	if r.Cycles.Triples > 0 {
		s.lines = append(s.lines, "Circular triples (a beats b, b beats c, c beats a), by all judges together: "+r.cycleWords()+".")
	}

	if c := r.Length.Correlation(); !math.IsNaN(c) {
		s.lines = append(
			s.lines,
			fmt.Sprintf("The longer text won %s of the decided verdicts; correlation of length and verdict %s.", longerShare(r.Length), signed(c)),
		)
	}
	if r.Fit != nil && r.Fit.Dense {
		s.lines = append(s.lines, fmt.Sprintf("Deviance of the fit %.1f on %s.", r.Fit.Deviance, degrees(r.Fit.DegreesOfFreedom)))
	}
	return s
}

// scale returns how well the judge tells candidates apart, relative to the mean of all judges, which is 1.
func (j Judge) scale() string {
	if !j.Effect.HasScale {
		return "–"
	}
	return plusMinus(fmt.Sprintf("%.2f", j.Effect.Scale), j.ScaleLimits.SE)
}

func degrees(n int) string {
	if n == 1 {
		return "1 degree of freedom"
	}
	return wording.Count(n) + " degrees of freedom"
}

func longerShare(l rank.Lengths) string {
	return percentOf(l.LongerWins, l.LongerWins+l.ShorterWins)
}

// cycles returns a judge's circular triples. For the only judge these are those of the report.
func (r *Report) cycles(j Judge) rank.Cycles {
	if len(r.Judges) == 1 {
		return r.Cycles
	}
	return j.Cycles
}

// cycleWords returns how many triples are circular, and how many are to be expected.
func (r *Report) cycleWords() string {
	words := fmt.Sprintf("%s of %s, %s; by chance 25 %%", wording.Count(r.Cycles.Circular),
		wording.Count(r.Cycles.Triples), percent(r.Cycles.Share()))
	if math.IsNaN(r.Expected.Mean) {
		return words
	}
	return words + fmt.Sprintf(", by the strengths %s, at most %s in 99 of 100 evaluations", percent(r.Expected.Mean),
		percent(r.Expected.High))
}

func cyclesShare(c rank.Cycles) string { return percentOf(c.Circular, c.Triples) }

// ranksByJudge shows each judge's own ranking beside that of all judges. Judges whose column does not fit are omitted
// and counted. ok is false if no judge has a ranking of its own, or if verdicts do not relate all candidates.
func (r *Report) ranksByJudge(candidates, width int) (section, bool) {
	if len(r.Groups) != 1 || r.Fit == nil {
		return section{}, false
	}
	shown := r.Groups[0].Ranked[:min(candidates, len(r.Groups[0].Ranked))]
	t := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("all judges")...)
	for _, c := range shown {
		t.Add(harmless.Line(c.Name), r.ranks(c))
	}
	var own []lines.Column
	names := namedApart(r.Judges, func(j Judge) string { return j.Name }, 20)
	for k, j := range r.Judges {
		if len(j.Groups) > 0 {
			own = append(own, rankColumn(names[k], shown, j.Groups))
		}
	}

	t, left := t.Widened(own, width)
	if len(t) == 2 {
		return section{}, false
	}
	s := section{title: "Rank by each judge alone", table: t}
	if left > 0 {
		s.lines = []string{wording.Counted(left, "more judge") + " in report.json."}
	}
	return s, true
}

// rankIn returns a candidate's rank, such as "3 (2–5)", followed by the group if there are several; "–" if it is not
// ranked.
func rankIn(groups []Group, candidate string) string {
	for g, group := range groups {
		for _, c := range group.Ranked {
			if c.Name != candidate {
				continue
			}
			text := rankRange(c)
			if len(groups) > 1 {
				text += fmt.Sprintf(" of group %d", g+1)
			}
			return text
		}
	}
	return "–"
}

// mostPairs bounds the pairs of raters that one table of the text and Markdown forms shows.
const mostPairs = 15

// agreementSection returns a table of the agreement of pairs of raters. If first is 0, it takes every pair, otherwise
// only pairs of one of the first raters and one of the others.
func (r *Report) agreementSection(title, raters string, a *Agreement, first int) section {
	t := append(lines.Table{
		{Head: raters, Flexible: true}, {Head: "and", Flexible: true},
	}, lines.Heads("pairs of texts", "same", "Cohen's kappa")...)
	pairs := raterViewOf(title, a, first, mostPairs)
	for _, p := range pairs.Rows {
		t.Add(harmless.Line(p.A), harmless.Line(p.B), p.Units, p.Raw, p.Cohen)
	}
	s := section{title: title, table: t}
	if pairs.Left > 0 {
		s.lines = append(s.lines, wording.Counted(pairs.Left, "more pair")+" of raters in report.json.")
	}
	s.lines = append(s.lines, fmt.Sprintf("All together: Krippendorff's alpha %s over %s that at least two judged, "+
		"Fleiss' kappa %s over %s that all judged. 1 is full agreement, 0 is chance. Every verdict of one is compared with "+
		"every verdict of the other%s.",
		coefficientLimits(a.Alpha, a.AlphaLimits), wording.Counted(a.Units, "pair"),
		coefficientLimits(a.Fleiss, a.FleissLimits), wording.Count(a.Complete), r.inOrders(", in both orders")))
	return s
}

func scoreAgreement(title string, all []*Agreement) section {
	t := append(lines.Table{{Head: "on", Flexible: true}}, lines.Heads(
		"scored by two or more", "same", "alpha, ordinal", "alpha, interval", "within items",
	)...)
	for _, a := range all {
		t.Add(
			harmless.Line(a.Name), wording.Count(a.Units), shareOf(a.raw()), coefficientLimits(a.Ordinal, a.OrdinalLimits),
			coefficientLimits(a.Interval, a.IntervalLimits), coefficientLimits(a.Within, a.WithinLimits),
		)
	}
	return section{title: title, table: t, lines: []string{
		"Alpha is Krippendorff's: 1 is full agreement, 0 is chance. Within items: alpha, interval, of scores less the mean of the " +
			"same rater's in the item, which is what rankings compare.",
	}}
}

// coefficient formats a coefficient of agreement; "–" if it does not exist.
func coefficient(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return signed(x)
}

// coefficientLimits formats a coefficient with its limits, if these are known.
func coefficientLimits(x float64, limits rank.Limits) string {
	if math.IsNaN(limits.Low) {
		return coefficient(x)
	}
	return coefficient(x) + " (" + between(limits.Low, limits.High) + ")"
}

func shareOf(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return percent(x)
}
