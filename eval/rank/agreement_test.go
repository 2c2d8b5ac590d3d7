package rank

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance || math.IsNaN(got) && math.IsNaN(want)
}

// krippendorff is the example of Krippendorff 2011, C: four coders of twelve units.
func krippendorff(t *testing.T) [][]float64 {
	t.Helper()
	file, err := os.Open("testdata/krippendorff_2011.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	units := make([][]float64, len(lines[0]))
	for _, coder := range lines {
		for u, word := range coder {
			value := math.NaN()
			if word != "" {
				if value, err = strconv.ParseFloat(word, 64); err != nil {
					t.Fatal(err)
				}
			}
			units[u] = append(units[u], value)
		}
	}
	return units
}

func TestAlpha(t *testing.T) {
	t.Parallel()
	a := NewAgreement(4)
	for _, unit := range krippendorff(t) {
		a.Add(unit)
	}
	for level, want := range map[Level]float64{Nominal: 0.743421, Ordinal: 0.815388, Interval: 0.849107, Ratio: 0.797403} {
		if got := a.Alpha(level); !near(got, want, 5e-7) {
			t.Errorf("level %d: alpha %.6f, want %.6f", level, got, want)
		}
	}
}

// wikipedia is the worked example of Fleiss' kappa there: ten units, fourteen
// raters, five values.
var wikipedia = [][]int{
	{0, 0, 0, 0, 14}, {0, 2, 6, 4, 2}, {0, 0, 3, 5, 6}, {0, 3, 9, 2, 0}, {2, 2, 8, 1, 1},
	{7, 7, 0, 0, 0}, {3, 2, 6, 3, 0}, {2, 5, 3, 2, 2}, {6, 5, 2, 1, 0}, {0, 2, 2, 3, 7},
}

func TestFleiss(t *testing.T) {
	t.Parallel()
	a := NewAgreement(14)
	for _, counts := range wikipedia {
		var values []float64
		for value, n := range counts {
			for range n {
				values = append(values, float64(value))
			}
		}
		a.Add(values)
	}
	a.Add(append(make([]float64, 13), math.NaN())) // a unit that one left out
	if got, units := a.Fleiss(); !near(got, 0.2099307, 5e-8) || units != 10 {
		t.Errorf("kappa %.7f over %d units, want 0.2099307 over 10", got, units)
	}
}

// TestPeopleOfPandaLM holds agreement against published figures of three people's
// votes on 999 pairs.
func TestPeopleOfPandaLM(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/pandalm_votes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	a := NewAgreement(3)
	for _, line := range lines[1:] {
		votes := make([]float64, 3)
		for i, word := range line {
			if votes[i], err = strconv.ParseFloat(word, 64); err != nil {
				t.Fatal(err)
			}
		}
		a.Add(votes)
	}
	for pair, want := range map[[2]int]float64{{0, 1}: 0.8520226785, {0, 2}: 0.8789438113, {2, 1}: 0.8616614541} {
		if got := a.Cohen(pair[0], pair[1]); !near(got, want, 1e-10) {
			t.Errorf("kappa of raters %v: %.10f, want %.10f", pair, got, want)
		}
	}
	if got, units := a.Fleiss(); !near(got, 0.8641753650, 1e-10) || units != 999 {
		t.Errorf("Fleiss' kappa %.10f over %d units, want 0.8641753650 over 999", got, units)
	}
	if got := a.Alpha(Nominal); !near(got, 0.8642206852, 1e-10) {
		t.Errorf("alpha %.10f, want 0.8642206852", got)
	}
}

func TestAgreementAtItsEdges(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, tt := range []struct {
		name                      string
		units                     [][]float64
		raw, cohen, fleiss, alpha float64
		both                      int
	}{
		{"nothing said", nil, nan, nan, nan, nan, 0},
		{"never both", [][]float64{{1, nan}, {nan, 2}}, nan, nan, nan, nan, 0},
		{"all the same", [][]float64{{1, 1}, {1, 1}}, 1, nan, nan, nan, 2},
		{"always agreed", [][]float64{{1, 1}, {2, 2}}, 1, 1, 1, 1, 2},
		{"never agreed", [][]float64{{1, 2}, {2, 1}}, 0, -1, -1, -0.5, 2},
		{"a high share by chance", [][]float64{{1, 1}, {1, 1}, {1, 1}, {1, 2}}, 0.75, 0, -1.0 / 7, 0, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := NewAgreement(2)
			for _, unit := range tt.units {
				a.Add(unit)
			}
			raw, both := a.Raw(1, 0)
			fleiss, _ := a.Fleiss()
			if !near(raw, tt.raw, 1e-12) || both != tt.both || !near(a.Cohen(0, 1), tt.cohen, 1e-12) ||
				!near(fleiss, tt.fleiss, 1e-12) || !near(a.Alpha(Nominal), tt.alpha, 1e-12) {
				t.Errorf("raw %v of %d, Cohen %v, Fleiss %v, alpha %v; want %v of %d, %v, %v, %v",
					raw, both, a.Cohen(0, 1), fleiss, a.Alpha(Nominal), tt.raw, tt.both, tt.cohen, tt.fleiss, tt.alpha)
			}
		})
	}
	below := NewAgreement(2)
	below.Add([]float64{-1, 2})
	if got := below.Alpha(Ratio); !math.IsNaN(got) {
		t.Errorf("alpha of ratios of numbers below 0: %v, want none", got)
	}
}

// TestAgreementInAnyOrder: the order of units and of raters changes no digit that
// is printed.
func TestAgreementInAnyOrder(t *testing.T) {
	t.Parallel()
	units := krippendorff(t)
	one, other := NewAgreement(4), NewAgreement(4)
	for _, unit := range units {
		one.Add(unit)
	}
	for _, u := range rand.New(rand.NewPCG(1, 2)).Perm(len(units)) {
		unit := units[u]
		other.Add([]float64{unit[2], unit[0], unit[3], unit[1]})
	}
	for _, level := range []Level{Nominal, Ordinal, Interval, Ratio} {
		if a, b := one.Alpha(level), other.Alpha(level); !near(a, b, 1e-12) {
			t.Errorf("level %d: %v and %v", level, a, b)
		}
	}
	if a, b := one.Cohen(0, 1), other.Cohen(1, 3); !near(a, b, 1e-12) {
		t.Errorf("Cohen's kappa: %v and %v", a, b)
	}
}
