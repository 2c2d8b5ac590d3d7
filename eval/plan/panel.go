package plan

// sheets enumerates the cases of a panel: each document on each dimension.
type sheets struct{ documents, dimensions int }

func (s sheets) count() int { return s.documents * s.dimensions }

func (s sheets) at(i int) (first, second int) { return i / s.dimensions, -1 }

// Group returns the indexes of the runs in which an agent of a panel judges one document, one for each dimension, in
// their order. It is the group that contains the run with the given index. It omits runs beyond the limit, which
// never include the first.
func (p *Plan) Group(index int) []int {
	var group []int
	for next := p.Leader(index); len(group) < p.dimensions && next < p.runs; next += p.judges {
		group = append(group, next)
	}
	return group
}

// Leader returns the index of the first run in the Group of the given run.
func (p *Plan) Leader(index int) int {
	size := p.dimensions * p.judges
	return index/size*size + index%p.judges
}
