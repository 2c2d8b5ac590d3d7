package rank

import (
	"math"
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

// TestExpectCycles: if verdicts follow the abilities, about 1 in 100 evaluations has more circular triples than the
// limit, also if all verdicts on an item are alike. Candidates that beat each other in a circle have far more.
func TestExpectCycles(t *testing.T) {
	t.Parallel()
	const n, many = 12, 400
	for _, spread := range []float64{0, 1.5} {
		over, mean, seen := 0, 0.0, 0.0
		for seed := range uint64(many) {
			random := rand.New(rand.NewPCG(seed, 7))
			ability := make([]float64, n)
			for i := range ability {
				ability[i] = spread * random.NormFloat64()
			}
			const items = 3
			tally := NewTally(n)
			for i := range n {
				for j := range i {
					for range items {
						outcome := SecondWins
						if random.Float64() < 1/(1+math.Exp(ability[j]-ability[i])) {
							outcome = FirstWins
						}
						for range 4 { // judges and orders that say the same
							if err := tally.Add(Comparison{i, j, outcome}); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			tallies := []*Tally{tally}
			expected := ExpectCycles(n, tallies, ability, func(_, _ int) int { return items }, seed)
			mean, seen = mean+expected.Mean/many, seen+CyclesOf(n, tallies).Share()/many
			if CyclesOf(n, tallies).Share() > expected.High {
				over++
			}
		}
		t.Logf("spread %v: %.3f of triples circular, %.3f expected, limit exceeded in %d of %d", spread, seen, mean, over, many)
		if over > many/33 || !near(seen, mean, .01) || spread == 0 && !near(mean, .25, .01) {
			t.Errorf("spread %v: %.3f circular, want %.3f; limit exceeded in %d of %d", spread, seen, mean, over, many)
		}
	}

	circle := NewTally(9)
	for i := range 9 {
		for step := 1; step <= 4; step++ {
			if err := circle.Add(Comparison{i, (i + step) % 9, FirstWins}); err != nil {
				t.Fatal(err)
			}
		}
	}
	expected := ExpectCycles(9, []*Tally{circle}, make([]float64, 9), func(_, _ int) int { return 1 }, 1)
	if got := CyclesOf(9, []*Tally{circle}).Share(); got <= expected.High {
		t.Errorf("a circle: share %.2f, want above the limit %.2f", got, expected.High)
	}
	if got := ExpectCycles(9, nil, make([]float64, 9), nil, 1); !math.IsNaN(got.Mean) || !math.IsNaN(got.High) {
		t.Errorf("without triples: %+v", got)
	}
}
