package report

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// verdicts counts the raters' verdicts on pairs of documents. Its memory grows with the number of pairs (in each
// order) and their raters. It takes 56 bytes each, and as much again while rows are read.
type verdicts struct {
	cells   []cell
	merged  int    // the first cells, which are sorted and all different
	flipped []cell // what Options.FlipsTie changes in the ranking, and only there
}

// cell is one rater's verdicts on two documents in the order shown.
type cell struct {
	first, second, rater int32
	wins, losses, ties   int32   // of the one shown first
	identical            int32   // ties without a call: between identical texts, or those that fail gates
	winsMore, lossesMore int32   // that degrees add to wins and losses in rankings (rank.Observed)
	won, lost            int32   // without a call, because the other text, or the one shown first, fails a gate
	soft                 float64 // rank.Observed.Soft
}

func (c cell) pair() (low, high int32) { return min(c.first, c.second), max(c.first, c.second) }

// counts returns the counts for the document shown first; verdicts without a call count, too.
func (c cell) counts() rank.Counts {
	return rank.Counts{FirstWins: int(c.wins + c.won), SecondWins: int(c.losses + c.lost), Ties: int(c.ties + c.identical)}
}

// compare orders cells by pair of documents, then by rater, then by the order shown.
func (c cell) compare(d cell) int {
	low, high := c.pair()
	otherLow, otherHigh := d.pair()
	return cmp.Or(cmp.Compare(low, otherLow), cmp.Compare(high, otherHigh), cmp.Compare(c.rater, d.rater), cmp.Compare(c.first, d.first))
}

// add counts one verdict with the degrees that it has above the first; asked is false for texts that no judge was sent.
func (v *verdicts) add(rater, first, second int, outcome rank.Outcome, more int, asked bool) {
	one := cell{first: int32(first), second: int32(second), rater: int32(rater)}
	switch {
	case !asked && outcome == rank.FirstWins:
		one.won = 1
	case !asked && outcome == rank.SecondWins:
		one.lost = 1
	case !asked:
		one.identical = 1
	case outcome == rank.FirstWins:
		one.wins, one.winsMore = 1, int32(more)
	case outcome == rank.SecondWins:
		one.losses, one.lossesMore = 1, int32(more)
	default:
		one.ties = 1
	}
	const few = 4096
	if len(v.cells) >= max(2*v.merged, few) {
		v.merge()
	}
	v.cells = append(v.cells, one)
}

// soften adds what the probabilities of the verdict that was added last add to the wins of the document shown first.
func (v *verdicts) soften(by float64) { v.cells[len(v.cells)-1].soft = by }

// flip turns two verdicts of a rater, on a pair in both orders, into ties in the ranking: said, for which one was shown
// first, and reverse. In both, the document at the same position had won.
func (v *verdicts) flip(rater, one, other int, said, reverse told) {
	change := func(first, second int, verdict told) cell {
		c := cell{first: int32(first), second: int32(second), rater: int32(rater), ties: 1}
		if verdict.outcome == rank.FirstWins {
			c.wins, c.winsMore = -1, -int32(verdict.more)
		} else {
			c.losses, c.lossesMore = -1, -int32(verdict.more)
		}
		return c
	}
	v.flipped = append(v.flipped, change(one, other, said), change(other, one, reverse))
}

// ranked returns the cells that count in the ranking, sorted.
func (v *verdicts) ranked() []cell {
	v.merge()
	if len(v.flipped) == 0 {
		return v.cells
	}
	all := verdicts{cells: slices.Concat(v.cells, v.flipped)}
	all.merge()
	return all.cells
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
			out[k].winsMore += c.winsMore
			out[k].lossesMore += c.lossesMore
			out[k].identical += c.identical
			out[k].soft += c.soft
			out[k].won += c.won
			out[k].lost += c.lost
			continue
		}
		out = append(out, c)
	}
	v.cells, v.merged = out, len(out)
}

// units calls do for every pair of documents on which any of the given raters gave a verdict: `raters` raters from
// the position first. said has each rater's verdicts, in which rank.FirstWins means the document one and
// rank.SecondWins means other. It is reused between calls. Both orders weigh the same, however many trials they have.
func (v *verdicts) units(first, raters int, do func(one, other int, said []rank.Shares)) {
	v.merge()
	said := make([]rank.Shares, raters)
	for rest := v.cells; len(rest) > 0; {
		clear(said)
		low, high := rest[0].pair()
		any := false
		for len(rest) > 0 {
			c := rest[0]
			if l, h := c.pair(); l != low || h != high {
				break
			}
			rest = rest[1:]
			asked, rater := c.wins+c.losses+c.ties, int(c.rater)-first
			if asked == 0 || rater < 0 || rater >= raters {
				continue
			}
			any = true
			if c.first != low {
				c.wins, c.losses = c.losses, c.wins
			}
			shares := &said[rater]
			other := shares.Known() // the other order
			for outcome, n := range []int32{rank.FirstWins: c.wins, rank.SecondWins: c.losses, rank.Tied: c.ties} {
				shares[outcome] += float64(n) / float64(asked)
				if other {
					shares[outcome] /= 2
				}
			}
		}

		if any {
			do(int(low), int(high), said)
		}
	}
}
