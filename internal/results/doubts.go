package results

import (
	"context"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// doubts returns the numbers of the pairs of a phase that its judges contest, and of those that they do not; both
// ascending. It leaves out pairs that no judge was asked about, because their verdicts follow from the texts. A pair
// whose runs all failed is contested.
func doubts(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, phase int) (contested, agreed []int, err error) {
	queues := slices.Repeat([]string{"-"}, len(e.JudgesOf(eval.KindPairwise))) // nothing goes through them
	p, err := plan.New(e, phase, plan.Options{JudgeQueues: queues})
	if err != nil {
		return nil, nil, err
	}
	size := plan.RunsOfPair(e, phase)
	decided := func(pair int) bool {
		run := p.Run(pair * size)
		_, _, known := e.Decided(e.Documents[run.First], e.Documents[run.Second])
		return known
	}

	next := 0
	settle := func(pair int, said *said) {
		switch {
		case decided(pair):
		case said == nil || said.doubtful(e.Escalate.When):
			contested = append(contested, pair)
		default:
			agreed = append(agreed, pair)
		}
		next = pair + 1
	}

	var current *said
	for row, err := range r.PairwiseRows(ctx, id) {
		if err != nil {
			return nil, nil, err
		}
		pair := row.Index / size
		if row.Phase != phase {
			continue
		}
		if pair < 0 || pair*size >= p.Runs() {
			return nil, nil, fmt.Errorf("run %d of phase %d is beyond its plan", row.Index, phase)
		}
		if current != nil && current.pair != pair {
			settle(current.pair, current)
			current = nil
		}
		if current == nil {
			for next < pair {
				settle(next, nil)
			}
			current = &said{pair: pair}
		}
		current.add(row)
	}

	if current != nil {
		settle(current.pair, current)
	}
	for next*size < p.Runs() {
		settle(next, nil)
	}
	return contested, agreed, nil
}

// said are the verdicts on a pair.
type said struct {
	pair  int
	first string // one of the two documents
	rows  []PairwiseRow
}

func (s *said) add(row PairwiseRow) {
	if s.first == "" {
		s.first = row.Document1
	}
	s.rows = append(s.rows, row)
}

// lead returns 1 if a row prefers the first document, −1 if it prefers the other one, and 0 for a tie.
func (s *said) lead(row PairwiseRow) int {
	switch row.Winner {
	case eval.Tie:
		return 0
	case s.first:
		return 1
	}
	return -1
}

// doubtful reports whether any of some doubts holds.
func (s *said) doubtful(when []eval.Doubt) bool {
	return slices.ContainsFunc(when, func(d eval.Doubt) bool {
		switch d {
		case eval.DoubtDisagree:
			return s.disagree()
		case eval.DoubtFlip:
			return s.flip()
		}
		return s.sum() == 0
	})
}

// sum returns by how many verdicts the first document leads.
func (s *said) sum() (lead int) {
	for _, row := range s.rows {
		lead += s.lead(row)
	}
	return lead
}

// disagree reports whether not all judges prefer the same document, each over all its verdicts on the pair.
func (s *said) disagree() bool {
	leads := map[string]int{}
	for _, row := range s.rows {
		leads[row.Judge] += s.lead(row)
	}
	first := true
	sign := 0
	for _, lead := range leads {
		one := min(max(lead, -1), 1)
		if !first && one != sign {
			return true
		}
		first, sign = false, one
	}
	return false
}

// flip reports whether a judge says something else in the other order.
func (s *said) flip() bool {
	type asked struct {
		judge string
		trial int
	}
	before := map[asked]PairwiseRow{}
	for _, row := range s.rows {
		at := asked{row.Judge, row.Trial}
		if other, ok := before[at]; ok && other.Document1 != row.Document1 && s.lead(other) != s.lead(row) {
			return true
		}
		before[at] = row
	}
	return false
}
