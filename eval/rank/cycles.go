package rank

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

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
func CyclesOf(n int, tallies []*Tally) Cycles { return dominanceOf(n, tallies).cycles() }

// ExpectedCycles are the shares of circular triples to expect if abilities explain all verdicts.
type ExpectedCycles struct {
	Mean float64
	High float64 // exceeded in 1 % of evaluations
}

const (
	cycleDraws     = 400
	fewCycleDraws  = 100         // fewer do not show what is exceeded in 1 %
	mostCycleWords = 400_000_000 // words of bits that all draws together may read
)

// ExpectCycles draws the winner of each decided pair from the abilities, and counts the circular triples. Verdicts on
// one unit, such as an item, may all be alike, so the winner is that of most units; units returns their number. Its
// fields are NaN if no triple was decided, or if there are too many candidates.
func ExpectCycles(n int, tallies []*Tally, ability []float64, units func(i, j int) int, seed uint64) ExpectedCycles {
	t := dominanceOf(n, tallies)
	draws := min(cycleDraws, mostCycleWords/max(1, len(t.pairs)*t.beats.words))
	if draws < fewCycleDraws || t.cycles().Triples == 0 {
		return ExpectedCycles{math.NaN(), math.NaN()}
	}

	upset := make([]float64, len(t.pairs)) // probability that the loser wins
	for k, pair := range t.pairs {
		won := distuv.Binomial{N: float64(units(pair[0], pair[1])), P: 1 / (1 + math.Exp(ability[pair[1]]-ability[pair[0]]))}
		half := math.Ceil(won.N/2) - 1 // the most that is less than half
		lost, other := won.CDF(half), 1-won.CDF(won.N-half-1)
		upset[k] = lost / (lost + other)
	}

	random, shares, observed := rand.New(rand.NewPCG(seed, 3)), make([]float64, draws), slices.Clone(t.pairs)
	expected := ExpectedCycles{}
	for d := range shares {
		for k, pair := range observed {
			if t.pairs[k] = pair; random.Float64() < upset[k] {
				t.pairs[k] = [2]int{pair[1], pair[0]}
			}
		}
		shares[d] = t.cycles().Share()
		expected.Mean += shares[d] / float64(draws)
	}
	slices.Sort(shares)
	expected.High = shares[int(math.Ceil(0.99*float64(draws)))-1]
	return expected
}

// dominance has the winner, then the loser, of each decided pair.
type dominance struct {
	pairs         [][2]int
	beats, beaten bitRows
}

func dominanceOf(n int, tallies []*Tally) *dominance {
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

	t := &dominance{beats: newBitRows(n), beaten: newBitRows(n)}
	for pair, wins := range lead {
		switch {
		case wins > 0:
			t.pairs = append(t.pairs, pair)
		case wins < 0:
			t.pairs = append(t.pairs, [2]int{pair[1], pair[0]})
		}
	}
	slices.SortFunc(t.pairs, func(x, y [2]int) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) })
	return t
}

func (t *dominance) cycles() Cycles {
	clear(t.beats.bits)
	clear(t.beaten.bits)
	for _, pair := range t.pairs {
		t.beats.set(pair[0], pair[1])
		t.beaten.set(pair[1], pair[0])
	}

	var c Cycles
	for _, pair := range t.pairs {
		i, j := pair[0], pair[1]
		for w := range t.beats.words {
			c.Circular += bits.OnesCount64(t.beats.row(j)[w] & t.beaten.row(i)[w])
			c.Triples += bits.OnesCount64((t.beats.row(i)[w] | t.beaten.row(i)[w]) & (t.beats.row(j)[w] | t.beaten.row(j)[w]))
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
