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

// parallel does n things on all processors, unless ctx ends.
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

// winners collects who is first in each draw.
type winners struct {
	*Uncertainty
	first [][]int32 // by component and draw; nil without spreads
}

// trusted is how many clusters the mean of all candidates' variances counts for beside
// each candidate's own, which few clusters tell badly (as in the moderated statistics of
// Smyth 2004, "Linear models and empirical Bayes methods for assessing differential
// expression").
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
			variances[k] = floor(pooled, own, u.parts[c].floored) * size / max(size-1, 1) // of errors with a mean other than 0
		}
		spread := w.spreadsOf(part.Candidates, variances, u.parts[c].freedom)
		var first []int32
		if len(spread.cells) > 0 {
			first = make([]int32, u.Draws)
		}
		w.spread, w.first = append(w.spread, spread), append(w.first, first)
	}
	return w
}

// spreads are how far the abilities of a component may be apart, and how large their
// errors may be, with the probability of each.
type spreads struct {
	variances []float64 // of each candidate's error
	cells     []scatter
	upTo      []float64 // sum of the probabilities of the cells up to each
}

type scatter struct {
	abilities, tail float64 // standard deviation of abilities; the factor of errors
}

// spreadsOf weighs each spread by how well it explains the estimates: abilities are
// normal around 0, their errors are independent and as large as Student's t allows. The
// prior of the spread is half of a Cauchy distribution of scale 1 (Gelman 2006, "Prior
// distributions for variance parameters in hierarchical models").
func (w *winners) spreadsOf(candidates []int, variances []float64, freedom float64) spreads {
	const tails, steps, least, most = 15, 40, 0.005, 20.0
	s := spreads{variances: variances}
	if freedom == 0 || len(candidates) < 2 {
		return s
	}
	chi := distuv.ChiSquared{K: freedom}
	n := float64(len(candidates))
	var logs []float64
	greatest := math.Inf(-1)
	for t := range tails {
		tail := math.Sqrt(freedom / chi.Quantile((float64(t)+0.5)/tails))
		for k := range steps {
			tau := least * math.Pow(most/least, float64(k)/(steps-1))
			log := math.Log(tau / (1 + tau*tau)) // steps are even in the logarithm
			for p, i := range candidates {
				total, x := tau*tau+variances[p]*tail*tail, w.fit.Abilities[i]
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

// take draws abilities for the k-th time: given the estimates, each is normal around the
// part of its estimate that the spread of abilities leaves beside the error (Efron and
// Morris 1975, "Data analysis using Stein's estimator and its generalizations").
func (w *winners) take(k int, random *rand.Rand) {
	for c, part := range w.fit.Components {
		if w.first[c] == nil {
			continue
		}
		by := w.spread[c].draw(random)
		lead, variance := math.Inf(-1), by.abilities*by.abilities
		for p, i := range part.Candidates {
			error := w.spread[c].variances[p] * by.tail * by.tail
			part := variance / (variance + error)
			if at := part*w.fit.Abilities[i] + math.Sqrt(part*error)*random.NormFloat64(); at > lead {
				w.first[c][k], lead = int32(i), at
			}
		}
	}
}

// summarise sets Best.
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
