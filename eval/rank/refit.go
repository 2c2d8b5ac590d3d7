package rank

import (
	"slices"

	"gonum.org/v1/gonum/mat"
)

// stepper finds the maximum for resamples by one step of Newton's method from that of
// the fit. It is safe for concurrent use.
type stepper struct {
	fit    *Fit
	draws  *draws
	pulls  []pull // of the draws' cells
	factor mat.Cholesky
}

// pull is what one cell adds to the gradient at the fit.
type pull struct {
	first, second, order, tie int32 // positions of its parameters; −1: none
	slope, tieSlope, length   float64
}

func newStepper(fit *Fit, d *draws) *stepper {
	m := fit.model
	s := &stepper{fit: fit, draws: d, pulls: make([]pull, len(d.cells))}
	information := mat.NewSymDense(m.size, nil)
	m.derivatives(fit.at, make([]float64, m.size), information)
	s.factor.Factorize(information) // it was when the fit was found
	here := m.at(fit.at)
	for i, c := range d.cells {
		r := &m.rows[c.row]
		p := here.chances(r)
		n := float64(c.wins) + float64(c.losses) + float64(c.ties)
		slope := (float64(c.wins) - float64(c.losses) - n*(p.win-p.loss)) / 2
		s.pulls[i] = pull{
			first: int32(r.first), second: int32(r.second), order: int32(m.order[r.judge]), tie: int32(m.tie[r.judge]),
			slope: slope, tieSlope: float64(c.ties) - n*p.tie, length: slope * r.longer,
		}
	}
	return s
}

// from is where the step leads, by each cluster as often as it was drawn.
func (s *stepper) from(times []uint16) []float64 {
	m, at := s.fit.model, s.fit.at
	gradient := make([]float64, len(at))
	for c, n := range times {
		if n == 0 {
			continue
		}
		for _, p := range s.pulls[s.draws.clusters[c]:s.draws.clusters[c+1]] {
			slope := float64(n) * p.slope
			gradient[p.first] += slope
			gradient[p.second] -= slope
			if p.order >= 0 {
				gradient[p.order] += slope
			}
			if p.tie >= 0 {
				gradient[p.tie] += float64(n) * p.tieSlope
			}
			if m.length >= 0 {
				gradient[m.length] += float64(n) * p.length
			}
		}
	}
	for k, precision := range m.ridge {
		gradient[k] -= precision * at[k]
	}
	step := mat.NewVecDense(len(gradient), nil)
	if s.factor.SolveVecTo(step, mat.NewVecDense(len(gradient), gradient)) != nil {
		return slices.Clone(at)
	}
	x := step.RawVector().Data
	for k := range x {
		x[k] += at[k]
	}
	return x
}

// refitter finds the maximum for resamples, each from that of the fit. It is not safe
// for concurrent use.
type refitter struct {
	full  *Fit
	draws *draws
	model model // of the resample
}

func newRefitter(fit *Fit, d *draws) *refitter {
	r := &refitter{full: fit, draws: d, model: *fit.model}
	r.model.rows = slices.Clone(fit.model.rows)
	return r
}

// fit fits what was drawn. prior: its abilities have no finite estimate, and a weak
// prior held them.
func (r *refitter) fit(times []uint16) (x []float64, prior bool, err error) {
	m, ridge := &r.model, r.full.model.ridge
	r.draws.fill(times, m.rows)
	m.ridge = slices.Clone(ridge)
	parts, _ := components(m.candidates, slices.DeleteFunc(slices.Clone(m.rows), func(r row) bool { return r.total() == 0 }))
	prior = len(parts) != len(r.full.Components)
	for _, part := range parts {
		prior = prior || part.Separable && ridge[part.Candidates[0]] == 0
	}
	for i := range m.candidates {
		if prior {
			m.ridge[i] = max(m.ridge[i], DefaultRidge)
		}
	}
	s, infinite, err := m.maximise(slices.Clone(r.full.at), false)
	for err == nil && infinite != nil { // at most once a judge: what it says of itself is held then
		m.hold(infinite, DefaultRidge)
		s, infinite, err = m.maximise(slices.Clone(r.full.at), false)
	}
	return s.x, prior, err
}
