package report

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// verdicts counts the raters' verdicts on pairs of documents. Its memory grows with the number of pairs (in each
// order) and their raters. It takes 36 bytes each, and as much again while rows are read.
type verdicts struct {
	cells   []cell
	merged  int    // the first cells, which are sorted and all different
	flipped []cell // what Options.FlipsTie changes in the ranking, and only there
}

// cell is one rater's verdicts on two documents in the order shown.
type cell struct {
	first, second, rater int32
	wins, losses, ties   int32 // of the one shown first
	identical            int32 // ties without a call: between identical texts, or those that fail gates
	won, lost            int32 // without a call, because the other text, or the one shown first, fails a gate
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

// add counts one verdict; asked is false for texts that no judge was sent.
func (v *verdicts) add(rater, first, second int, outcome rank.Outcome, asked bool) {
	one := cell{first: int32(first), second: int32(second), rater: int32(rater)}
	switch {
	case !asked && outcome == rank.FirstWins:
		one.won = 1
	case !asked && outcome == rank.SecondWins:
		one.lost = 1
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

// flip turns two verdicts of a rater, on a pair in both orders, into ties in the ranking. one was shown first in the
// first of them; in both, the document at the position `outcome` had won.
func (v *verdicts) flip(rater, one, other int, outcome rank.Outcome) {
	change := cell{first: int32(one), second: int32(other), rater: int32(rater), ties: 1}
	if outcome == rank.FirstWins {
		change.wins = -1
	} else {
		change.losses = -1
	}
	back := change
	back.first, back.second = change.second, change.first
	v.flipped = append(v.flipped, change, back)
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
			out[k].identical += c.identical
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
