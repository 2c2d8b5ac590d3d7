package rank

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Layout places candidates in a table of two factors, such as prompts and models: Layout[r][c] is the candidate of row
// r and column c. It has at least two rows and two columns, and no candidate twice.
type Layout [][]int

// Effects says how far each of two factors moves candidates, and whether their effects add up. An estimate below is an
// ability, or a mean score.
type Effects struct {
	// Rows and Columns are the main effects: of each row the mean of its candidates' estimates, and of each column.
	Rows, Columns []Effect
	// RowRange and ColumnRange compare the highest row with the lowest one, and so for columns. Their limits hold at
	// once for all differences between two rows or two columns, so they allow for the choice of the two.
	RowRange, ColumnRange Range
	// More says which factor's levels differ more, at 95 %: 1 for rows, −1 for columns, 0 if that is not known. It
	// compares the mean square of the differences between two levels, without what chance adds to it. Its error is
	// that of the delta method, which is too large where neither factor has an effect.
	More int
	// Interaction is how far each candidate's estimate is from the sum of its row's and column's effects. Limits hold
	// for all candidates at once (Bonferroni). It is nil if Untested is Assumed or TooMany.
	Interaction [][]Deviation
	// P is the p-value of the hypothesis that there is no interaction; NaN if Untested says why there is none. The
	// statistic is that of Hotelling 1931, "The generalization of Student's ratio", with the covariance of the
	// estimates and one degree of freedom less than there are clusters. See Pustejovsky and Tipton 2018,
	// "Small-sample methods for cluster-robust variance estimation and hypothesis testing in fixed effects models".
	P        float64
	Untested Untested
}

// Effect is the main effect of a row or a column.
type Effect struct {
	At float64
	// Limits are those of At alone; NaN if no value varies.
	Limits
	// RankLow and RankHigh are bounds of the rank among the rows, or the columns. They hold for all rows and columns at
	// once: all differences between two rows or two columns share the chance of a false claim (Holm 1979).
	RankLow, RankHigh int
}

// Range is the difference between two levels of a factor.
type Range struct {
	Highest, Lowest int // positions
	Deviation
}

// Deviation is a difference with its limits.
type Deviation struct {
	By float64
	Limits
}

// Untested is the reason why an interaction cannot be tested.
type Untested uint8

// The reasons.
const (
	Tested      Untested = iota
	Assumed              // a prior holds abilities, or one cluster alone relates some candidates to the others
	FewClusters          // there are not more clusters than the interaction has degrees of freedom
	NoVariance           // clusters do not vary enough to estimate all variances
	TooMany              // there are more than MaxInteraction candidates
)

// MaxInteraction is the number of candidates up to which an interaction is computed, which takes time in n³.
const MaxInteraction = 500

// Effects returns the effects of a layout of the fit's candidates, in log-odds. ok is false if verdicts do not relate
// all of them to each other, or if their differences may be a preference for a position.
func (u *Uncertainty) Effects(of Layout) (effects Effects, ok bool) {
	first := of[0][0]
	for _, row := range of {
		for _, i := range row {
			if u.fit.component[i] != u.fit.component[first] || u.fit.confounded(i, first) {
				return Effects{}, false
			}
		}
	}
	return u.estimates(u.fit.component[first]).effects(of), true
}

// Scores holds a rater's scores of a candidate within a cluster.
type Scores struct {
	Candidate, Cluster int
	Rater              int // such as a judge on a criterion
	Sum                float64
	Count              int
}

// MeanEffects returns the effects of a layout of candidates 0 to n−1 with scores between least and most: of mean
// scores, with limits as those of MeanOf. ok is false if a candidate of the layout has no scores, or if there are fewer
// than two clusters.
func MeanEffects(of Layout, n int, scores []Scores, least, most float64) (effects Effects, ok bool) {
	sums, counts, clusters := make([]float64, n), make([]float64, n), map[int][]Scores{}
	met := make([]map[int]bool, n)
	for _, s := range scores {
		if met[s.Candidate] == nil {
			met[s.Candidate] = map[int]bool{}
		}
		met[s.Candidate][s.Cluster] = true
		sums[s.Candidate] += s.Sum
		counts[s.Candidate] += float64(s.Count)
		clusters[s.Cluster] = append(clusters[s.Cluster], s)
	}

	lacks := func(i int) bool { return counts[i] == 0 }
	if len(clusters) < 2 || slices.ContainsFunc(of, func(row []int) bool { return slices.ContainsFunc(row, lacks) }) {
		return Effects{}, false
	}
	e := estimates{at: make([]float64, n), own: mat.NewSymDense(n, nil), freedom: float64(len(clusters) - 1)}
	for i := range n {
		if counts[i] > 0 {
			e.at[i] = sums[i] / counts[i]
			e.own.SetSym(i, i, (e.at[i]-least)*(most-e.at[i])/float64(len(met[i])))
		}
	}

	spread := mat.NewSymDense(n, nil)
	residual := make([]float64, n)
	for _, key := range slices.Sorted(maps.Keys(clusters)) {
		clear(residual)
		for _, s := range clusters[key] {
			residual[s.Candidate] += (s.Sum - e.at[s.Candidate]*float64(s.Count)) / counts[s.Candidate]
		}
		spread.SymRankOne(spread, float64(len(clusters))/e.freedom, mat.NewVecDense(n, residual))
	}
	e.clustered = spread

	effects = e.effects(of)
	for _, levels := range [][]Effect{effects.Rows, effects.Columns} {
		for k := range levels {
			levels[k].Low, levels[k].High = max(levels[k].Low, least), min(levels[k].High, most)
		}
	}
	return effects, true
}

// weighted is a candidate's share of a linear combination.
type weighted struct {
	candidate int
	weight    float64
}

// estimates are one number for each candidate, with their joint errors.
type estimates struct {
	at             []float64
	own, clustered *mat.SymDense // covariances: the model's, and from clusters
	floored        bool          // no error is smaller than the model's
	loose          *loose        // nil: no priors
	freedom        float64       // 0: only the model's errors are known
}

// estimates returns the abilities of a component. Those of other components are meaningless in it.
func (u *Uncertainty) estimates(c int) estimates {
	one := &u.parts[c]
	return estimates{u.fit.Abilities, u.fit.covariance, u.covariance, one.floored, u.loose, one.freedom}
}

// quantile returns the number of standard errors that an estimate exceeds with that chance, in either direction.
func (e estimates) quantile(chance float64) float64 {
	if e.freedom == 0 {
		return distuv.UnitNormal.Quantile(1 - chance/2)
	}
	return student(e.freedom).Quantile(1 - chance/2)
}

// combined returns a linear combination with limits at that number of standard errors.
func (e estimates) combined(of []weighted, times float64) (x float64, limits Limits) {
	se := func(own, clustered *mat.SymDense) float64 {
		variance := quadratic(own, of)
		if e.freedom > 0 {
			variance = floor(quadratic(clustered, of), variance, e.floored)
		}
		return math.Sqrt(variance)
	}
	x = total(e.at, of)
	limits = around(x, se(e.own, e.clustered), times)
	if e.loose != nil {
		limits = limits.moved(x, total(e.loose.at, of), se(e.loose.own, e.loose.clustered), times)
	}
	return x, limits
}

func total(at []float64, of []weighted) float64 {
	sum := 0.0
	for _, p := range of {
		sum += p.weight * at[p.candidate]
	}
	return sum
}

// quadratic returns the variance of a linear combination.
func quadratic(covariance *mat.SymDense, of []weighted) float64 {
	sum := 0.0
	for _, p := range of {
		sum += p.weight * p.weight * covariance.At(p.candidate, p.candidate)
	}
	for a, p := range of {
		for _, q := range of[:a] {
			sum += 2 * p.weight * q.weight * covariance.At(p.candidate, q.candidate)
		}
	}
	return max(sum, 0)
}

func (e estimates) effects(of Layout) Effects {
	rows, columns := of.levels()
	out := Effects{Rows: e.main(rows), Columns: e.main(columns), P: math.NaN()}
	differences := append(differencesOf(rows, 0), differencesOf(columns, 1)...)
	e.claim(differences, [2][]Effect{out.Rows, out.Columns})
	out.RowRange = e.widest(rows, out.Rows, len(differences))
	out.ColumnRange = e.widest(columns, out.Columns, len(differences))
	out.More = e.more(rows, columns)
	out.Untested = e.interaction(of, &out)
	return out
}

// main returns the main effects of a factor's levels.
func (e estimates) main(levels [][]weighted) []Effect {
	out := make([]Effect, len(levels))
	for k, one := range levels {
		out[k].At, out[k].Limits = e.combined(one, e.quantile(level))
		if out[k].SE == 0 {
			out[k].Low, out[k].High = math.NaN(), math.NaN()
		}
	}
	return out
}

// levels returns the mean of each row and of each column.
func (of Layout) levels() (rows, columns [][]weighted) {
	columns = make([][]weighted, len(of[0]))
	for _, row := range of {
		mean := make([]weighted, len(row))
		for c, i := range row {
			mean[c] = weighted{i, 1 / float64(len(row))}
			columns[c] = append(columns[c], weighted{i, 1 / float64(len(of))})
		}
		rows = append(rows, mean)
	}
	return rows, columns
}

// levelPair is a difference between two levels of a factor.
type levelPair struct {
	factor, high, low int
	of                []weighted
	claimed           bool
}

func differencesOf(levels [][]weighted, factor int) (all []levelPair) {
	for a := range levels {
		for b := range a {
			all = append(all, levelPair{factor: factor, high: a, low: b, of: minus(levels[a], levels[b])})
		}
	}
	return all
}

// minus returns one combination without another. Those of two levels have no candidate in common.
func minus(a, b []weighted) []weighted {
	out := slices.Clone(a)
	for _, p := range b {
		out = append(out, weighted{p.candidate, -p.weight})
	}
	return out
}

// claim sets the bounds of the ranks of both factors' levels, as stepDown does for candidates.
func (e estimates) claim(all []levelPair, factors [2][]Effect) {
	for _, levels := range factors {
		for k := range levels {
			levels[k].RankLow, levels[k].RankHigh = 1, len(levels)
		}
	}

	for claimed, before := 0, -1; claimed > before; {
		before = claimed
		times := e.quantile(level / float64(max(len(all)-claimed, 1)))
		for k := range all {
			d := &all[k]
			x, limits := e.combined(d.of, times)
			if d.claimed || limits.SE == 0 || limits.Low <= 0 && limits.High >= 0 {
				continue
			}
			better, worse := d.high, d.low
			if x < 0 {
				better, worse = worse, better
			}
			d.claimed = true
			claimed++
			factors[d.factor][better].RankHigh--
			factors[d.factor][worse].RankLow++
		}
	}
}

// widest compares the highest and the lowest level of a factor, of as many differences in all.
func (e estimates) widest(levels [][]weighted, effects []Effect, differences int) (out Range) {
	for k := range effects {
		if effects[k].At > effects[out.Highest].At {
			out.Highest = k
		}
		if effects[k].At <= effects[out.Lowest].At {
			out.Lowest = k
		}
	}
	if out.Highest == out.Lowest { // all are equal
		out.Highest, out.Lowest = 0, 1
	}
	out.By, out.Limits = e.combined(minus(levels[out.Highest], levels[out.Lowest]), e.quantile(level/float64(differences)))
	return out
}

// more returns Effects.More. Half of the mean square of the differences between two of n levels is Σ(x−x̄)²/(n−1). The
// difference D of two such sums is a quadratic form x'Bx of the levels' effects, whose expectation exceeds the true one
// by tr(BV), and whose variance is about 4·x'BVBx.
func (e estimates) more(rows, columns [][]weighted) int {
	if e.freedom == 0 || e.floored || e.loose != nil {
		return 0
	}
	levels := slices.Concat(rows, columns)
	covariance := e.covarianceOf(levels)
	slope, excess := make([]float64, len(levels)), 0.0
	for _, factor := range [...]struct {
		start, end int
		weight     float64
	}{{0, len(rows), 1}, {len(rows), len(levels), -1}} {
		n, mean, shared := float64(factor.end-factor.start), 0.0, 0.0
		for a := factor.start; a < factor.end; a++ {
			mean += total(e.at, levels[a]) / n
			for b := factor.start; b < factor.end; b++ {
				shared += covariance.At(a, b) / n
			}
		}
		weight := factor.weight / (n - 1)
		for a := factor.start; a < factor.end; a++ {
			apart := total(e.at, levels[a]) - mean
			slope[a] = 2 * weight * apart
			excess += weight * (apart*apart - covariance.At(a, a))
		}
		excess += weight * shared
	}

	gradient := mat.NewVecDense(len(slope), slope)
	times, variance := e.quantile(level), mat.Inner(gradient, covariance, gradient)
	if variance <= 0 || excess*excess <= times*times*variance {
		return 0
	}
	return cmp.Compare(excess, 0)
}

// covarianceOf returns the covariance of combinations, from clusters.
func (e estimates) covarianceOf(all [][]weighted) *mat.SymDense {
	out := mat.NewSymDense(len(all), nil)
	for a, one := range all {
		for b, other := range all[:a+1] {
			sum := 0.0
			for _, p := range one {
				for _, q := range other {
					sum += p.weight * q.weight * e.clustered.At(p.candidate, q.candidate)
				}
			}
			out.SetSym(a, b, sum)
		}
	}
	return out
}

// interaction sets the interaction of a layout, and the p-value of the hypothesis that there is none.
func (e estimates) interaction(of Layout, out *Effects) Untested {
	rows, columns := len(of), len(of[0])
	switch {
	case rows*columns > MaxInteraction:
		return TooMany
	case e.floored || e.loose != nil || e.freedom == 0:
		return Assumed
	}
	different := func(levels int) float64 { // with two levels, one deviation is that of the other with another sign
		if levels == 2 {
			return 1
		}
		return float64(levels)
	}

	times := e.quantile(level / (different(rows) * different(columns)))
	for r := range rows {
		line := make([]Deviation, columns)
		for c := range columns {
			line[c].By, line[c].Limits = e.combined(of.deviation(r, c), times)
		}
		out.Interaction = append(out.Interaction, line)
	}

	free := of.free()
	q := float64(len(free))
	if e.freedom-q+1 < 1 {
		return FewClusters
	}
	x, covariance := mat.NewVecDense(len(free), nil), e.covarianceOf(free)
	for k, one := range free {
		x.SetVec(k, total(e.at, one))
		if covariance.At(k, k) <= nothing*quadratic(e.own, one) {
			return NoVariance
		}
	}

	const singular = 1e9
	var factor mat.Cholesky
	var solved mat.VecDense
	if !factor.Factorize(covariance) || factor.Cond() > singular || factor.SolveVecTo(&solved, x) != nil {
		return NoVariance
	}
	statistic := mat.Dot(x, &solved) * (e.freedom - q + 1) / (e.freedom * q)
	out.P = distuv.F{D1: q, D2: e.freedom - q + 1}.Survival(statistic)
	return Tested
}

// deviation returns how far the candidate of a row and a column is from what their means add up to.
func (of Layout) deviation(row, column int) (out []weighted) {
	rows, columns := float64(len(of)), float64(len(of[0]))
	for r, line := range of {
		for c, i := range line {
			weight := 1 / (rows * columns)
			if r == row {
				weight -= 1 / columns
			}
			if c == column {
				weight -= 1 / rows
			}
			if r == row && c == column {
				weight++
			}
			out = append(out, weighted{i, weight})
		}
	}
	return out
}

// free returns independent differences of differences, which are all 0 exactly if there is no interaction.
func (of Layout) free() (all [][]weighted) {
	last, end := of[len(of)-1], len(of[0])-1
	for _, line := range of[:len(of)-1] {
		for c, i := range line[:end] {
			all = append(all, []weighted{{i, 1}, {line[end], -1}, {last[c], -1}, {last[end], 1}})
		}
	}
	return all
}
