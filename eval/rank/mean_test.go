package rank

import (
	"math"
	"math/rand/v2"
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
