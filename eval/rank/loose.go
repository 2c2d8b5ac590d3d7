package rank

import (
	"slices"

	"gonum.org/v1/gonum/mat"
)

// looser is the factor for the precision of priors in the fit that determines limits away from the prior's mean. With
// DefaultRidge, the prior then has a standard deviation of 10 in log-odds.
const looser = 0.1

// loose is a fit with looser priors. Verdicts that all went one way do not bound a parameter, so any prior is a
// choice. See Berger 1990, "Robust Bayesian analysis: sensitivity to the prior". A prior that is strong enough for a
// sensible estimate shrinks all abilities of its component, including differences that verdicts do bound. It also
// makes the errors too small.
type loose struct {
	at             []float64
	own, clustered *mat.SymDense
}

// loosened returns the fit f with looser priors. It returns nil if no parameters have priors except scales, whose
// prior is part of the model.
func (f *Fit) loosened(observed []Observed) (*loose, error) {
	m := *f.model
	m.ridge = slices.Clone(m.ridge)
	held := 0.0
	for k := range m.ridge {
		if !slices.Contains(m.scales, k) {
			held = max(held, m.ridge[k])
			m.ridge[k] *= looser
		}
	}

	if held == 0 {
		return nil, nil
	}
	best, err := m.maximiseHeld(f.at, looser*held)
	if err != nil && !m.abilitiesHeld() { // see regulariseScaled
		for i := range f.Abilities {
			m.ridge[i] = looser * held
		}
		best, err = m.maximiseHeld(f.at, looser*held)
	}

	if err != nil {
		return nil, err
	}
	fit := *f
	fit.model, fit.at, fit.covariance = &m, best.x, best.covariance
	in, err := fit.influences(observed)
	if err != nil {
		return nil, err
	}
	return &loose{at: best.x, own: best.covariance, clustered: in.covariance(mat.DenseCopyOf(best.covariance))}, nil
}

// maximiseHeld maximises the objective, with priors of the given precision on judges' parameters that have no finite
// estimate. It does not change from.
func (m *model) maximiseHeld(from []float64, ridge float64) (solution, error) {
	for {
		best, infinite, err := m.maximise(slices.Clone(from))
		if err != nil || infinite == nil {
			return best, err
		}
		m.hold(infinite, ridge)
	}
}

// around returns limits at the given number of standard errors around x.
func around(x, se, times float64) Limits {
	return Limits{SE: se, Low: x - times*se, High: x + times*se}
}

// still is the largest difference of two estimates in log-odds that is taken for rounding.
const still = 1e-6

// moved extends the limits in the direction in which looser priors move an estimate, up to the limit that the moved
// estimate has. If they do not move it, it extends both.
func (l Limits) moved(from, to, se, times float64) Limits {
	far := around(to, se, times)
	if to >= from-still {
		l.High = max(l.High, far.High)
	}
	if to <= from+still {
		l.Low = min(l.Low, far.Low)
	}
	return l
}
