package rank

import "context"

// Missing is a verdict that was requested and is missing, for example because its run failed.
type Missing struct {
	Cluster, Judge, First, Second int32
	Longer                        float64
}

// Bounds hold the possible ranks of a candidate for all outcomes of its missing verdicts.
type Bounds struct {
	// Worst and Best are its ranks if all of its missing verdicts were losses, or wins.
	Worst, Best int
	// Low and High are the limits of its rank at 95 %, for all candidates at once: Low with all wins, High with all
	// losses.
	Low, High int
}

// boundsFlipWork is small, because each candidate needs two more fits with tests.
const boundsFlipWork = mostFlipWork / 20

// BoundsOf computes the bounds for candidate i by two further fits. These are worst-case bounds as of Horowitz and
// Manski 2000, "Nonparametric analysis of randomized experiments with missing covariate and outcome data". It leaves
// out missing verdicts on two other candidates. The other arguments are those of FromObserved.
func BoundsOf(ctx context.Context, i, n, judges int, observed []Observed, missing []Missing, options Options) (Bounds, error) {
	var out Bounds
	for _, wins := range []bool{false, true} {
		all := append([]Observed(nil), observed...)
		for _, m := range missing {
			if int(m.First) != i && int(m.Second) != i {
				continue
			}
			one := Observed{Cluster: m.Cluster, Judge: m.Judge, First: m.First, Second: m.Second, Longer: m.Longer}
			if (int(m.First) == i) == wins {
				one.FirstWins = 1
			} else {
				one.SecondWins = 1
			}
			all = append(all, one)
		}
		fit, err := FromObserved(n, judges, all, options)
		if err != nil {
			return out, err
		}
		u, err := fit.Uncertainty(ctx, all, Drawing{Draws: 1, flipWork: boundsFlipWork})
		if err != nil {
			return out, err
		}
		if wins {
			out.Best, out.Low = fit.rank(i), u.RankLow[i]
		} else {
			out.Worst, out.High = fit.rank(i), u.RankHigh[i]
		}
	}

	return out, nil
}

// rank returns the candidate's rank, as Standings does.
func (f *Fit) rank(i int) int {
	rank := 1
	for _, j := range f.Components[f.component[i]].Candidates {
		if f.rounded(j) > f.rounded(i) {
			rank++
		}
	}
	return rank
}
