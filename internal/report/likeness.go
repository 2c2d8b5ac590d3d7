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

// likeness counts the pairs on which two judges gave the same verdicts, and those of them on which both gave different
// verdicts in different orders or trials.
type likeness struct {
	one, other   int // positions of the judges
	pairs, mixed int
}

// add adds the verdicts of all judges on a pair, and reports whether those of the two are the same or one has none.
func (l *likeness) add(said []rank.Shares) bool {
	one, other := said[l.one], said[l.other]
	switch {
	case !one.Known() || !other.Known():
		return true
	case one != other:
		return false
	}
	l.pairs++
	if max(one[0], one[1], one[2]) < 1 {
		l.mixed++
	}
	return true
}

// copied reports whether the two, which agree on every pair, are probably one judge under two names: they agree also
// where a judge contradicts itself, which happens at random.
func (l *likeness) copied() bool { return l.mixed >= leastMixed && 2*l.mixed <= l.pairs }

// alike are the pairs of judges that have given the same verdicts so far.
type alike []likeness

func alikeOf(judges int) (all alike) {
	if judges > mostLikened {
		return nil
	}
	for other := range judges {
		for one := range other {
			all = append(all, likeness{one: one, other: other})
		}
	}
	return all
}

// add adds the verdicts of all judges on a pair of texts.
func (a *alike) add(said []rank.Shares) {
	same := (*a)[:0]
	for _, l := range *a {
		if l.add(said) {
			same = append(same, l)
		}
	}
	*a = same
}

// words names two judges that are probably one; empty if there are none.
func (a alike) words(judges []Judge) string {
	for _, l := range a {
		if l.copied() {
			return fmt.Sprintf("%s and %s gave the same verdicts on all %s, also on the %s on which each contradicts itself",
				called(judges[l.one].Name), called(judges[l.other].Name), wording.Counted(l.pairs, "pair"), wording.Count(l.mixed))
		}
	}
	return ""
}
