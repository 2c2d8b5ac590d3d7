package report

// joint is the chance that any of the joint bounds of ranks is wrong; 0: 5 %. An evaluation
// that may end early was looked at before, and its report is one look more.
func (b *builder) joint() float64 {
	until := b.report.Evaluation.Settings.Until
	if until == nil {
		return 0
	}
	rule := until.Rule(b.report.Evaluation.Plan)
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

// known reports whether the evaluation has ended early because its best candidates are known.
func (r *Report) known() bool {
	why := r.Evaluation.Stopped
	return why != nil && why.Known != nil
}
