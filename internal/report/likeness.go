package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	// mostLikened is the largest number of judges of which each is compared with each.
	mostLikened = 30
	// leastMixed is how many pairs two judges must both have judged in two ways, always in the same ones, to be taken for
	// one. Where judges follow the order on most pairs, that is no sign.
	leastMixed = 3
)

// likeness counts on how many pairs two judges gave verdicts, on how many the same ones, and on how many of these both
// gave different verdicts in different orders or trials.
type likeness struct {
	pairs, same, mixed int
}

// add adds the verdicts of both on a pair.
func (l *likeness) add(one, other rank.Shares) {
	if !one.Known() || !other.Known() {
		return
	}
	l.pairs++
	if one != other {
		return
	}
	l.same++
	if max(one[0], one[1], one[2]) < 1 {
		l.mixed++
	}
}

// copied reports whether the two are probably one judge under two names: they agree on every pair, also on those where a
// judge contradicts itself, which happens at random.
func (l *likeness) copied() bool {
	return l.same == l.pairs && l.mixed >= leastMixed && 2*l.mixed <= l.pairs
}

// likened returns two judges that are probably one, in words; empty if there are none.
func (b *builder) likened() string {
	judges := b.report.Judges
	if n := len(judges); n < 2 || n > mostLikened || b.report.separate() {
		return ""
	}
	all := map[[2]int]*likeness{}
	for i := range judges {
		for j := range i {
			all[[2]int{j, i}] = &likeness{}
		}
	}
	b.verdicts.units(0, len(judges), func(_, _ int, said []rank.Shares) {
		for two, l := range all {
			l.add(said[two[0]], said[two[1]])
		}
	})

	for i := range judges {
		for j := range i {
			if l := all[[2]int{j, i}]; l.copied() {
				return fmt.Sprintf("%s and %s gave the same verdicts on all %s, also on the %s on which each contradicts itself",
					called(judges[j].Name), called(judges[i].Name), wording.Counted(l.pairs, "pair"), wording.Count(l.mixed))
			}
		}
	}
	return ""
}
