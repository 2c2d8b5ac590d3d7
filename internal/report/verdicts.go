package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// verdicts counts the raters' verdicts on pairs of documents. Its memory grows with the number of pairs (in each
// order) and their raters. It takes 28 bytes each, and as much again while rows are read.
type verdicts struct {
	cells  []cell
	merged int // the first cells, which are sorted and all different
}

// cell is one rater's verdicts on two documents in the order shown.
type cell struct {
	first, second, rater int32
	wins, losses, ties   int32 // of the one shown first
	identical            int32 // ties between identical texts, without a call
}

func (c cell) pair() (low, high int32) { return min(c.first, c.second), max(c.first, c.second) }

// counts returns the counts for the document shown first; identical texts count as ties.
func (c cell) counts() rank.Counts {
	return rank.Counts{FirstWins: int(c.wins), SecondWins: int(c.losses), Ties: int(c.ties + c.identical)}
}

// compare orders cells by pair of documents, then by rater, then by the order shown.
func (c cell) compare(d cell) int {
	low, high := c.pair()
	otherLow, otherHigh := d.pair()
	return cmp.Or(cmp.Compare(low, otherLow), cmp.Compare(high, otherHigh), cmp.Compare(c.rater, d.rater), cmp.Compare(c.first, d.first))
}

// add counts one verdict; asked is false for identical texts, which no judge was sent.
func (v *verdicts) add(rater, first, second int, outcome rank.Outcome, asked bool) {
	one := cell{first: int32(first), second: int32(second), rater: int32(rater)}
	switch {
	case !asked:
		one.identical = 1
	case outcome == rank.FirstWins:
		one.wins = 1
	case outcome == rank.SecondWins:
		one.losses = 1
	default:
		one.ties = 1
	}
	const few = 4096
	if len(v.cells) >= max(2*v.merged, few) {
		v.merge()
	}
	v.cells = append(v.cells, one)
}

// flip turns two verdicts of a rater, on a pair in both orders, into ties. one was shown first in the first of them;
// in both, the document at the position `outcome` had won.
func (v *verdicts) flip(rater, one, other int, outcome rank.Outcome) {
	change := cell{first: int32(one), second: int32(other), rater: int32(rater), ties: 1}
	if outcome == rank.FirstWins {
		change.wins = -1
	} else {
		change.losses = -1
	}
	back := change
	back.first, back.second = change.second, change.first
	v.cells = append(v.cells, change, back)
}

// merge sorts the cells and adds up equal ones.
func (v *verdicts) merge() {
	if v.merged == len(v.cells) {
		return
	}
	slices.SortFunc(v.cells, cell.compare)
	out := v.cells[:0]
	for _, c := range v.cells {
		if k := len(out) - 1; k >= 0 && out[k].compare(c) == 0 {
			out[k].wins += c.wins
			out[k].losses += c.losses
			out[k].ties += c.ties
			out[k].identical += c.identical
			continue
		}
		out = append(out, c)
	}
	v.cells, v.merged = out, len(out)
}

// units calls do for every pair of documents on which any of the given raters gave a verdict: `raters` raters from
// the position first. values has an element for each rater, and is reused between calls. An element is 0 if the rater
// preferred the document one more often, over orders and trials, and 1 if it preferred other. It is ½ if all its
// verdicts are ties, flip if it preferred both equally often, and NaN if it gave no verdict.
func (v *verdicts) units(first, raters int, flip float64, do func(one, other int, values []float64)) {
	v.merge()
	values, lead, decided := make([]float64, raters), make([]int32, raters), make([]int32, raters)
	for rest := v.cells; len(rest) > 0; {
		low, high := rest[0].pair()
		for k := range values {
			values[k], lead[k], decided[k] = math.NaN(), 0, 0
		}
		any := false
		for len(rest) > 0 {
			c := rest[0]
			if l, h := c.pair(); l != low || h != high {
				break
			}
			rest = rest[1:]
			rater := int(c.rater) - first
			if c.wins+c.losses+c.ties == 0 || rater < 0 || rater >= raters {
				continue
			}
			any = true
			decided[rater] += c.wins + c.losses
			if c.first == low {
				lead[rater] += c.wins - c.losses
			} else {
				lead[rater] += c.losses - c.wins
			}
			switch {
			case lead[rater] > 0:
				values[rater] = 0
			case lead[rater] < 0:
				values[rater] = 1
			case decided[rater] > 0:
				values[rater] = flip
			default:
				values[rater] = 0.5
			}
		}

		if any {
			do(int(low), int(high), values)
		}
	}
}
