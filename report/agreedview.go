package report

// raterPairs is how many pairs of raters are shown of one comparison.
const raterPairs = 66

// ownView is the ranking by each judge alone beside that by all.
type ownView struct {
	Judges []string
	Rows   []ownRow
	Left   int // candidates beyond openRows
}

type ownRow struct {
	Name, All string
	Ranks     []string // by judge
}

// ownView is nil where one judge's ranking is the only one, or where nothing relates
// the candidates.
func (r *Report) ownView() *ownView {
	if len(r.Groups) != 1 || r.Fit == nil {
		return nil
	}
	v := &ownView{}
	var own []Judge
	for _, j := range r.Judges {
		if len(j.Groups) > 0 {
			own = append(own, j)
			v.Judges = append(v.Judges, j.Name)
		}
	}
	if len(own) == 0 {
		return nil
	}
	shown := r.Groups[0].Ranked[:min(openRows, len(r.Groups[0].Ranked))]
	v.Left = len(r.Groups[0].Ranked) - len(shown)
	for _, c := range shown {
		row := ownRow{Name: c.Name, All: r.ranks(c)}
		for _, j := range own {
			row.Ranks = append(row.Ranks, rankIn(j.Groups, c.Name))
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// agreedView is how far raters agree: on pairs, by criterion and by dimension.
type agreedView struct {
	Pairs  []raterRow // of raters, on the verdicts
	Left   int        // pairs beyond raterPairs
	Totals []agreedRow
}

type raterRow struct {
	A, B, Units, Raw, Cohen string
}

type agreedRow struct {
	Of, Raters, Units, Raw, Fleiss, Alpha, Ordinal, Interval string
}

func (r *Report) agreedView() *agreedView {
	v := &agreedView{}
	if r.Agreement != nil {
		v.Totals = append(v.Totals, agreedRowOf("verdicts on pairs", r.Agreement, false))
		for k, pair := range r.Agreement.Pairs {
			if k == raterPairs {
				v.Left = len(r.Agreement.Pairs) - raterPairs
				break
			}
			v.Pairs = append(v.Pairs, raterRow{
				A: r.Agreement.Raters[pair.A], B: r.Agreement.Raters[pair.B], Units: count(pair.Units),
				Raw: shareOf(pair.Raw), Cohen: coefficient(pair.Cohen),
			})
		}
	}
	for _, a := range r.ScoreAgreement {
		v.Totals = append(v.Totals, agreedRowOf("scores on "+a.Name, a, true))
	}
	for _, a := range r.PanelAgreement {
		v.Totals = append(v.Totals, agreedRowOf("panel on "+a.Name, a, true))
	}
	if len(v.Totals) == 0 {
		return nil
	}
	return v
}

// agreedRowOf leaves out the coefficients of scales where values are names.
func agreedRowOf(of string, a *Agreement, scale bool) agreedRow {
	row := agreedRow{
		Of: of, Raters: count(len(a.Raters)), Units: count(a.Units), Raw: shareOf(a.raw()),
		Fleiss: coefficient(a.Fleiss), Alpha: coefficient(a.Alpha), Ordinal: "–", Interval: "–",
	}
	if scale {
		row.Ordinal, row.Interval = coefficient(a.Ordinal), coefficient(a.Interval)
	}
	return row
}
