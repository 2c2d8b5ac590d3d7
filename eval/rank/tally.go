package rank

import (
	"fmt"
	"iter"
	"slices"
)

// Tally counts one judge's comparisons. Its memory grows with the number of ordered pairs of candidates, not of
// comparisons. It counts both orders of a pair separately, so that a preference for a position can be told from one
// for a candidate. It is not safe for concurrent use.
type Tally struct {
	candidates int
	cells      map[orderedPair]Counts
}

// orderedPair holds the candidate shown first in the upper half and the second in the lower half, so that sorting the
// numbers sorts the pairs.
type orderedPair uint64

func (p orderedPair) split() (first, second int) {
	return int(p >> 32), int(p & 0xffffffff)
}

// NewTally returns an empty tally for candidates 0 to candidates−1.
func NewTally(candidates int) *Tally {
	return &Tally{candidates: candidates, cells: map[orderedPair]Counts{}}
}

// Add counts one comparison. It returns an error for a candidate out of range, a comparison of a candidate with
// itself, and an unknown outcome.
func (t *Tally) Add(c Comparison) error {
	counts, err := c.Outcome.counts()
	if err != nil {
		return fmt.Errorf("add comparison: %w", err)
	}
	return t.AddCounts(c.First, c.Second, counts)
}

// AddCounts adds several comparisons in which first was shown before second. It returns an error in the same cases as
// Add, and for negative counts.
func (t *Tally) AddCounts(first, second int, counts Counts) error {
	switch {
	case first < 0 || first >= t.candidates || second < 0 || second >= t.candidates:
		return fmt.Errorf("add comparison: candidates %d and %d, want 0 to %d", first, second, t.candidates-1)
	case first == second:
		return fmt.Errorf("add comparison: candidate %d with itself", first)
	case min(counts.FirstWins, counts.SecondWins, counts.Ties) < 0:
		return fmt.Errorf("add comparison: negative counts %+v", counts)
	case counts.Total() == 0:
		return nil
	}
	pair := orderedPair(first)<<32 | orderedPair(second)
	t.cells[pair] = t.cells[pair].Plus(counts)
	return nil
}

// Pair holds two candidates in the order in which they were shown.
type Pair struct {
	First, Second int
}

// Cells yields every compared ordered pair with its counts, sorted by the candidate shown first and then by the one
// shown second.
func (t *Tally) Cells() iter.Seq2[Pair, Counts] {
	return func(yield func(Pair, Counts) bool) {
		pairs := make([]orderedPair, 0, len(t.cells))
		for pair := range t.cells {
			pairs = append(pairs, pair)
		}
		slices.Sort(pairs)
		for _, pair := range pairs {
			first, second := pair.split()
			if !yield(Pair{first, second}, t.cells[pair]) {
				return
			}
		}
	}
}

// Balanced reports whether every pair was shown equally often in both orders, so that a preference for a position
// favours no candidate.
func (t *Tally) Balanced() bool {
	for pair, counts := range t.cells {
		first, second := pair.split()
		if counts.Total() != t.cells[orderedPair(second)<<32|orderedPair(first)].Total() {
			return false
		}
	}
	return true
}

// Records returns the candidates' wins, losses and ties over all tallies, which must be over the same n candidates.
func Records(n int, tallies []*Tally) []Record {
	records := make([]Record, n)
	for _, t := range tallies {
		for pair, c := range t.cells {
			first, second := pair.split()
			records[first] = records[first].plus(Record{Wins: c.FirstWins, Losses: c.SecondWins, Ties: c.Ties})
			records[second] = records[second].plus(Record{Wins: c.SecondWins, Losses: c.FirstWins, Ties: c.Ties})
		}
	}
	return records
}
