package plan

// documents are the cases of a single phase: each document once. All criteria
// are asked in one call.
type documents int

func (d documents) count() int { return int(d) }

func (d documents) at(i int) (first, second int) { return i, -1 }
