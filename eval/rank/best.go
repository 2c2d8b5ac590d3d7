package rank

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat/distuv"
)

// best sets Best from draws of the abilities.
func (u *Uncertainty) best(ctx context.Context, in *influences, seed uint64) error {
	w := u.newWinners(in)
	if err := parallel(ctx, u.Draws, func(k int) { w.take(k, rand.New(rand.NewPCG(seed, uint64(k)))) }); err != nil {
		return err
	}
	w.summarise()
	return nil
}

// parallel calls do for 0 to n−1 on all processors. It stops early and returns the cause if ctx ends.
func parallel(ctx context.Context, n int, do func(k int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			do(k)
			return nil
		})
	}
	return group.Wait()
}

// winners records which candidate is first in each draw.
type winners struct {
	*Uncertainty
	first [][]int32 // by component and draw; nil: it cannot be estimated
}

// trusted is the weight, in clusters, of the mean of all candidates' variances when it is combined with each
// candidate's own. A candidate's own variance is unreliable with few clusters. The method is that of the moderated
// statistics of Smyth 2004, "Linear models and empirical Bayes methods for assessing differential expression".
const trusted = 10

func (u *Uncertainty) newWinners(in *influences) *winners {
	w := &winners{Uncertainty: u}
	for c, part := range u.fit.Components {
		size, mean := float64(len(part.Candidates)), 0.0
		for _, i := range part.Candidates {
			mean += u.covariance.At(i, i) / u.fit.covariance.At(i, i) / size
		}
		variances, clusters := make([]float64, len(part.Candidates)), float64(in.members[c])
		for k, i := range part.Candidates {
			own, clustered := u.fit.covariance.At(i, i), u.covariance.At(i, i)
			pooled := (trusted*mean*own + (clusters-1)*clustered) / (trusted + clusters - 1)
			variances[k] = floor(pooled, own, u.parts[c].floored) * size / max(size-1, 1) // of uncentred errors
		}

		at := make([]float64, len(part.Candidates))
		for k, i := range part.Candidates {
			at[k] = u.fit.Abilities[i]
		}
		spread := spreadsOf(at, variances, u.parts[c].freedom)
		var first []int32
		if len(spread.cells) > 0 {
			first = make([]int32, u.Draws)
		}
		w.spread, w.first = append(w.spread, spread), append(w.first, first)
	}
	return w
}

// spreads is a distribution of how far the abilities of a component are apart, and of how large their errors are.
type spreads struct {
	at        []float64 // the estimate of each candidate
	variances []float64 // of its error
	cells     []scatter
	upTo      []float64 // cumulative sums of the probabilities of cells
}

type scatter struct {
	abilities, tail float64 // standard deviation of abilities; factor of errors
}

// spreadsOf weights each spread by how well it explains the estimates. Abilities are normal around 0; their errors
// are independent and as large as Student's t allows. The prior of the spread is a half-Cauchy distribution of scale
// 1 (Gelman 2006, "Prior distributions for variance parameters in hierarchical models").
func spreadsOf(at, variances []float64, freedom float64) spreads {
	const tails, steps, least, most = 15, 40, 0.005, 20.0
	s := spreads{at: at, variances: variances}
	if freedom == 0 || len(at) < 2 {
		return s
	}
	chi := distuv.ChiSquared{K: freedom}
	n := float64(len(at))
	var logs []float64
	greatest := math.Inf(-1)
	for t := range tails {
		tail := math.Sqrt(freedom / chi.Quantile((float64(t)+0.5)/tails))
		for k := range steps {
			tau := least * math.Pow(most/least, float64(k)/(steps-1))
			log := math.Log(tau / (1 + tau*tau)) // steps are equal in the logarithm
			for p, x := range at {
				total := tau*tau + variances[p]*tail*tail
				log -= (math.Log(total)*(n-1)/n + x*x/total) / 2
			}
			s.cells, logs = append(s.cells, scatter{tau, tail}), append(logs, log)
			greatest = max(greatest, log)
		}
	}

	sum := 0.0
	for _, log := range logs {
		sum += math.Exp(log - greatest)
		s.upTo = append(s.upTo, sum)
	}

	return s
}

func (s spreads) draw(random *rand.Rand) scatter {
	at := random.Float64() * s.upTo[len(s.upTo)-1]
	k, _ := slices.BinarySearch(s.upTo, at)
	return s.cells[min(k, len(s.cells)-1)]
}

// take makes the k-th draw of the abilities, and records the first candidate of each component.
func (w *winners) take(k int, random *rand.Rand) {
	for c, part := range w.fit.Components {
		if w.first[c] != nil {
			w.first[c][k] = int32(part.Candidates[w.spread[c].best(random)])
		}
	}
}

// best draws the abilities, and returns the position of the highest. Given the estimates, an ability is normal around a
// part of its estimate. The part is the variance of abilities divided by its sum with the variance of the error. See
// Efron and Morris 1975, "Data analysis using Stein's estimator and its generalizations".
func (s spreads) best(random *rand.Rand) (first int) {
	by := s.draw(random)
	lead, variance := math.Inf(-1), by.abilities*by.abilities
	for p, x := range s.at {
		error := s.variances[p] * by.tail * by.tail
		part := variance / (variance + error)
		if at := part*x + math.Sqrt(part*error)*random.NormFloat64(); at > lead {
			first, lead = p, at
		}
	}
	return first
}

// summarise sets Best to the shares of draws in which candidates are first. It is NaN if that cannot be told.
func (w *winners) summarise() {
	u := w.Uncertainty
	u.Best = make([]float64, len(u.fit.Abilities))
	for c, part := range u.fit.Components {
		for _, i := range w.first[c] {
			u.Best[i] += 1 / float64(u.Draws)
		}
		for _, i := range part.Candidates {
			if w.first[c] == nil || slices.ContainsFunc(part.Candidates, func(k int) bool { return u.fit.confounded(i, k) }) {
				u.Best[i] = math.NaN()
			}
		}
	}
}
