package report

import "github.com/evalfleet/evalfleet/internal/text/wording"

// raterPairs bounds the pairs of raters that one table of the page shows.
const raterPairs = 66

// ownView is a table of the ranks that several rankings give the same candidates.
type ownView struct {
	Caption string
	Columns []string
	Rows    []ownRow
	Left    int // candidates beyond openRows
}

type ownRow struct {
	Name  string
	Ranks []string // by column
}

// ownViewOf returns the table of the candidates' ranks in each of the rankings; names are the column heads. It
// returns nil if there is only one ranking.
func ownViewOf(caption string, candidates []Ranked, names []string, rankings [][]Group) *ownView {
	if len(names) == 1 {
		return nil
	}
	v := &ownView{Caption: caption, Columns: names}
	shown := candidates[:min(openRows, len(candidates))]
	v.Left = len(candidates) - len(shown)
	for _, c := range shown {
		row := ownRow{Name: c.Name}
		for _, groups := range rankings {
			row.Ranks = append(row.Ranks, rankIn(groups, c.Name))
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// ownView returns the table of ranks from all verdicts and from each judge's verdicts alone. It returns nil if the
// candidates form several groups, if there are no abilities, or if no judge has a ranking of its own.
func (r *Report) ownView() *ownView {
	if len(r.Groups) != 1 || r.Fit == nil {
		return nil
	}
	names, rankings := []string{"all"}, [][]Group{r.Groups}
	for _, j := range r.Judges {
		if len(j.Groups) > 0 {
			names, rankings = append(names, j.Name), append(rankings, j.Groups)
		}
	}
	return ownViewOf("Ranks, with the limits at 95 %", r.Groups[0].Ranked, names, rankings)
}

// agreedView shows how far raters agree: on pairs, by criterion and by dimension.
type agreedView struct {
	Pairs  raterView // of raters, on the verdicts
	Totals []agreedRow
}

// raterView shows how far the two raters of each pair agree.
type raterView struct {
	Caption string
	Rows    []raterRow
	Left    int // pairs of raters that are not shown
}

type raterRow struct {
	A, B, Units, Raw, Cohen string
}

type agreedRow struct {
	Of, Raters, Units, Raw, Fleiss, Alpha, Ordinal, Interval, Within string
}

func (r *Report) agreedView() *agreedView {
	v := &agreedView{}
	if r.Agreement != nil {
		v.Totals = append(v.Totals, agreedRowOf("verdicts on pairs", r.Agreement, false))
		v.Pairs = raterViewOf("Two at a time, on the pairs that both judged", r.Agreement, 0, raterPairs)
	}
	for _, a := range r.ScoreAgreement {
		v.Totals = append(v.Totals, agreedRowOf("scores on "+a.Name, a, true))
	}
	for _, part := range r.Rubric[:min(mostRubricParts, len(r.Rubric))] {
		if part.Agreement != nil {
			v.Totals = append(v.Totals, agreedRowOf(part.Name, part.Agreement, false))
		}
	}
	for _, a := range r.PanelAgreement {
		v.Totals = append(v.Totals, agreedRowOf("panel on "+a.Name, a, true))
	}
	if len(v.Totals) == 0 {
		return nil
	}
	return v
}

// raterViewOf returns a table of at most `most` pairs of raters. If first is 0, it takes every pair. Otherwise it
// takes only pairs of one of the first raters and one of the others.
func raterViewOf(caption string, a *Agreement, first, most int) raterView {
	v := raterView{Caption: caption}
	if a == nil {
		return v
	}
	for _, pair := range a.Pairs {
		switch {
		case first > 0 && (pair.A >= first || pair.B < first):
		case len(v.Rows) == most:
			v.Left++
		default:
			v.Rows = append(v.Rows, raterRow{
				A: a.Raters[pair.A], B: a.Raters[pair.B], Units: wording.Count(pair.Units), Raw: shareOf(pair.Raw),
				Cohen: coefficientLimits(pair.Cohen, pair.CohenLimits),
			})
		}
	}
	return v
}

// agreedRowOf leaves the coefficients for ordered values empty unless scale is set: outcomes of pairs have no order.
func agreedRowOf(of string, a *Agreement, scale bool) agreedRow {
	row := agreedRow{
		Of: of, Raters: wording.Count(len(a.Raters)), Units: wording.Count(a.Units), Raw: shareOf(a.raw()),
		Fleiss: coefficientLimits(a.Fleiss, a.FleissLimits), Alpha: coefficientLimits(a.Alpha, a.AlphaLimits),
		Ordinal: "–", Interval: "–", Within: "–",
	}
	if scale {
		row.Ordinal, row.Interval = coefficientLimits(a.Ordinal, a.OrdinalLimits), coefficientLimits(a.Interval, a.IntervalLimits)
		row.Within = coefficientLimits(a.Within, a.WithinLimits)
	}
	return row
}
