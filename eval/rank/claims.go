package rank

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// family is a set of differences that share a bound on false claims. At most 5 of 100 evaluations claim any of them
// falsely; for ofAll the bound is Drawing.Joint.
type family int

const (
	ofPair      family = iota // one difference
	ofCandidate               // those between one candidate and all others
	ofAll                     // all differences of a component
	families
)

// separated holds the pairs of candidates, the better one first, between which all verdicts went one way, with the
// claims about them.
type separated map[orderedPair]*claims

type claims struct {
	chance                   float64 // p-value of the difference alone; 0: it follows from others
	ofWinner, ofLoser, ofAll bool
}

func pairOf(i, j int) orderedPair { return orderedPair(i)<<32 | orderedPair(j) }

// compare prepares the tests of all differences.
func (u *Uncertainty) compare(ctx context.Context, in *influences, how Drawing) error {
	for c, part := range u.fit.Components {
		if u.parts[c].freedom == 0 || len(part.Candidates) < 2 {
			continue
		}
		if part.Separable {
			if err := u.separate(ctx, c, in, how); err != nil {
				return err
			}
		}
		u.stepDown(c)
		if u.parts[c].separated != nil {
			u.follow(c)
		}
	}
	return nil
}

// separate tests the pairs of candidates between which all verdicts went one way. If there are many candidates, it
// tests only those that are close in the ranking.
func (u *Uncertainty) separate(ctx context.Context, c int, in *influences, how Drawing) error {
	f, part := u.fit, &u.parts[c]
	var clusters [][]Observed
	for _, cluster := range in.verdicts {
		if slices.ContainsFunc(cluster, func(o Observed) bool { return f.component[o.First] == c }) {
			clusters = append(clusters, cluster)
		}
	}

	candidates := f.inOrder(c)
	apart := f.mostApart(candidates, clusters, how)
	if apart == 0 {
		return nil
	}
	var pairs []orderedPair
	of := map[int][]int{}
	tests := 0
	for a, i := range candidates {
		for b, j := range candidates[a+1:] {
			switch {
			case f.strong[i] == f.strong[j]:
				tests++
			case b < apart && !f.confounded(i, j):
				of[i], of[j] = append(of[i], len(pairs)), append(of[j], len(pairs))
				pairs = append(pairs, pairOf(i, j))
			}
		}
	}

	if len(pairs) == 0 {
		return nil
	}
	part.pairs = float64(tests + len(pairs))
	t, err := f.flipsOf(ctx, pairs, clusters, u.joint, how.Seed)
	if err != nil {
		return err
	}

	part.separated = separated{}
	all := make([]int, len(pairs))
	for k, pair := range pairs {
		all[k] = k
		part.separated[pair] = &claims{chance: t.chanceOf(k)}
	}

	// Flips of signs have the same critical value for few differences and many, while each further test of Student's t
	// makes the others weaker. So flips get at least half of the error probability.
	share := max(float64(len(pairs))/part.pairs, 0.5)
	joint := t.claimed(all, u.joint*share)
	part.left = left(share, joint, all)
	for _, k := range joint {
		part.separated[pairs[k]].ofAll = true
	}

	part.leftOf = map[int]float64{}
	for i, own := range of {
		share := max(float64(len(own))/float64(len(candidates)-1), share)
		alone := t.claimed(own, level*share)
		part.leftOf[i] = left(share, alone, own)
		for _, k := range alone {
			if winner, _ := pairs[k].split(); winner == i {
				part.separated[pairs[k]].ofWinner = true
			} else {
				part.separated[pairs[k]].ofLoser = true
			}
		}
	}

	return nil
}

// left returns the part of an error probability that flips of signs leave for the other tests: what is not theirs, and all
// of it if they claim every difference (Bretz, Maurer, Brannath and Posch 2009, "A graphical approach to sequentially
// rejective multiple test procedures").
func left(share float64, claimed, of []int) float64 {
	if len(claimed) == len(of) {
		return 1
	}
	return 1 - share
}

// inOrder returns the candidates of a component, best first. Equal ones are in the order of their numbers.
func (f *Fit) inOrder(c int) []int {
	candidates := slices.Clone(f.Components[c].Candidates)
	slices.SortStableFunc(candidates, func(i, j int) int { return cmp.Compare(f.rounded(j), f.rounded(i)) })
	return candidates
}

// follow derives further claims about separated candidates. A candidate that is better than another is also better
// than all candidates that the other is better than.
func (u *Uncertainty) follow(c int) {
	part, candidates := &u.parts[c], u.fit.inOrder(c)
	n := len(candidates)
	better := make([]bool, n*n)
	for a, i := range candidates {
		for b, j := range candidates {
			better[a*n+b] = u.ahead(i, j, ofAll) == 1
		}
	}
	for k := range n {
		for a := range n {
			for b := range n {
				if !better[a*n+b] && better[a*n+k] && better[k*n+b] {
					better[a*n+b] = true
					part.separated.claim(candidates[a], candidates[b]).ofAll = true
				}
			}
		}
	}
}

func (s separated) claim(winner, loser int) *claims {
	pair := pairOf(winner, loser)
	if s[pair] == nil {
		s[pair] = &claims{}
	}
	return s[pair]
}

// stepDown computes the number of standard errors above which a difference is claimed. All differences not yet
// claimed share the chance of a false claim (Holm 1979, "A simple sequentially rejective multiple test procedure").
// Critical values of the studentised range, or ones drawn with its correlations, would be too small. The errors of
// differences come from few clusters and are not one common error.
func (u *Uncertainty) stepDown(c int) {
	part, candidates := &u.parts[c], u.fit.Components[c].Candidates
	quantile := func(chance float64) float64 { return student(part.freedom).Quantile(1 - chance/2) }
	part.critical[ofCandidate] = quantile(level / float64(len(candidates)-1))
	tests, of := 0.0, map[int]float64{} // by candidate
	for a, i := range candidates {
		for _, j := range candidates[a+1:] {
			if u.fit.strong[i] == u.fit.strong[j] {
				tests, of[i], of[j] = tests+1, of[i]+1, of[j]+1
			}
		}
	}

	part.criticalOf = map[int]float64{}
	for i, left := range part.leftOf {
		part.criticalOf[i] = quantile(level * left / max(of[i], 1))
	}
	claimed, share := 0.0, part.left
	if part.separated == nil {
		share = tests / part.pairs
	}
	for {
		part.critical[ofAll] = quantile(u.joint * share / max(tests-claimed, 1))
		now := 0.0
		for a, i := range candidates {
			for _, j := range candidates[a+1:] {
				if u.fit.strong[i] == u.fit.strong[j] && u.ahead(i, j, ofAll) != 0 {
					now++
				}
			}
		}
		if now <= claimed {
			return
		}
		claimed = now
	}
}

// ahead returns 1 if i can be claimed to be better than j, −1 for worse, and 0 if neither can be claimed. For
// ofCandidate, the differences are those of i.
func (u *Uncertainty) ahead(i, j int, of family) int {
	f, part := u.fit, &u.parts[u.fit.component[i]]
	if f.component[i] != f.component[j] || part.freedom == 0 || f.confounded(i, j) {
		return 0
	}
	if f.strong[i] != f.strong[j] {
		switch {
		case part.won(u, i, j, of, true):
			return 1
		case part.won(u, j, i, of, false):
			return -1
		}
		return 0
	}

	if !u.manyDecided(i, j) {
		return 0
	}
	difference, limits := u.difference(i, j)
	critical := part.critical[of]
	if own, ok := part.criticalOf[i]; ok && of == ofCandidate {
		critical = own
	}
	switch {
	case difference > critical*limits.SE:
		return 1
	case difference < -critical*limits.SE:
		return -1
	}
	return 0
}

// won reports whether a candidate can be claimed to be better than another, if all verdicts put it first. For
// ofCandidate, ofWinner says whether the differences are the winner's or the loser's.
func (part *inference) won(u *Uncertainty, winner, loser int, of family, ofWinner bool) bool {
	if part.separated == nil {
		chance := [families]float64{level, level / float64(len(u.fit.Components[u.fit.component[winner]].Candidates)-1), u.joint / part.pairs}
		return u.alwaysWon(winner, loser) <= chance[of]
	}
	claim := part.separated[pairOf(winner, loser)]
	switch {
	case claim == nil:
		return false
	case of == ofPair:
		return claim.chance <= level || claim.ofAll
	case of == ofAll:
		return claim.ofAll
	case ofWinner:
		return claim.ofWinner
	default:
		return claim.ofLoser
	}
}

const (
	// fewestDecided is the smallest number of clusters that can say at 95 % that one candidate is better than another: if
	// they are equal, fewer all go one way more often than once in 20 (sign test: 2·0.5^5 > 0.05 > 2·0.5^6).
	fewestDecided = 6
	// fewestOfOne is the smallest number of such clusters in which either of the two takes part.
	fewestOfOne = 3
)

// manyDecided reports whether enough clusters decide something about two candidates for Student's t. Ties and verdicts
// that cancel narrow the standard error of a difference as evidence does, but with few decided clusters its errors are far
// from normal. A candidate that hardly met others is related to them by what happened there alone. If there are fewer
// clusters, all of them must decide something.
func (u *Uncertainty) manyDecided(i, j int) bool {
	one, other := u.decided[i], u.decided[j]
	either := len(one)
	for _, k := range other {
		if !slices.Contains(one, k) {
			either++
		}
	}
	all := int(u.parts[u.fit.component[i]].freedom) + 1
	return either >= min(fewestDecided, all) && min(len(one), len(other)) >= min(fewestOfOne, all)
}

// tested reports whether the difference of two candidates was tested by itself. Of many that are separated, only those
// close in the ranking are.
func (u *Uncertainty) tested(i, j int) bool {
	part := &u.parts[u.fit.component[i]]
	if u.fit.strong[i] == u.fit.strong[j] || part.separated == nil {
		return true
	}
	return part.separated[pairOf(i, j)] != nil || part.separated[pairOf(j, i)] != nil
}

// alwaysWon returns the p-value of the record of i against j, which i never lost. It is the probability that two
// candidates of equal ability have such a record or the opposite one. The verdicts of a cluster go either way with
// equal probability.
func (u *Uncertainty) alwaysWon(i, j int) float64 {
	if clusters := u.wonIn(i, j); clusters > 0 {
		return math.Exp2(1 - clusters)
	}
	return 1
}

// wonIn returns the number of clusters in which i beat j, as victories counts them; j never beat i. If judges may prefer
// a position, it counts the clusters in which i won from the position from which it won less often.
func (u *Uncertainty) wonIn(i, j int) float64 {
	v := u.victors[pairOf(i, j)]
	switch {
	case v == nil:
		return 0
	case u.fit.ordered:
		return min(v.shownFirst, v.shownSecond)
	default:
		return v.shownFirst + v.shownSecond
	}
}
