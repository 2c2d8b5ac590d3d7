package plan

// sheets are the cases of a panel: each document on each dimension.
type sheets struct{ documents, dimensions int }

func (s sheets) count() int { return s.documents * s.dimensions }

func (s sheets) at(i int) (first, second int) { return i / s.dimensions, -1 }

// Group lists, of a panel, the indexes of the runs in which one agent judges one
// document, a run for each dimension in their order; the index-th run is among them.
// Those beyond the limit are left out, which is never the first.
func (p *Plan) Group(index int) []int {
	var group []int
	for next := p.Leader(index); len(group) < p.dimensions && next < p.runs; next += p.judges {
		group = append(group, next)
	}
	return group
}

// Leader is the first of the Group that the index-th run is of.
func (p *Plan) Leader(index int) int {
	size := p.dimensions * p.judges
	return index/size*size + index%p.judges
}
