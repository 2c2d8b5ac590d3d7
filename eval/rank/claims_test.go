package rank

import "testing"

// TestFewDecided: ties, and verdicts that follow the position, do not make a candidate better. Fewer than six decided
// items could all go one way by chance.
func TestFewDecided(t *testing.T) {
	t.Parallel()
	for decided, ahead := range map[int]bool{2: false, 3: false, 5: false, 12: true} {
		for name, others := range map[string][2]Outcome{"tied": {Tied, Tied}, "by the place": {FirstWins, FirstWins}} {
			var observed []Observed
			for item := range 40 {
				of := others
				if item < decided {
					of = [2]Outcome{FirstWins, SecondWins}
				}
				for judge := range int32(2) {
					one, other := game(item, 0, 1, of[0]), game(item, 1, 0, of[1])
					one.Judge, other.Judge = judge, judge
					observed = append(observed, one, other)
				}
			}
			fit, err := FromObserved(2, 2, observed, Options{OrderEffect: true})
			if err != nil {
				t.Fatal(err)
			}
			u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 50})
			if err != nil {
				t.Fatal(err)
			}
			if got := u.RankHigh[0] == 1; got != ahead {
				t.Errorf("%d of 40 items decided, the others %s: ahead %t, want %t; abilities %v", decided, name, got, ahead, u.Abilities)
			}
			u.invariant(t)
		}
	}
}

// TestMetOnce: a candidate that won its only comparison with each other one, in several verdicts, is not known to be
// better than any of them; with six comparisons each it is.
func TestMetOnce(t *testing.T) {
	t.Parallel()
	for _, others := range []int{1, 3, 8, 30} {
		for times, ahead := range map[int]bool{1: false, 3: false, 12: true} {
			var observed []Observed
			for other := 1; other <= others; other++ {
				for k := range times {
					for range 2 {
						cluster := other*times + k
						observed = append(observed, game(cluster, 0, other, FirstWins), game(cluster, other, 0, SecondWins))
					}
				}
			}
			_, u := estimated(t, others+1, observed, Options{OrderEffect: true}, Drawing{Draws: 50})
			if got := u.RankHigh[0] == 1; got != ahead {
				t.Errorf("%d others met %d times: ahead of all %t, want %t", others, times, got, ahead)
			}
			u.invariant(t)
		}
	}
}

// TestAheadOfMany: a candidate that beat all others on every item is ahead of them, however many there are and whatever
// they did against each other. Five items are too few for any number.
func TestAheadOfMany(t *testing.T) {
	t.Parallel()
	for _, candidates := range []int{2, 3, 5, 20} {
		for items, ahead := range map[int]bool{5: false, 8: true} {
			var observed []Observed
			for item := range items {
				for i := range candidates {
					for j := i + 1; j < candidates; j++ {
						one, other := FirstWins, SecondWins
						if i > 0 && (i+j+item)%2 == 0 {
							one, other = other, one
						}
						observed = append(observed, game(item, i, j, one), game(item, j, i, other))
					}
				}
			}
			_, u := estimated(t, candidates, observed, Options{OrderEffect: true}, Drawing{Draws: 50})
			if got := u.RankHigh[0] == 1; got != ahead {
				t.Errorf("%d candidates, %d items: ahead of all %t, want %t", candidates, items, got, ahead)
			}
			u.invariant(t)
		}
	}
}

// TestCertaintyGrows: the probability that a candidate is better grows with the items that it won, as the sign test's
// p-value falls.
func TestCertaintyGrows(t *testing.T) {
	t.Parallel()
	for items, least := range map[int]float64{5: 0.5, 6: 1 - 2.0/64, 10: 1 - 2.0/1024, 12: 0.998} {
		_, u := estimated(t, 2, perfect(items), Options{OrderEffect: true}, Drawing{Draws: 50})
		if got := u.Beats(0, 1); got < least || (got >= 1-level) != (items >= fewestDecided) {
			t.Errorf("%d of %d items won: better with probability %v, want at least %v", items, items, got, least)
		}
		if sum := u.Beats(0, 1) + u.Beats(1, 0); sum < 1-1e-9 || sum > 1+1e-9 {
			t.Errorf("%d of %d items won: the two are better than each other with probability %v, want 1", items, items, sum)
		}
	}
}
