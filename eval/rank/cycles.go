package rank

import "math/bits"

// Cycles says how far judges contradict themselves. In a circular triple of candidates, each won more than it lost
// against the next. See Kendall and Babington Smith 1940, "On the method of paired comparisons".
type Cycles struct {
	Circular int // triples in which a beats b, b beats c and c beats a
	Triples  int // triples in which all three pairs were decided
}

// Share returns Circular / Triples; 0 without triples. Random verdicts give a quarter.
func (c Cycles) Share() float64 {
	if c.Triples == 0 {
		return 0
	}
	return float64(c.Circular) / float64(c.Triples)
}

// CyclesOf counts the circular triples of n candidates over all tallies together. Of two candidates, the one that won
// more of their comparisons beats the other, in whichever order they were shown. With equal numbers, their pair is
// not decided. CyclesOf takes n²/4 bytes and, for each compared pair, time in n/64.
func CyclesOf(n int, tallies []*Tally) Cycles {
	lead := map[[2]int]int{} // by candidates i < j, wins of i beyond those of j
	for _, t := range tallies {
		for pair, c := range t.cells {
			first, second := pair.split()
			if first < second {
				lead[[2]int{first, second}] += c.FirstWins - c.SecondWins
			} else {
				lead[[2]int{second, first}] += c.SecondWins - c.FirstWins
			}
		}
	}

	beats, beaten := newBitRows(n), newBitRows(n)
	for pair, wins := range lead {
		i, j := pair[0], pair[1]
		if wins < 0 {
			i, j = j, i
		}
		if wins != 0 {
			beats.set(i, j)
			beaten.set(j, i)
		}
	}

	var c Cycles
	for pair, wins := range lead {
		i, j := pair[0], pair[1]
		if wins < 0 {
			i, j = j, i
		}
		if wins == 0 {
			continue
		}
		for w := range beats.words {
			c.Circular += bits.OnesCount64(beats.row(j)[w] & beaten.row(i)[w])
			c.Triples += bits.OnesCount64((beats.row(i)[w] | beaten.row(i)[w]) & (beats.row(j)[w] | beaten.row(j)[w]))
		}
	}

	return Cycles{c.Circular / 3, c.Triples / 3} // each was counted at each of its three pairs
}

// bitRows is a square matrix of bits.
type bitRows struct {
	words int // of a row
	bits  []uint64
}

func newBitRows(n int) bitRows {
	words := (n + 63) / 64
	return bitRows{words, make([]uint64, n*words)}
}

func (b bitRows) row(i int) []uint64 { return b.bits[i*b.words : (i+1)*b.words] }

func (b bitRows) set(i, j int) { b.row(i)[j/64] |= 1 << (j % 64) }
