package rank

import (
	"cmp"
	"math"
	"slices"
)

// MeanOf returns a mean with limits at 95 %. sums and counts hold the sum and the number of the values of each
// cluster; the values are between least and most. Values of a cluster may depend on each other in any way. Limits use
// Student's t for a ratio of sums (Cochran 1977, "Sampling Techniques", §6.3), and stay between least and most.
//
// If clusters do not differ at all, the limits are those of as many single values. For a mean at an end these are the
// limits of Clopper and Pearson 1934. Limits are NaN with fewer than two clusters.
func MeanOf(sums, counts []float64, least, most float64) (mean float64, limits Limits) {
	total := 0.0
	for k, count := range counts {
		mean += sums[k]
		total += count
	}

	mean /= total
	clusters := float64(len(counts))
	if clusters < 2 {
		return mean, Limits{math.NaN(), math.NaN(), math.NaN()}
	}
	variance := 0.0
	for k, count := range counts {
		residual := sums[k] - mean*count
		variance += residual * residual
	}

	variance *= clusters / (clusters - 1) / (total * total)
	if greatest := (mean - least) * (most - mean) / clusters; variance < nothing*greatest {
		variance = greatest
	}
	limits.SE = math.Sqrt(variance)
	times := student(clusters - 1).Quantile(1 - level/2)
	limits.Low, limits.High = max(mean-times*limits.SE, least), min(mean+times*limits.SE, most)
	if sure := math.Pow(level/2, 1/clusters); variance <= 0 {
		switch mean {
		case most:
			limits.Low = least + (most-least)*sure
		case least:
			limits.High = most - (most-least)*sure
		}
	}

	return mean, limits
}

// WinRates returns the limits of each candidate's Record.WinRate, computed by cluster. They are NaN with fewer than
// two clusters.
func WinRates(n int, observed []Observed) []Limits {
	observed = slices.Clone(observed)
	slices.SortFunc(observed, func(a, b Observed) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.compare(b)) })
	sums, counts, last := make([][]float64, n), make([][]float64, n), make([]int32, n)
	add := func(i, cluster int32, wins, ties, games float64) {
		if len(sums[i]) == 0 || last[i] != cluster {
			sums[i], counts[i], last[i] = append(sums[i], 0), append(counts[i], 0), cluster
		}
		k := len(sums[i]) - 1
		sums[i][k] += wins + ties/2
		counts[i][k] += games
	}

	for _, o := range observed {
		ties := float64(o.Ties + o.Identical)
		games := float64(o.FirstWins+o.SecondWins) + ties
		if games == 0 {
			continue
		}
		add(o.First, o.Cluster, float64(o.FirstWins), ties, games)
		add(o.Second, o.Cluster, float64(o.SecondWins), ties, games)
	}

	limits := make([]Limits, n)
	for i := range limits {
		_, limits[i] = MeanOf(sums[i], counts[i], 0, 1)
	}
	return limits
}
