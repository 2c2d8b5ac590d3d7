package rank

import (
	"math/rand/v2"
	"testing"
)

func TestCycles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		games []Comparison
		want  Cycles
	}{
		{"nothing", nil, Cycles{}},
		{"a line", []Comparison{{0, 1, FirstWins}, {1, 2, FirstWins}, {0, 2, FirstWins}}, Cycles{0, 1}},
		{"a circle", []Comparison{{0, 1, FirstWins}, {1, 2, FirstWins}, {0, 2, SecondWins}}, Cycles{1, 1}},
		{"orders are one pair", []Comparison{{0, 1, FirstWins}, {1, 0, FirstWins}, {1, 2, FirstWins}, {2, 0, FirstWins}}, Cycles{}},
		{"a majority decides", []Comparison{
			{0, 1, FirstWins}, {1, 0, FirstWins}, {1, 0, SecondWins}, {1, 2, FirstWins}, {2, 0, FirstWins},
		}, Cycles{1, 1}},
		{"a tie decides nothing", []Comparison{{0, 1, Tied}, {1, 2, FirstWins}, {2, 0, FirstWins}}, Cycles{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tally := NewTally(3)
			for _, game := range tt.games {
				if err := tally.Add(game); err != nil {
					t.Fatal(err)
				}
			}
			if got := CyclesOf(3, []*Tally{tally}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestCyclesOfMany holds the counting by words against the definition, over judges
// that disagree and candidates of more than one word.
func TestCyclesOfMany(t *testing.T) {
	t.Parallel()
	const n = 70
	random := rand.New(rand.NewPCG(3, 4))
	tallies := []*Tally{NewTally(n), NewTally(n)}
	lead := [n][n]int{}
	for range 6000 {
		i, j := random.IntN(n), random.IntN(n)
		if i == j {
			continue
		}
		outcome := Outcome(random.IntN(3))
		if err := tallies[random.IntN(2)].Add(Comparison{i, j, outcome}); err != nil {
			t.Fatal(err)
		}
		switch outcome {
		case FirstWins:
			lead[i][j]++
			lead[j][i]--
		case SecondWins:
			lead[i][j]--
			lead[j][i]++
		case Tied:
		}
	}
	var want Cycles
	for i := range n {
		for j := range i {
			for k := range j {
				a, b, c := lead[i][j], lead[j][k], lead[k][i]
				if a != 0 && b != 0 && c != 0 {
					want.Triples++
				}
				if a > 0 && b > 0 && c > 0 || a < 0 && b < 0 && c < 0 {
					want.Circular++
				}
			}
		}
	}
	if got := CyclesOf(n, tallies); got != want || want.Circular < 1000 {
		t.Errorf("got %+v, want %+v, of thousands", got, want)
	}
}
