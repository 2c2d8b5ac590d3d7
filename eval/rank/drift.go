package rank

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/eval"
)

// Bounds of the tests of drift.
const (
	// DriftAlarm is how often an evaluation at most calls some judge changed although none is.
	DriftAlarm = 0.01
	// DriftSize is the share of other verdicts below which a judge counts as the same.
	DriftSize = 0.2
	// driftTimes is how many earlier times a judge is compared with, the latest ones.
	driftTimes = 10
)

// DriftState says whether a judge changed.
type DriftState string

// The states. DriftUnknown means that the verdicts show neither.
const (
	DriftUnknown DriftState = "unknown"
	DriftSteady  DriftState = "steady"  // fewer than DriftSize of its verdicts are others, at 95 %
	DriftChanged DriftState = "changed" // at DriftAlarm
)

// Drift compares what a judge says about anchors with what it said at earlier times.
type Drift struct {
	Times   int // earlier ones
	Anchors int // that it judged in both orders now and at two earlier times or more
	// Now is the share of verdicts that differ from those of an earlier time, and Usual the share that differ between two
	// earlier times. Upper is the limit of Now − Usual at 95 %, on one side. NaN with fewer than two earlier times.
	Now, Usual, Upper float64
	// P is the probability that the verdicts of one of the times differ so much from the others if all times are alike, and
	// Adjusted the same for all judges of the time together. NaN: it cannot be known.
	P, Adjusted float64
	State       DriftState
}

// Drifts tests at each time, oldest first, which of the judges have changed. said has the letters of eval.AnchorAnswer, by
// time and judge; empty: the judge was not asked. Each time is compared with those since the judge's last change.
//
// The test is exact: if a judge is as before, each of the times is equally likely to be the one that differs, for each anchor
// (Pitman 1937, "Significance tests which may be applied to samples from any populations"). Both orders of an anchor stay
// together. Several judges are tested by the method of Holm 1979 ("A simple sequentially rejective multiple test procedure").
func Drifts(said [][]string) [][]Drift {
	all := make([][]Drift, len(said))
	var since []int
	for t, now := range said {
		for len(since) < len(now) {
			since = append(since, 0)
		}
		tested := make([]float64, len(now))
		for k, letters := range now {
			var times []string
			for _, before := range said[since[k]:t] {
				if letters != "" && k < len(before) && len(before[k]) == len(letters) {
					times = append(times, before[k])
				}
			}
			times = append(times[max(0, len(times)-driftTimes):], letters)
			all[t] = append(all[t], driftOf(times))
			tested[k] = all[t][k].P
		}

		for k, p := range Holm(tested) {
			d := &all[t][k]
			switch d.Adjusted = p; {
			case p <= DriftAlarm:
				d.State, since[k] = DriftChanged, t
			case d.Upper < DriftSize:
				d.State = DriftSteady
			}
		}
	}
	return all
}

// driftOf compares the verdicts of the last time with those of the times before. All times have the same anchors.
func driftOf(times []string) Drift {
	said := len(times) - 1
	d := Drift{Times: said, Now: math.NaN(), Usual: math.NaN(), Upper: math.NaN(), P: math.NaN(), State: DriftUnknown}
	observed, now, usual := 0, 0.0, 0.0
	sums := []float64{1} // probabilities of the sum over anchors
	for at := 0; at+1 < len(times[said]); at += 2 {
		var verdicts []string
		for _, letters := range times {
			if pair := letters[at : at+2]; !strings.ContainsRune(pair, eval.SaidNothing) {
				verdicts = append(verdicts, pair)
			}
		}
		if len(verdicts) < 3 || strings.ContainsRune(times[said][at:at+2], eval.SaidNothing) {
			continue
		}

		others := unlike(verdicts)
		last := others[len(others)-1]
		observed += last
		sums = convolved(sums, others)
		earlier, total := len(verdicts)-1, 0
		for _, n := range others {
			total += n
		}
		own := float64(last) / float64(2*earlier)
		among := float64(total-2*last) / float64(2*earlier*(earlier-1))
		now, usual = now+own, usual+among
		d.Anchors++
	}

	if d.Anchors == 0 {
		return d
	}
	d.Now, d.Usual = now/float64(d.Anchors), usual/float64(d.Anchors)
	d.P = 0
	for sum := len(sums) - 1; sum >= observed; sum-- {
		d.P += sums[sum]
	}
	d.P, d.Upper = min(d.P, 1), upperShare(now, float64(d.Anchors))-d.Usual
	return d
}

// unlike returns of each time how many of its verdicts on an anchor differ from those of the other times.
func unlike(verdicts []string) []int {
	others := make([]int, len(verdicts))
	for i, one := range verdicts {
		for _, other := range verdicts {
			for order := range 2 {
				if one[order] != other[order] {
					others[i]++
				}
			}
		}
	}
	return others
}

// convolved returns the probabilities of a sum with one more term, which has each of some values with the same probability.
func convolved(sums []float64, values []int) []float64 {
	share := 1 / float64(len(values))
	most := slices.Max(values)
	if most == slices.Min(values) { // also if there is no difference
		return append(make([]float64, most), sums...)
	}
	out := make([]float64, len(sums)+most)
	for _, value := range values {
		for sum, p := range sums {
			out[sum+value] += p * share
		}
	}
	return out
}

// upperShare returns the upper limit at 95 %, on one side, of the mean of n values between 0 and 1: the limit of Clopper and
// Pearson 1934, which holds for values of 0 and 1, whose mean varies most.
func upperShare(sum, n float64) float64 {
	if sum >= n {
		return 1
	}
	return distuv.Beta{Alpha: sum + 1, Beta: n - sum}.Quantile(0.95)
}

// Holm returns p-values adjusted so that the probability that any true hypothesis is rejected stays below a level, by the
// method of Holm 1979. Those that are NaN stay so, and do not count.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i, one := range p {
		if !math.IsNaN(one) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if p[a] < p[b] {
			return -1
		}
		return 1
	})
	least := 0.0
	for k, i := range order {
		least = max(least, min(1, p[i]*float64(len(order)-k)))
		out[i] = least
	}
	return out
}
