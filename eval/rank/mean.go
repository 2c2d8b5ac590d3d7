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
// Where hardly any cluster differs from the others, the next one may all the same. In 1 of 40 cases, none of n clusters shows
// what a share of 1 − .025^(1/n) of all clusters is like. So limits reach at least as far as if so many had the least or
// the most value. For a mean at an end these are the limits of Clopper and Pearson 1934. Limits are NaN with fewer than two
// clusters.
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
	times := student(clusters - 1).Quantile(1 - level/2)
	limits.SE = math.Sqrt(variance)
	limits.Low, limits.High = max(mean-times*limits.SE, least), min(mean+times*limits.SE, most)
	if hardlyDiffer(sums, counts, most-least) {
		unseen := 1 - math.Pow(level/2, 1/clusters)
		limits.Low, limits.High = min(limits.Low, mean-unseen*(mean-least)), max(limits.High, mean+unseen*(most-mean))
		limits.SE = max(limits.SE, (limits.High-limits.Low)/(2*times))
	}

	return mean, limits
}

// hardlyDiffer reports whether the means of nearly all clusters are the same: those of fewer clusters than can decide
// something differ (fewestDecided), and at most a quarter.
func hardlyDiffer(sums, counts []float64, span float64) bool {
	means := make([]float64, len(sums))
	for k, count := range counts {
		means[k] = sums[k] / count
	}
	slices.Sort(means)
	usual, others := means[len(means)/2], 0
	for _, mean := range means {
		if math.Abs(mean-usual) > nothing*span {
			others++
		}
	}
	return others < fewestDecided && 4*others <= len(means)
}

// WinRates returns the limits of each candidate's Record.WinRate, computed by cluster. They are NaN with fewer than
// two clusters.
func WinRates(n int, observed []Observed) []Limits {
	_, limits := ratesOf(n, observed, func(Observed) float64 { return 0 })
	return limits
}

// WeightedWinRates returns each candidate's mean probability of winning by soft verdicts, with limits as WinRates has them.
// A tie is half a win, and a verdict without probabilities counts as it was said. Each verdict weighs the same, whichever
// text was shown first. This is the weighted win rate of alpaca_eval (Dubois and others 2024, "Length-controlled
// AlpacaEval"), there against one candidate. It is NaN without verdicts.
func WeightedWinRates(n int, observed []Observed) (rates []float64, limits []Limits) {
	return ratesOf(n, observed, func(o Observed) float64 { return o.Soft })
}

// ratesOf returns win rates, where soft is what probabilities add to the wins of the candidate shown first.
func ratesOf(n int, observed []Observed, soft func(Observed) float64) (rates []float64, limits []Limits) {
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
		add(o.First, o.Cluster, float64(o.FirstWins)+soft(o), ties, games)
		add(o.Second, o.Cluster, float64(o.SecondWins)-soft(o), ties, games)
	}

	rates, limits = make([]float64, n), make([]Limits, n)
	for i := range limits {
		rates[i], limits[i] = MeanOf(sums[i], counts[i], 0, 1)
	}
	return rates, limits
}
