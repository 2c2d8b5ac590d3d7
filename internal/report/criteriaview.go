package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// criteriaSections returns the candidates' win rates by criterion, and how criteria relate to the overall verdict and to
// each other; none if pairs are not compared by criterion.
func (r *Report) criteriaSections(candidates, width int) []section {
	c := r.ByCriteria
	if c == nil || c.Verdicts == 0 || len(r.Groups) == 0 {
		return nil
	}
	return []section{r.criteriaRates(candidates, width), r.criteriaRelations(width)}
}

// criteriaRates shows each candidate's win rate by criterion.
func (r *Report) criteriaRates(candidates, width int) section {
	c := r.ByCriteria
	t := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("overall")...)
	ranked := r.inOrder()
	shown := ranked[:min(candidates, len(ranked))]
	for _, one := range shown {
		t.Add(harmless.Line(one.Name), winRateCell(one))
	}
	names := namedApart(c.Criteria, func(k CriterionResults) string { return k.Name }, 20)
	var columns []lines.Column
	for k, criterion := range c.Criteria {
		next := lines.Column{Head: names[k], Right: true}
		for _, one := range shown {
			cell := "–"
			if criterion.Ranked != nil {
				cell = winRateCell(criterion.Ranked[one.Candidate])
			}
			next.Cells = append(next.Cells, cell)
		}
		columns = append(columns, next)
	}

	t, left := t.Widened(columns, width)
	s := section{title: "Win rate by criterion", table: t, lines: []string{
		"Share of verdicts that a candidate wins by each criterion, with a 95 % interval by " + r.Intervals.clusterWord() +
			"; a tie is half a win. The column overall has the verdicts of the ranking.",
	}}
	if r.uneven() {
		s.lines = append(s.lines, "Candidates had different opponents, so win rates do not compare them well; criteria.csv has strengths, too.")
	}
	if more := len(ranked) - len(shown); more > 0 {
		s.lines = append(s.lines, wording.Counted(more, "more candidate")+" in criteria.csv.")
	}
	if left > 0 {
		s.lines = append(s.lines, wording.Either(left, "criterion", "criteria")+" more in criteria.csv.")
	}
	return s
}

// uneven reports whether pairs were chosen such that candidates met different opponents.
func (r *Report) uneven() bool {
	switch p := r.Evaluation.Plan.Pairwise; p.Pairs.Mode {
	case eval.PairsAll, eval.PairsBaseline:
		return p.TopN > 0
	}
	return true
}

// clusterWord returns what limits are computed by.
func (how *Intervals) clusterWord() string {
	if how == nil {
		return "pair"
	}
	return how.By
}

// winRateCell formats a win rate with its limits.
func winRateCell(c Ranked) string {
	if c.Games() == 0 {
		return "–"
	}
	return limited(fmt.Sprintf("%.0f %%", 100*c.WinRate()), c.WinLimits, func(x float64) string { return fmt.Sprintf("%.0f", 100*x) })
}

// criteriaRelations shows which criterion the overall verdict follows, and how criteria correlate.
func (r *Report) criteriaRelations(width int) section {
	c := r.ByCriteria
	last := len(c.Criteria)
	t := append(lines.Table{{Head: "criterion", Flexible: true}},
		lines.Heads("verdicts", "left out", "same as overall", "correlation with overall")...)
	for k, criterion := range c.Criteria {
		with := c.Between(k, last)
		same, limits := with.Same()
		at, bounds := with.R()
		cell := "–"
		if !math.IsNaN(same) {
			cell = limited(fmt.Sprintf("%.0f %%", 100*same), limits, func(x float64) string { return fmt.Sprintf("%.0f", 100*x) })
		}
		t.Add(harmless.Line(criterion.Name), wording.Count(criterion.Verdicts), wording.Count(c.Missing(k)), cell,
			limited(correlationWord(at), bounds, correlationWord))
	}

	names := namedApart(c.Criteria, func(k CriterionResults) string { return "with " + k.Name }, 24)
	var columns []lines.Column
	for j := range c.Criteria {
		if len(c.Criteria) < 2 {
			break
		}
		next := lines.Column{Head: names[j], Right: true}
		for i := range c.Criteria {
			cell := ""
			if i != j {
				at, _ := c.Between(i, j).R()
				cell = correlationWord(at)
			}
			next.Cells = append(next.Cells, cell)
		}
		columns = append(columns, next)
	}

	t, left := t.Widened(columns, width)
	s := section{title: "What the overall verdict follows", table: t, lines: []string{r.criteriaHeadline(), criteriaMeaning}}
	if left > 0 {
		s.lines = append(s.lines, "Correlations with "+wording.Either(left, "more criterion", "more criteria")+" are in report.json.")
	}
	return s
}

// correlationWord formats a correlation.
func correlationWord(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return signed(x)
}

// criteriaHeadline says which criterion the overall verdict follows most, and whether that is certain.
func (r *Report) criteriaHeadline() string {
	c := r.ByCriteria
	if r.doubt() != "" {
		return "The verdicts are not reliable enough to say which criterion the overall verdict follows."
	}
	first, most := c.closest()
	if first < 0 {
		return "Nothing tells which criterion the overall verdict follows."
	}

	with := c.Between(first, len(c.Criteria))
	same, _ := with.Same()
	words := fmt.Sprintf("The overall verdict follows %s most: it is the same on %.0f %% of pairs (r = %s).",
		called(c.Criteria[first].Name), 100*same, correlationWord(most))

	var near int
	for k := range c.Criteria {
		if _, limits := c.Between(k, len(c.Criteria)).R(); k != first && limits.High >= most {
			near++
		}
	}
	if near > 0 {
		words += fmt.Sprintf(" Within the limits of their intervals, %s may be as close.",
			wording.Either(near, "other criterion", "other criteria"))
	}
	return words
}

// criteriaMeaning says what correlations of criteria are.
const criteriaMeaning = "A judge's verdicts on a pair are averaged over both orders, so a preference for the place cancels out. " +
	"Same: of the pairs on which either prefers a text. Correlations are Pearson's, each pair counted in both directions, with a " +
	"95 % interval by the jackknife. A judge gives all these verdicts in one answer, so one can colour the others (halo): that criteria " +
	"correlate does not show that they are the same."

// closest returns the criterion with the highest correlation with the overall verdict; −1: none is known.
func (c *ByCriteria) closest() (k int, r float64) {
	k, r = -1, math.Inf(-1)
	for i := range c.Criteria {
		if at, _ := c.Between(i, len(c.Criteria)).R(); at > r {
			k, r = i, at
		}
	}
	return k, r
}

// criteriaNotes says which criteria judges left out.
func (r *Report) criteriaNotes() []string {
	c := r.ByCriteria
	if c == nil {
		return nil
	}
	missing, of := 0, 0
	for k := range c.Criteria {
		if n := c.Missing(k); n > 0 {
			missing, of = missing+n, of+1
		}
	}
	if missing == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Judges left out %s by %s, of %s. They count overall.", wording.Counted(missing, "verdict"),
		wording.Either(of, "criterion", "criteria"), wording.Count(c.Verdicts*len(c.Criteria)))}
}

// The JSON form of verdicts by criterion; docs/formats.md describes its fields.
type (
	byCriteriaJSON struct {
		Headline     string                 `json:"headline"`
		Verdicts     int                    `json:"verdicts"`
		Criteria     array[criterionJSON]   `json:"criteria"`
		Correlations array[correlationJSON] `json:"correlations"`
	}
	criterionJSON struct {
		Name     string                      `json:"name"`
		Verdicts int                         `json:"verdicts"`
		Missing  int                         `json:"missing"`
		Same     number                      `json:"same_as_overall"`
		SameLow  number                      `json:"same_low"`
		SameHigh number                      `json:"same_high"`
		Overall  correlationJSON             `json:"with_overall"`
		Ranking  array[criterionRankingJSON] `json:"candidates"`
	}
	criterionRankingJSON struct {
		Candidate string `json:"candidate"`
		Rank      *int   `json:"rank"`
		Wins      int    `json:"wins"`
		Losses    int    `json:"losses"`
		Ties      int    `json:"ties"`
		WinRate   number `json:"win_rate"`
		WinLow    number `json:"win_rate_low"`
		WinHigh   number `json:"win_rate_high"`
		Ability   number `json:"ability"`
		Low       number `json:"low"`
		High      number `json:"high"`
	}
	correlationJSON struct {
		With []string `json:"criteria,omitempty"`
		R    number   `json:"r"`
		Low  number   `json:"low"`
		High number   `json:"high"`
	}
)

func correlationOf(c *rank.Correlation, of ...string) correlationJSON {
	r, limits := c.R()
	return correlationJSON{of, number(r), number(limits.Low), number(limits.High)}
}

func (r *Report) byCriteriaJSON() *byCriteriaJSON {
	c := r.ByCriteria
	if c == nil || c.Verdicts == 0 {
		return nil
	}

	out := &byCriteriaJSON{Headline: r.criteriaHeadline(), Verdicts: c.Verdicts}
	for k, criterion := range c.Criteria {
		same, limits := c.Between(k, len(c.Criteria)).Same()
		one := criterionJSON{
			Name: criterion.Name, Verdicts: criterion.Verdicts, Missing: c.Missing(k),
			Same: number(same), SameLow: number(limits.Low), SameHigh: number(limits.High),
			Overall: correlationOf(c.Between(k, len(c.Criteria))),
		}
		for _, line := range criterion.lines() {
			row := criterionRankingJSON{
				Candidate: line.Name, Wins: line.Wins, Losses: line.Losses, Ties: line.Ties, WinRate: number(line.winRate()),
				WinLow: number(line.WinLimits.Low), WinHigh: number(line.WinLimits.High),
				Ability: number(line.ability(line.Ability)), Low: number(line.ability(line.Low)), High: number(line.ability(line.High)),
			}
			if line.Rank > 0 {
				row.Rank = &line.Rank
			}
			one.Ranking = append(one.Ranking, row)
		}

		out.Criteria = append(out.Criteria, one)
		for j := k + 1; j < len(c.Criteria); j++ {
			out.Correlations = append(out.Correlations, correlationOf(c.Between(k, j), criterion.Name, c.Criteria[j].Name))
		}
	}
	return out
}
