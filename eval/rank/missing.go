package rank

import "context"

// Missing is a verdict that was asked for and not given, such as of a failed run.
type Missing struct {
	Cluster, Judge, First, Second int32
	Longer                        float64
}

// Bounds are what could be said of a candidate's rank whatever the missing verdicts were.
type Bounds struct {
	// Worst and Best are its rank if all of its missing verdicts were losses, or wins.
	Worst, Best int
	// Low and High bound its rank at 95 %, together with those of all others, in the best
	// and in the worst of these cases.
	Low, High int
}

// boundsFlipWork is little, because two fits are tested for each candidate.
const boundsFlipWork = mostFlipWork / 20

// BoundsOf finds the bounds for candidate i by two further fits (worst-case bounds as of
// Horowitz and Manski 2000, "Nonparametric analysis of randomized experiments with missing
// covariate and outcome data"). Missing verdicts on two other candidates are left out.
// The other arguments are those of FromObserved.
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

// rank is that of Standings.
func (f *Fit) rank(i int) int {
	rank := 1
	for _, j := range f.Components[f.component[i]].Candidates {
		if f.rounded(j) > f.rounded(i) {
			rank++
		}
	}
	return rank
}
