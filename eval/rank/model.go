package rank

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/mat"
)

// row holds one judge's verdicts on one ordered pair.
type row struct {
	first, second, judge int
	wins, losses, ties   float64 // for first; halves if ties count so
	longer               float64 // Observed.Longer, divided by the model's scale
}

func (r row) total() float64 { return r.wins + r.losses + r.ties }

// compare orders rows by judge, pair and length, which is the order of a model.
func (r row) compare(s row) int {
	return cmp.Or(
		cmp.Compare(r.judge, s.judge), cmp.Compare(r.first, s.first), cmp.Compare(r.second, s.second),
		cmp.Compare(r.longer, s.longer),
	)
}

// model is the likelihood of all rows as a function of one vector. The vector holds an ability for every candidate,
// the judges' order effects, their logarithms of ν, the effect γ of length, and the judges' scales.
//
// With d = s_judge·(λ_first − λ_second) + δ_judge + γ·longer and θ = ln ν_judge, the three outcomes have weights
// exp(d/2), exp(−d/2) and exp(θ). Without θ this is Bradley–Terry. Without Options.Scales every s is 1.
type model struct {
	rows       []row
	candidates int
	order, tie []int   // position of a judge's parameter in the vector; −1: none
	length     int     // position of the effect of length; −1: none
	scales     []int   // position of a judge's s − 1; −1: s is 1
	scale      float64 // divisor of differences in length
	size       int
	ridge      []float64 // by parameter: precision of a normal prior at 0
	component  []int     // by candidate
	sizes      []int     // by component
	heaviest   float64   // weight of a verdict; 0: all have the same
	degree     float64   // what a win of the first degree counts as; 1 without degrees
}

// chances holds the probabilities of a row's outcomes.
type chances struct {
	win, loss, tie float64
}

// at prepares the model's probabilities for parameters x.
func (m *model) at(x []float64) point {
	p := point{model: m, x: x, nu: make([]float64, len(m.tie))}
	for k, position := range m.tie {
		if position >= 0 {
			p.nu[k] = math.Exp(x[position])
		}
	}
	return p
}

// point is a model with values for its parameters.
type point struct {
	*model
	x  []float64
	nu []float64 // by judge; 0 without ties
}

func (p point) discrimination(judge int) float64 {
	if k := p.scales[judge]; k >= 0 {
		return 1 + p.x[k]
	}
	return 1
}

// half returns d/2 (see model).
func (p point) half(r *row) float64 {
	d := p.discrimination(r.judge) * (p.x[r.first] - p.x[r.second])
	if k := p.order[r.judge]; k >= 0 {
		d += p.x[k]
	}
	if p.length >= 0 {
		d += p.x[p.length] * r.longer
	}
	return d / 2
}

// chances returns the probabilities of a row's outcomes. It divides the weights by the larger of the two decided
// ones, so that one exponential is enough and none overflows.
func (p point) chances(r *row) chances {
	half := p.half(r)
	small := math.Exp(-math.Abs(half))
	win, loss, tie := 1.0, small*small, small*p.nu[r.judge]
	if half < 0 {
		win, loss = loss, win
	}
	sum := win + loss + tie
	return chances{win / sum, loss / sum, tie / sum}
}

// logLikelihood returns the log-likelihood without the constant binomial coefficients.
func (m *model) logLikelihood(x []float64) float64 {
	var sum float64
	p := m.at(x)
	for i := range m.rows {
		r := &m.rows[i]
		half := p.half(r)
		size := math.Abs(half)
		small := math.Exp(-size)
		sum += (r.wins-r.losses)*half - r.total()*(size+math.Log(1+small*small+small*p.nu[r.judge]))
		if l := m.tie[r.judge]; l >= 0 {
			sum += r.ties * x[l]
		}
	}
	return sum
}

// objective returns the log-likelihood plus the logarithm of the priors, without constants.
func (m *model) objective(x []float64) float64 {
	sum := m.logLikelihood(x)
	for k, precision := range m.ridge {
		sum -= precision / 2 * x[k] * x[k]
	}
	return sum
}

// term is a parameter of d with the derivative of d by it.
type term struct {
	at    int
	slope float64
}

// terms returns the terms of a row. It reuses the slice all, and omits parameters that the model does not have.
func (p point) terms(r *row, all []term) []term {
	s := p.discrimination(r.judge)
	all = append(all[:0], term{r.first, s}, term{r.second, -s})
	if k := p.order[r.judge]; k >= 0 {
		all = append(all, term{k, 1})
	}
	if p.length >= 0 {
		all = append(all, term{p.length, r.longer})
	}
	if k := p.scales[r.judge]; k >= 0 {
		all = append(all, term{k, p.x[r.first] - p.x[r.second]})
	}
	return all
}

// derivatives sets gradient to that of the objective, and the upper triangle of information to its expected negative
// second derivatives. The latter do not determine the level of a component's abilities, so a term is added that holds
// their mean at 0. pin says how strongly for each component; centred removes the term again.
func (m *model) derivatives(x, gradient []float64, information *mat.SymDense) (pin []float64) {
	raw := information.RawSymmetric()
	clear(raw.Data)
	clear(gradient)
	at := func(i, j int) *float64 { return &raw.Data[min(i, j)*raw.Stride+max(i, j)] }

	here := m.at(x)
	var terms []term
	for i := range m.rows {
		r := &m.rows[i]
		p, n := here.chances(r), r.total()
		slope := p.slope(r)
		curve := n * (p.win + p.loss - (p.win-p.loss)*(p.win-p.loss)) / 4
		terms = here.terms(r, terms)
		for k, a := range terms {
			gradient[a.at] += slope * a.slope
			for _, b := range terms[k:] {
				*at(a.at, b.at) += curve * a.slope * b.slope
			}
		}
		if l := m.tie[r.judge]; l >= 0 {
			gradient[l] += r.ties - n*p.tie
			*at(l, l) += n * p.tie * (1 - p.tie)
			for _, a := range terms {
				*at(a.at, l) -= n * p.tie * (p.win - p.loss) / 2 * a.slope
			}
		}
	}
	for k, precision := range m.ridge {
		gradient[k] -= precision * x[k]
		*at(k, k) += precision
	}
	return m.pinMeans(at)
}

// observed converts the expected negative second derivatives into those at x. They differ because a judge's scale and
// the abilities are multiplied.
func (m *model) observed(x []float64, expected *mat.SymDense) *mat.SymDense {
	out := mat.NewSymDense(m.size, nil)
	out.CopySym(expected)
	here := m.at(x)
	for i := range m.rows {
		r := &m.rows[i]
		k := m.scales[r.judge]
		if k < 0 {
			continue
		}
		slope := here.chances(r).slope(r)
		out.SetSym(r.first, k, out.At(r.first, k)-slope)
		out.SetSym(r.second, k, out.At(r.second, k)+slope)
	}
	return out
}

// slope returns the derivative of a row's log-likelihood by d.
func (c chances) slope(r *row) float64 { return ((r.wins - r.losses) - r.total()*(c.win-c.loss)) / 2 }

func (m *model) pinMeans(at func(i, j int) *float64) (pin []float64) {
	pin = make([]float64, len(m.sizes))
	for i, c := range m.component {
		pin[c] += *at(i, i) / float64(m.sizes[c]*m.sizes[c]) // the mean of the diagonal, divided by the size
	}
	for c, p := range pin {
		if p == 0 { // a single candidate that was never compared
			pin[c] = 1
		}
	}
	for i, c := range m.component {
		for j := i; j < m.candidates; j++ {
			if m.component[j] == c {
				*at(i, j) += pin[c]
			}
		}
	}
	return pin
}

// centred converts the inverse of the pinned information into the covariance of abilities whose mean is 0 in every
// component.
//
// The vector of ones of a component is an eigenvector of the pinned information, with eigenvalue ridge + size·pin.
// Its part of the inverse is therefore known.
func (m *model) centred(covariance *mat.SymDense, pin []float64) {
	for i, c := range m.component {
		size := float64(m.sizes[c])
		level := 1 / (size * (m.ridge[i] + size*pin[c]))
		for j := i; j < m.candidates; j++ {
			if m.component[j] == c {
				covariance.SetSym(i, j, covariance.At(i, j)-level)
			}
		}
	}
}

// deviance returns twice the difference in log-likelihood to a model that predicts the observed frequencies of every
// row.
func (m *model) deviance(x []float64) float64 {
	var sum float64
	here := m.at(x)
	for i := range m.rows {
		r := &m.rows[i]
		p, n := here.chances(r), r.total()
		for _, term := range [3][2]float64{{r.wins, p.win}, {r.losses, p.loss}, {r.ties, p.tie}} {
			if term[0] > 0 {
				sum += 2 * term[0] * math.Log(term[0]/(n*term[1]))
			}
		}
	}
	return max(sum, 0) // rounding can leave less
}
