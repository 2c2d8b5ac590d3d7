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
