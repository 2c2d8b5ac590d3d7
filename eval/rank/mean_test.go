package rank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMeanOf(t *testing.T) {
	t.Parallel()
	// Five clusters of equal size: the mean of five numbers, by Student's t of 4.
	mean, limits := MeanOf([]float64{10, 20, 30, 20, 20}, []float64{10, 10, 10, 10, 10}, 1, 5)
	se := math.Sqrt(0.5 / 5) // of 1, 2, 3, 2, 2
	if !near(mean, 2, 1e-12) || !near(limits.SE, se, 1e-12) || !near(limits.High, 2+2.776445105*se, 1e-8) {
		t.Errorf("%v %+v, want 2 with an error of %v", mean, limits, se)
	}
	// A perfect record: with ten clusters, a share of .692 still brings one in 40 times.
	if mean, limits = MeanOf([]float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, []float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, 0, 1); mean != 1 || !near(limits.Low, 0.6915029, 1e-6) || limits.High != 1 {
		t.Errorf("of a perfect record %v %+v", mean, limits)
	}
	if _, limits = MeanOf([]float64{0, 0, 0}, []float64{1, 1, 1}, 0, 1); !near(limits.High, 1-math.Cbrt(0.025), 1e-9) || limits.Low != 0 {
		t.Errorf("of none %+v", limits)
	}
	if _, limits = MeanOf([]float64{1, 1, 1}, []float64{2, 2, 2}, 0, 1); !(limits.Low < 0.3 && limits.High > 0.7) {
		t.Errorf("of clusters that do not differ %+v", limits)
	}
	if _, limits = MeanOf([]float64{1}, []float64{2}, 0, 1); !math.IsNaN(limits.Low) {
		t.Errorf("of one cluster %+v", limits)
	}
}

// TestMeansOfClustersThatHardlyDiffer: one cluster that differs does not make limits narrower than none, and limits hold a
// mean to which rare clusters contribute.
func TestMeansOfClustersThatHardlyDiffer(t *testing.T) {
	t.Parallel()
	equal, counts := make([]float64, 20), make([]float64, 20)
	for k := range equal {
		equal[k], counts[k] = 6, 12
	}
	one := slices.Clone(equal)
	one[7] = 7
	_, none := MeanOf(equal, counts, 0, 1)
	mean, some := MeanOf(one, counts, 0, 1)
	if width := none.High - none.Low; some.High-some.Low < width-1e-9 || !near(none.Low, 0.5*math.Pow(0.025, 1.0/20), 1e-9) {
		t.Errorf("limits %+v, and %+v if one cluster differs", none, some)
	}
	if !(some.Low < mean && mean < some.High) || !(some.SE > 0) {
		t.Errorf("mean %v, limits %+v", mean, some)
	}

	// Eight in a hundred texts fail entirely, the others have .9.
	random := rand.New(rand.NewPCG(5, 5))
	var held share
	for range 2000 {
		for k := range equal {
			if equal[k] = 0.9 * counts[k]; random.Float64() < 0.08 {
				equal[k] = 0
			}
		}
		_, limits := MeanOf(equal, counts, 0, 1)
		held.add(limits.Low <= 0.9*0.92 && 0.9*0.92 <= limits.High)
	}
	if held.rate() < 0.93 {
		t.Errorf("%.3f of %d limits hold the mean", held.rate(), held.of)
	}
}

// TestWinRatesCover: limits hold the rate of what is simulated about 95 times in 100.
func TestWinRatesCover(t *testing.T) {
	t.Parallel()
	evaluations := 60
	if *full {
		evaluations = 2000
	}
	e := evaluationsOf("8 candidates spaced by .05, 30 items")
	random := rand.New(rand.NewPCG(3, 4))
	abilities := e.abilities(random)
	truth := make([]float64, len(abilities))
	for i := range truth {
		for j := range truth {
			for _, judge := range e.judges {
				if i != j {
					p := judge.chances(abilities[i]-abilities[j], 0).win + judge.chances(abilities[j]-abilities[i], 0).loss
					truth[i] += p / float64(2*len(e.judges)*(len(truth)-1))
				}
			}
		}
	}
	var held share
	for range evaluations {
		for i, limits := range WinRates(len(truth), e.observed(random, abilities)) {
			held.add(limits.Low <= truth[i] && truth[i] <= limits.High)
		}
	}
	if held.rate() < 0.9 || held.rate() > 0.99 {
		t.Errorf("%.3f of %d limits hold the win rate", held.rate(), held.of)
	}
}

func evaluationsOf(name string) evaluations {
	for _, e := range simulations() {
		if e.name == name {
			return e
		}
	}
	return evaluations{}
}

// softly makes verdicts soft: what probabilities add to the wins is what the judge's own probabilities say, or those of a
// judge that is surer than it is right, or less sure.
func softly(e evaluations, observed []Observed, abilities []float64, sure float64) []Observed {
	for i := range observed {
		o := &observed[i]
		o.Soft = float64(o.FirstWins+o.SecondWins+o.Ties)*softShare(e, *o, abilities, sure) - float64(o.FirstWins) - float64(o.Ties)/2
	}
	return observed
}

// softShare returns the expected win of the candidate shown first, by a judge that is so sure.
func softShare(e evaluations, o Observed, abilities []float64, sure float64) float64 {
	p := e.judges[o.Judge].chances(sure*(abilities[o.First]-abilities[o.Second])+sure*jitter(o), 0)
	return p.win + p.tie/2
}

// jitter returns how an item moves the probabilities: the same for all verdicts on it.
func jitter(o Observed) float64 {
	low, high := min(o.First, o.Second), max(o.First, o.Second)
	random := rand.New(rand.NewPCG(uint64(o.Cluster), uint64(low)<<32|uint64(high)))
	by := 0.7 * random.NormFloat64()
	if o.First != low {
		return -by
	}
	return by
}

// TestWeightedWinRatesCover: limits hold what judges' probabilities are on all items about 95 times in 100, whether judges
// are as sure as they are right, surer, or less sure.
func TestWeightedWinRatesCover(t *testing.T) {
	t.Parallel()
	evaluations := 60
	if *full {
		evaluations = 1000
	}
	for _, row := range []struct {
		of   string
		sure float64
	}{
		{"8 candidates spaced by .05, 30 items", 1},
		{"8 candidates spaced by .05, 30 items", 4},
		{"8 candidates spaced by .05, 30 items", 0.3},
		{"6 candidates, 3 items", 1},
	} {
		e := evaluationsOf(row.of)
		random := rand.New(rand.NewPCG(3, 4))
		abilities := e.abilities(random)
		n := len(abilities)
		truth, many := make([]float64, n), int32(2000) // items from which the truth is computed
		for i := range n {
			for j := range n {
				for item := range many {
					for k := range e.judges {
						if i == j {
							continue
						}
						forward := Observed{Judge: int32(k), First: int32(i), Second: int32(j), Cluster: 1_000_000 + item}
						reverse := Observed{Judge: int32(k), First: int32(j), Second: int32(i), Cluster: 1_000_000 + item}
						p := softShare(e, forward, abilities, row.sure) + 1 - softShare(e, reverse, abilities, row.sure)
						truth[i] += p / float64(2*len(e.judges)*(n-1)*int(many))
					}
				}
			}
		}

		var held share
		width, hard := 0.0, 0.0
		for turn := range evaluations {
			observed := e.observed(random, abilities)
			for i := range observed {
				observed[i].Cluster += int32(turn * 1000) // other items
			}
			_, wide := WeightedWinRates(n, observed)
			_, limits := WeightedWinRates(n, softly(e, observed, abilities, row.sure))
			for i := range limits {
				held.add(limits[i].Low <= truth[i] && truth[i] <= limits[i].High)
				width, hard = width+limits[i].High-limits[i].Low, hard+wide[i].High-wide[i].Low
			}
		}
		if held.rate() < 0.9 || held.rate() > 0.99 {
			t.Errorf("%s, sure %g: %.3f of %d limits hold the weighted win rate", row.of, row.sure, held.rate(), held.of)
		}
		t.Logf("%s, sure %g: %.3f of %d limits hold it; they are %.2f times as wide as those of win rates", row.of, row.sure,
			held.rate(), held.of, width/hard)
	}
}

// TestWeightedWinRates: probabilities of both orders count the same, a verdict without them counts as it was said, and the
// rates of the two candidates of a pair add up to 1.
func TestWeightedWinRates(t *testing.T) {
	t.Parallel()
	observed := []Observed{
		{Cluster: 0, First: 0, Second: 1, FirstWins: 1, Soft: -0.25},  // 0.75 for 0
		{Cluster: 0, First: 1, Second: 0, SecondWins: 1, Soft: 0.125}, // 0.875 for 0
		{Cluster: 1, First: 0, Second: 1, Ties: 1},                    // 0.5
		{Cluster: 2, First: 1, Second: 0, FirstWins: 1},               // 0
	}
	rates, limits := WeightedWinRates(2, observed)
	if want := (0.75 + 0.875 + 0.5) / 4; math.Abs(rates[0]-want) > 1e-12 || math.Abs(rates[0]+rates[1]-1) > 1e-12 {
		t.Errorf("rates %v, want %g for the first", rates, want)
	}
	hard := WinRates(2, observed)
	if limits[0] == hard[0] || !(limits[0].Low < rates[0] && rates[0] < limits[0].High) {
		t.Errorf("limits %+v, of win rates %+v", limits[0], hard[0])
	}
}
