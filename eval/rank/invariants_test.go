package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzUncertainty: whatever was compared by two judges in few clusters, every probability is one,
// and limits and ranks hold their estimates.
func FuzzUncertainty(f *testing.F) {
	f.Add([]byte{0x01, 0, 0, 0x12, 0, 1, 0x01, 1, 2, 0x10, 2, 3, 0x34, 0, 4}, uint8(0))
	f.Add([]byte{0x12, 0, 0, 0x12, 1, 1, 0x21, 2, 2, 0x21, 3, 3, 0x12, 4, 7, 0x35, 0, 1}, uint8(1))
	f.Add([]byte{0x01, 0, 0, 0x10, 4, 1, 0x12, 1, 1, 0x20, 3, 2, 0x02, 5, 9}, uint8(7))
	// With scales: steps by the expected information alone do not end; a scale of 0 determines
	// nothing, and abilities are unbounded although each candidate has won.
	f.Add([]byte("a000000X0"), uint8(4))
	f.Add([]byte("X00C002X0500"), uint8(5))
	f.Add([]byte("x00x11A20!90xX0000"), uint8(5))
	f.Add([]byte("0000A0a902A0\xb710$10\xb7A0#00B00"), uint8('U'))
	f.Fuzz(func(t *testing.T, games []byte, options uint8) {
		const n, judges, clusters = 6, 2, 8
		var observed []Observed
		for ; len(games) >= 3; games = games[3:] {
			first, second := int(games[0]>>4)%n, int(games[0]&15)%n
			if first == second {
				continue
			}
			one := game(int(games[2])%clusters, first, second, []Outcome{FirstWins, SecondWins, Tied}[games[1]%3])
			one.Judge = int32(games[1] / 3 % judges)
			observed = append(observed, one)
		}
		of := Options{Ties: Ties(options & 1), OrderEffect: options&2 != 0, Scales: options&4 != 0}
		fit, err := FromObserved(n, judges, observed, of)
		if err != nil {
			t.Fatal(err)
		}
		u, err := fit.Uncertainty(t.Context(), observed, Drawing{Draws: 50})
		if err != nil {
			t.Fatal(err)
		}
		u.invariant(t)
	})
}

// TestOneAnswer: tests, probabilities and limits say the same of simulated evaluations of few and many items, with and
// without candidates that won every comparison.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	for _, e := range []evaluations{
		{candidates: 2, apart: .8, items: 10}, {candidates: 2, apart: 9, items: 6}, {candidates: 4, apart: .6, items: 12},
		{candidates: 5, apart: 4, items: 5}, {candidates: 8, items: 30}, {candidates: 3, apart: 1, items: 4},
	} {
		e.judges, e.luck = []simulatedJudge{{scale: 1, order: 0.4}}, 0.5
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 82))
			_, u := estimated(t, e.candidates, e.observed(random, e.abilities(random)), Options{OrderEffect: true}, Drawing{Draws: 200})
			u.invariant(t)
		}
	}
}

func (u *Uncertainty) invariant(t *testing.T) {
	t.Helper()
	for c, part := range u.fit.Components {
		sum, held := 0.0, 0.0
		for _, i := range part.Candidates {
			ranks := []int{1, u.RankLow[i], u.MarginalLow[i], u.fit.rank(i), u.MarginalHigh[i], u.RankHigh[i], len(part.Candidates)}
			if !slices.IsSorted(ranks) {
				t.Errorf("candidate %d: 1, bounds, rank, bounds and the number of candidates are %v", i, ranks)
			}
			if u.Best == nil {
				continue
			}
			one := u.Abilities[i]
			switch alone := u.parts[c].freedom == 0; {
			case alone != math.IsNaN(one.Low) || alone != math.IsNaN(one.High):
				t.Errorf("candidate %d with %v degrees of freedom: limits %v", i, u.parts[c].freedom, one)
			case !alone && !(one.Low <= u.fit.Abilities[i] && u.fit.Abilities[i] <= one.High) || math.IsInf(one.High-one.Low, 0):
				t.Errorf("candidate %d: ability %v, limits %v", i, u.fit.Abilities[i], one)
			case one.Low < 0 && u.RankHigh[i] == 1 && len(part.Candidates) > 1:
				t.Errorf("candidate %d is better than every other, and its ability may be %v", i, one.Low)
			}
			for _, j := range part.Candidates {
				if i != j {
					u.agree(t, i, j)
				}
			}
			sum += u.Best[i]
			if u.Contenders[i] {
				held += u.Best[i]
			}
		}
		if held < 1-level-1e-9 {
			t.Errorf("the best is among the contenders with probability %v", held)
		}
		if math.Abs(sum-1) > 1e-9 && !math.IsNaN(sum) {
			t.Errorf("one of %v is the best with probability %v: %v", part.Candidates, sum, u.Best)
		}
	}
	for i, p := range u.Best {
		if c := u.fit.component[i]; len(u.fit.Components[c].Candidates) == 2 && u.RankHigh[i] == 1 && !(p >= 0.95) {
			t.Errorf("candidate %d is better than the other, and the best with probability %v", i, p)
		}
		candidates := u.fit.Components[u.fit.component[i]].Candidates
		several := slices.ContainsFunc(candidates, func(j int) bool { return j != i && u.Contenders[j] })
		if several && p > unsure+1e-9 {
			t.Errorf("candidate %d is not the only one that may be the best, and is it with probability %v", i, p)
		}
		if p < 0 || p > 1+1e-9 {
			t.Errorf("candidate %d is the best with probability %v", i, p)
		}
	}
	for _, between := range u.Neighbours() {
		if between.Right < 0 || between.Right > 1 || between.More < 0 {
			t.Errorf("neighbours %+v", between)
		}
	}
}

// agree checks that test, probability and limits of a difference say the same.
func (u *Uncertainty) agree(t *testing.T, i, j int) {
	t.Helper()
	p, claim := u.Beats(i, j), u.ahead(i, j, ofPair)
	_, limits, _ := u.Contrast(i, j)
	switch {
	case math.Abs(p+u.Beats(j, i)-1) > 1e-9:
		t.Errorf("%d is better than %d with probability %v, and worse with %v", i, j, p, u.Beats(j, i))
	case (claim == 1) != (p >= 1-level) && u.tested(i, j) && !math.IsNaN(p):
		t.Errorf("%d is better than %d with probability %v, and the test says %d", i, j, p, claim)
	case claim == 1 && limits.Low < 0, claim == 0 && limits.Low > 0 && u.tested(i, j) && !math.IsNaN(p):
		t.Errorf("%d is ahead of %d by %v, and the test says %d", i, j, limits, claim)
	}
}
