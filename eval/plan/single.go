package plan

// documents enumerates the cases of a single phase: each document once. One call asks all criteria.
type documents int

func (d documents) count() int { return int(d) }

func (d documents) at(i int) (first, second int) { return i, -1 }
