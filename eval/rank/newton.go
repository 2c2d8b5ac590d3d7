package rank

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// solution is the maximum of the objective.
type solution struct {
	x          []float64
	covariance *mat.SymDense
	iterations int
}

func (s solution) se(k int) float64 { return math.Sqrt(max(s.covariance.At(k, k), 0)) }

// maximise finds the maximum by Newton's method, starting at from, which it overwrites. infinite holds the judges
// whose order effect or tie propensity has no finite estimate, and lengthEffect if the effect of length has none. The
// solution is invalid if infinite is not empty.
func (m *model) maximise(from []float64) (s solution, infinite []int, err error) {
	s.x = from
	if m.size == 0 {
		return s, nil, nil
	}
	gradient := mat.NewVecDense(m.size, nil)
	information := mat.NewSymDense(m.size, nil)
	step := mat.NewVecDense(m.size, nil)
	var factor mat.Cholesky
	value := m.objective(s.x)
	for s.iterations = 1; s.iterations <= maxIterations; s.iterations++ {
		pin := m.derivatives(s.x, gradient.RawVector().Data, information)
		if !factor.Factorize(information) || !m.step(step, s.x, gradient, information, &factor) {
			break // singular to working precision
		}
		decrement := mat.Dot(gradient, step)
		value = m.move(s.x, step, value)
		if infinite := m.unbounded(func(k int) bool { return math.Abs(s.x[k]) > endless }); infinite != nil {
			return s, infinite, nil
		}
		if decrement >= converged && (s.iterations < maxIterations || decrement >= accepted) {
			continue
		}
		if infinite := m.unbounded(func(k int) bool { return variance(&factor, k) > uncertain*uncertain }); infinite != nil {
			return s, infinite, nil
		}
		s.covariance = mat.NewSymDense(m.size, nil)
		if factor.InverseTo(s.covariance) != nil {
			break
		}
		m.centred(s.covariance, pin)
		m.meanKnown(s.covariance)
		return s, nil, nil
	}

	// The abilities alone would have a maximum, so suspect the parameters of all judges.
	if suspects := m.unbounded(func(int) bool { return true }); suspects != nil && m.abilitiesHeld() {
		return s, suspects, nil
	}
	return s, nil, fmt.Errorf("no maximum of the likelihood found in %d steps", s.iterations)
}

// scaleSum returns the vector whose product with the parameters is the sum of the judges' scales minus their number;
// nil without scales.
func (m *model) scaleSum() *mat.VecDense {
	var sum *mat.VecDense
	for _, position := range m.scales {
		if position >= 0 {
			if sum == nil {
				sum = mat.NewVecDense(m.size, nil)
			}
			sum.SetVec(position, 1)
		}
	}
	return sum
}

// step sets to to Newton's step from x. factor is the factorised expected information. With scales, the observed
// information differs and is used, because the expected one would need many steps. ok is false if there is no step to
// working precision.
func (m *model) step(to *mat.VecDense, x []float64, gradient *mat.VecDense, expected *mat.SymDense, factor *mat.Cholesky) (ok bool) {
	sum := m.scaleSum()
	if sum == nil {
		return factor.SolveVecTo(to, gradient) == nil
	}
	// A weight on the mean of scales does not change a step that keeps it. With a large weight, the information is
	// positive definite if the objective curves down along all such steps.
	const weight = 1000
	observed := m.observed(x, expected)
	observed.SymRankOne(observed, weight*mat.Trace(expected), sum)
	var curved mat.Cholesky
	if curved.Factorize(observed) && curved.SolveVecTo(to, gradient) == nil {
		factor = &curved
	} else if factor.SolveVecTo(to, gradient) != nil {
		return false
	}
	m.keepMean(factor, to)
	return true
}

// keepMean removes the part of a step that would change the mean of the judges' scales.
func (m *model) keepMean(factor *mat.Cholesky, step *mat.VecDense) {
	sum := m.scaleSum()
	if sum == nil {
		return
	}
	along := mat.NewVecDense(m.size, nil)
	if factor.SolveVecTo(along, sum) != nil {
		return
	}
	step.AddScaledVec(step, -mat.Dot(sum, step)/mat.Dot(sum, along), along)
}

// meanKnown removes from a covariance the part due to the mean of the judges' scales, which is known to be 1.
func (m *model) meanKnown(covariance *mat.SymDense) {
	sum := m.scaleSum()
	if sum == nil {
		return
	}
	along := mat.NewVecDense(m.size, nil)
	along.MulVec(covariance, sum)
	covariance.SymRankOne(covariance, -1/mat.Dot(sum, along), along)
}

// variance returns the k-th element of the inverse's diagonal; infinite if it cannot be computed.
func variance(factor *mat.Cholesky, k int) float64 {
	n := factor.SymmetricDim()
	unit, column := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	unit.SetVec(k, 1)
	if factor.SolveVecTo(column, unit) != nil {
		return math.Inf(1)
	}
	return column.AtVec(k)
}

// start returns the parameters from which maximise starts: equal candidates, no order effect, and the tie
// propensities that explain the ties of equal candidates.
func (m *model) start() []float64 {
	x := make([]float64, m.size)
	decided, ties := make([]float64, len(m.tie)), make([]float64, len(m.tie))
	for _, r := range m.rows {
		decided[r.judge] += r.wins + r.losses
		ties[r.judge] += r.ties
	}
	for k, position := range m.tie {
		if position >= 0 {
			x[position] = math.Log(2 * ties[k] / max(decided[k], 1))
		}
	}
	return x
}

// move adds the step to x, halved until it no longer makes the objective worse. It returns the new value.
func (m *model) move(x []float64, step *mat.VecDense, value float64) float64 {
	const halvings = 30 // then the step is lost in rounding, and x stays
	tolerance := 1e-12 * (1 + math.Abs(value))
	next := make([]float64, len(x))
	for scale, n := 1.0, 0; n < halvings; scale, n = scale/2, n+1 {
		for k := range x {
			next[k] = x[k] + scale*step.AtVec(k)
		}
		if reached := m.objective(next); reached >= value-tolerance {
			copy(x, next)
			return reached
		}
	}
	return value
}

// lengthEffect marks the effect of length in lists of judges. All judges share it.
const lengthEffect = -1

// abilitiesHeld reports whether the comparisons alone, without judges' parameters, give the abilities finite estimates
// of maximum likelihood.
func (m *model) abilitiesHeld() bool {
	if m.scaleSum() == nil {
		return true
	}
	for i, c := range m.component {
		if m.sizes[c] > 1 && m.ridge[i] == 0 {
			return false
		}
	}
	return true
}

// unbounded returns the judges with a parameter that has no prior and for which test is true. It includes
// lengthEffect if that holds for the effect of length. It returns nil if there are none.
func (m *model) unbounded(test func(position int) bool) []int {
	var judges []int
	free := func(position int) bool { return position >= 0 && m.ridge[position] == 0 && test(position) }
	for k := range m.order {
		if free(m.order[k]) || free(m.tie[k]) {
			judges = append(judges, k)
		}
	}
	if free(m.length) {
		judges = append(judges, lengthEffect)
	}
	return judges
}

// hold puts priors on the parameters of the judges that unbounded has returned.
func (m *model) hold(judges []int, ridge float64) {
	for _, k := range judges {
		positions := []int{m.length}
		if k != lengthEffect {
			positions = []int{m.order[k], m.tie[k]}
		}
		for _, position := range positions {
			if position >= 0 {
				m.ridge[position] = ridge
			}
		}
	}
}
