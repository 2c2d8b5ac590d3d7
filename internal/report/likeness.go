package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	// mostLikened is the largest number of judges of which each is compared with each.
	mostLikened = 30
	// leastMixed is how many pairs two judges must both have judged in two ways, always in the same ones, to be taken for
	// one. Where judges follow the order on most pairs, that is no sign.
	leastMixed = 3
	// mostAgreement is the largest kappa that two judges of scores are thought to have, and unlikelyAlike the probability
	// below which they are taken for one. Of whole numbers from 1 to 10, people and models agree far less.
	mostAgreement = 0.9
	unlikelyAlike = 0.05
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

// scoredAlike names two judges that gave all texts the same scores, if two judges hardly do so; empty if there are none.
// Two that agree with a kappa of mostAgreement give n texts the same scores with probability (p + (1−p)·κ)ⁿ, where p is
// the agreement by chance (Cohen 1960, "A coefficient of agreement for nominal scales"). With two different scores only,
// such as right and wrong, good judges may well agree on all.
func (b *builder) scoredAlike(judges []Judge) string {
	if len(judges) > mostLikened {
		return ""
	}
	for other := range judges {
		for one := range other {
			if texts := b.scored.alike(one, other); texts > 0 {
				return fmt.Sprintf("%s and %s gave the same scores to all %s, which two judges hardly do",
					called(judges[one].Name), called(judges[other].Name), wording.Counted(texts, "text"))
			}
		}
	}
	return ""
}

// alike returns the number of documents that both raters scored if they are probably one, and otherwise 0.
func (r *ratings) alike(one, other int) int {
	counts, values, documents := map[string]int{}, map[float64]bool{}, 0
	for _, scores := range r.scores {
		said, known := "", false
		for at := 0; at < len(scores); at += r.raters {
			x, y := scores[at+one], scores[at+other]
			switch {
			case x.N == 0 || y.N == 0:
				said += "–;"
			case x != y:
				return 0
			default:
				said += fmt.Sprint(x, ";")
				values[x.Mean()], known = true, true
			}
		}
		if known {
			counts[said]++
			documents++
		}
	}

	chance := 0.0
	for _, n := range counts {
		chance += float64(n*n) / float64(documents*documents)
	}
	if len(values) < 3 || math.Pow(chance+(1-chance)*mostAgreement, float64(documents)) > unlikelyAlike {
		return 0
	}
	return documents
}
