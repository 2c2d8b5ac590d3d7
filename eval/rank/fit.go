package rank

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Ties says how a tie counts for two candidates.
type Ties uint8

const (
	// Davidson gives every judge a propensity ν to tie. A tie then says that the two candidates are close: P(tie) :
	// P(first) : P(second) = ν : e^(d/2) : e^(−d/2). See Davidson 1970, "On extending the Bradley–Terry model to
	// accommodate ties in paired comparison experiments".
	Davidson Ties = iota
	// HalfWins counts a tie as half a win for each candidate. Its abilities spread less than Davidson's; the two
	// scales must not be mixed.
	HalfWins
)

// Options are the options of BradleyTerry. The zero value means Davidson's ties and no order effect.
type Options struct {
	Ties Ties

	// OrderEffect adds, for every judge, log-odds δ in favour of the candidate shown first: d = λ_first − λ_second +
	// δ. See Davidson and Beaver 1977, "On extending the Bradley–Terry model to incorporate within-pair order
	// effects", and the home effect of Agresti 2002, §10.6. A judge whose comparisons cannot tell δ gets none.
	OrderEffect bool

	// Scales gives every judge a factor s by which it discriminates between candidates: d = s·(λ_first − λ_second) +
	// δ. The factors have the mean 1, so that abilities are in the log-odds of an average judge. Each has a normal
	// prior around 1 with standard deviation 1. Scales needs two judges or more.
	//
	// The factor is the discrimination of Birnbaum 1968, "Some latent trait models". For judges of pairs see Chen,
	// Bennett, Collins-Thompson and Horvitz 2013, "Pairwise ranking aggregation in a crowdsourced setting". The
	// likelihood is then not concave. Its maximum is the one that Newton's method reaches from equal candidates and
	// judges.
	Scales bool

	// Ridge is the precision (1/variance) of the normal prior around 0 for parameters without a finite
	// maximum-likelihood estimate. Other parameters have no prior. 0 means DefaultRidge.
	Ridge float64
}

// DefaultRidge has a standard deviation of 3.2 in log-odds (odds of 24 to 1) around the component's mean.
const DefaultRidge = 0.1

// MaxCandidates bounds the number of candidates: BradleyTerry takes 16·n² bytes and time in n³.
const MaxCandidates = 5000

// ErrTooManyCandidates is returned by BradleyTerry for more than MaxCandidates candidates, and by MeansOf for more than
// MaxMeans.
var ErrTooManyCandidates = errors.New("too many candidates to compare with each other")

// Fit is a fitted model. Abilities are log-odds: with Bradley–Terry, i beats j with probability 1/(1+e^(λ_j−λ_i)).
// Their mean is 0 in every component.
type Fit struct {
	Abilities  []float64
	Components []Component
	Judges     []JudgeEffect // in the order of the tallies

	// Length is the log-odds that one more standard deviation of length adds. Only FromObserved estimates it.
	// HasLength is set if it has an estimate, which needs lengths that differ in another way than candidates do.
	// LengthRegularised is set if the estimate is not finite without a prior.
	Length, LengthSE             float64
	HasLength, LengthRegularised bool

	// LogLikelihood omits the binomial coefficients.
	LogLikelihood float64
	// Deviance compares the model with one that fits every judge's ordered pairs exactly. It has a chi-squared
	// distribution with DegreesOfFreedom degrees of freedom if pairs were compared often, but not if each was
	// compared once.
	Deviance         float64
	DegreesOfFreedom int
	// Iterations is the number of steps of Newton's method in the last fit; at most 100.
	Iterations int

	component  []int
	records    []Record
	covariance *mat.SymDense // of abilities, order effects and tie parameters
	model      *model
	at         []float64 // the maximum, as the vector of all of the model's parameters
	halves     bool      // a tie counts as half a win for each
	strong     []int     // for each candidate, the set within which its ability is bounded
	ordered    bool      // Options.OrderEffect
	heights    []int     // different ones may be a position effect; nil: never
	mixed      bool      // every difference may be a position effect
}

// JudgeEffect is the model's estimate for one judge.
type JudgeEffect struct {
	// Order is the log-odds by which the judge favours the candidate shown first. It is valid only if HasOrder is
	// set.
	Order, OrderSE float64
	HasOrder       bool
	// Confounded is set if an order effect was requested, but the judge's verdicts cannot tell it from differences
	// between candidates. An example is a candidate that was always shown first.
	Confounded bool
	// Scale is the judge's factor s of Options.Scales. It is valid only if HasScale is set.
	Scale    float64
	HasScale bool
	// LogNu is ln ν, the logarithm of Davidson's propensity to tie. It is valid only if HasNu is set; a judge that
	// never tied has ν = 0 and no LogNu.
	LogNu, LogNuSE float64
	HasNu          bool
	// Regularised is set if the likelihood has no finite maximum for the judge's parameters: it always preferred one
	// position, or tied in such a way.
	Regularised bool
}

// PerCell returns the mean number of comparisons per cell of the deviance. A cell holds one judge's comparisons of
// two candidates in one order.
func (fit *Fit) PerCell() float64 {
	games := 0.0
	for _, r := range fit.model.rows {
		games += r.total()
	}
	return games / max(float64(len(fit.model.rows)), 1)
}

// Weighted reports whether verdicts have different weights or degrees, so that the likelihood says nothing about how well
// the model fits.
func (fit *Fit) Weighted() bool { return fit.model.heaviest > 0 || fit.model.degree != 1 }

// Nu returns Davidson's ν; 0 for a judge that never tied.
func (e JudgeEffect) Nu() float64 {
	if !e.HasNu {
		return 0
	}
	return math.Exp(e.LogNu)
}

const (
	maxIterations = 100
	// converged is the value of Newton's decrement g'H⁻¹g, a squared distance in standard errors, at which the next
	// step would not change any printed digit.
	converged = 1e-14
	// accepted is the decrement at which a maximum is accepted when the iterations end: a ten-thousandth of a
	// standard error. With scales, the last steps can be slow.
	accepted = 1e-8
	// uncertain is the standard error of an order effect or ln ν above which its estimate counts as not finite. It is
	// a factor of 22,000 in the odds. If there is no finite estimate, the error grows without bound from step to
	// step.
	uncertain = 10
	// endless is the size above which an estimate counts as not finite, without further steps: odds of three million
	// to one.
	endless = 15
	// mostConfounded bounds the share of verdicts by judges whose order effect cannot be separated from the
	// candidates. Above it, the affected candidates are not compared.
	mostConfounded = 0.05
)

// BradleyTerry fits abilities to the comparisons of all judges together, by maximum likelihood (Bradley and Terry
// 1952, "Rank analysis of incomplete block designs"). Judges share the abilities; each has its own order effect and
// tie propensity. It uses Newton's method with step halving. The likelihood is concave, and the inverse of its second
// derivatives is the covariance.
//
// Abilities have a finite estimate in a component exactly if it is not Separable. If it is, a weak prior is applied
// to the component. If a judge's own parameter has no finite estimate, the prior is applied to that judge and all
// components it judged. The result is then Regularised.
//
// Standard errors assume that all comparisons are independent. Both orders of a pair, and several judges of the same
// texts, are not: use Fit.Uncertainty.
//
// All tallies must be over the same n candidates. n may be 0. Each candidate that was never compared is a component
// of its own, with ability 0.
func BradleyTerry(n int, judges []*Tally, options Options) (*Fit, error) {
	if n > MaxCandidates {
		return nil, fmt.Errorf("rank %d candidates: %w (at most %d)", n, ErrTooManyCandidates, MaxCandidates)
	}
	for k, t := range judges {
		if t.candidates != n {
			return nil, fmt.Errorf("rank %d candidates: tally %d is over %d", n, k, t.candidates)
		}
	}
	fit, err := newModel(n, len(judges), rowsOf(judges), options).fit(Records(n, judges), options)
	if err != nil {
		return nil, fmt.Errorf("rank %d candidates: %w", n, err)
	}
	return fit, nil
}

// fit finds the maximum, with priors if there is none without them.
func (m *model) fit(records []Record, options Options) (*Fit, error) {
	parts, component := components(m.candidates, m.rows)
	m.setComponents(parts, component)

	ridge := options.Ridge
	if ridge == 0 {
		ridge = DefaultRidge
	}
	fit := &Fit{
		Components: parts,
		Judges:     make([]JudgeEffect, len(m.order)),
		component:  component,
		records:    records,
		model:      m,
		halves:     options.Ties == HalfWins,
		ordered:    options.OrderEffect,
		strong:     strong(m.candidates, m.rows),
	}
	fit.confound()
	for k := range parts {
		first := parts[k].Candidates[0]
		parts[k].Separable = slices.ContainsFunc(parts[k].Candidates, func(i int) bool { return fit.strong[i] != fit.strong[first] })
		if parts[k].Separable {
			m.regularise(&parts[k], ridge)
		}
	}

	if m.length >= 0 && !m.tellsLength() {
		m.dropLength()
	}
	best, infinite, err := m.maximise(m.start())
	for { // at most once for each component and judge: a prior ends it
		if err == nil && infinite != nil {
			m.regulariseJudges(infinite, fit, ridge)
		} else if !m.regulariseScaled(parts, best.x, err != nil, ridge) {
			break
		}
		best, infinite, err = m.maximise(m.start())
	}
	if err != nil {
		return nil, err
	}
	fit.take(m, best)
	return fit, nil
}

// rowsOf returns the rows of all tallies, judge after judge.
func rowsOf(judges []*Tally) []row {
	var rows []row
	for k, t := range judges {
		for pair, c := range t.Cells() {
			rows = append(rows, row{
				first: pair.First, second: pair.Second, judge: k,
				wins: float64(c.FirstWins), losses: float64(c.SecondWins), ties: float64(c.Ties),
			})
		}
	}
	return rows
}

// newModel returns the model of rows, which must be sorted by judge.
func newModel(n, judges int, rows []row, options Options) *model {
	m := &model{candidates: n, rows: rows, order: make([]int, judges), tie: make([]int, judges), length: -1, scale: 1, size: n, degree: 1}
	ties, measured := make([]float64, judges), false // ties may have negative weights
	for i := range rows {
		r := &rows[i]
		if options.Ties == HalfWins {
			r.wins, r.losses, r.ties = r.wins+r.ties/2, r.losses+r.ties/2, 0
		}
		ties[r.judge] += r.ties
		measured = measured || r.longer != 0
	}

	for k := range judges {
		start, _ := slices.BinarySearchFunc(rows, k, func(r row, k int) int { return cmp.Compare(r.judge, k) })
		end, _ := slices.BinarySearchFunc(rows, k+1, func(r row, k int) int { return cmp.Compare(r.judge, k) })
		m.order[k] = -1
		if _, told := heights(n, rows[start:end]); told && options.OrderEffect {
			m.order[k] = m.size
			m.size++
		}
	}

	for k := range judges {
		m.tie[k] = -1
		if ties[k] > 0 {
			m.tie[k] = m.size
			m.size++
		}
	}

	if measured {
		m.length = m.size
		m.size++
	}
	m.scales = slices.Repeat([]int{-1}, judges)
	if judging := judgesOf(rows); options.Scales && len(judging) > 1 {
		for _, k := range judging {
			m.scales[k] = m.size
			m.size++
		}
	}

	m.ridge = make([]float64, m.size)
	for _, k := range m.scales {
		if k >= 0 {
			m.ridge[k] = 1
		}
	}

	return m
}

// judgesOf returns the judges that have rows, which must be sorted by judge.
func judgesOf(rows []row) []int {
	var judges []int
	for _, r := range rows {
		if len(judges) == 0 || judges[len(judges)-1] != r.judge {
			judges = append(judges, r.judge)
		}
	}
	return judges
}

// confound finds the candidates whose differences cannot be told from a position effect.
func (fit *Fit) confound() {
	if !fit.ordered {
		return
	}
	confounded, all := 0.0, 0.0
	for _, r := range fit.model.rows {
		all += r.total()
		if fit.model.order[r.judge] < 0 {
			fit.Judges[r.judge].Confounded = true
			confounded += r.total()
		}
	}
	if confounded > mostConfounded*all {
		fit.heights, fit.mixed = heights(fit.model.candidates, fit.model.rows)
	}
}

// confounded reports whether the difference between two candidates may be a judge's preference for a position.
func (fit *Fit) confounded(i, j int) bool {
	return fit.mixed || fit.heights != nil && fit.heights[i] != fit.heights[j]
}

// dropLength removes the effect of length from the model.
func (m *model) dropLength() {
	m.ridge = slices.Delete(m.ridge, m.length, m.length+1)
	for k, position := range m.scales {
		if position > m.length {
			m.scales[k]--
		}
	}
	m.size--
	m.length = -1
}

func (m *model) setComponents(parts []Component, component []int) {
	m.component = component
	m.sizes = make([]int, len(parts))
	for k, part := range parts {
		m.sizes[k] = len(part.Candidates)
	}
}

func (m *model) regularise(part *Component, ridge float64) {
	part.Regularised = true
	for _, i := range part.Candidates {
		m.ridge[i] = ridge
	}
}

// regulariseScaled puts priors on components whose abilities have no finite estimate at x because of Options.Scales.
// Judges that contradict each other on a pair may have scales near 0. Its difference may then grow without bound,
// although each of the two has won. failed says that no maximum was found, so that any component may be the cause.
// more is false if there is nothing to do.
func (m *model) regulariseScaled(parts []Component, x []float64, failed bool, ridge float64) (more bool) {
	if m.scaleSum() == nil {
		return false
	}
	for k := range parts {
		part := &parts[k]
		if len(part.Candidates) > 1 && !part.Regularised &&
			(failed || slices.ContainsFunc(part.Candidates, func(i int) bool { return math.Abs(x[i]) > endless })) {
			m.regularise(part, ridge)
			more = true
		}
	}
	return more
}

// regulariseJudges puts priors on the parameters of the given judges, or that of length, and on every component that
// they judged.
func (m *model) regulariseJudges(judges []int, fit *Fit, ridge float64) {
	m.hold(judges, ridge)
	for _, k := range judges {
		if k == lengthEffect {
			fit.LengthRegularised = true
		} else {
			fit.Judges[k].Regularised = true
		}
	}
	for _, r := range m.rows {
		if fit.LengthRegularised || fit.Judges[r.judge].Regularised {
			m.regularise(&fit.Components[m.component[r.first]], ridge)
		}
	}
}

func (fit *Fit) take(m *model, s solution) {
	fit.Abilities = s.x[:m.candidates:m.candidates]
	fit.covariance, fit.at = s.covariance, s.x
	fit.Iterations = s.iterations
	fit.LogLikelihood = m.logLikelihood(s.x)
	fit.Deviance = m.deviance(s.x)

	for k := range fit.Judges {
		e := &fit.Judges[k]
		if position := m.order[k]; position >= 0 {
			e.Order, e.OrderSE, e.HasOrder = s.x[position], s.se(position), true
		}
		if position := m.scales[k]; position >= 0 {
			e.Scale, e.HasScale = 1+s.x[position], true
		}
		if position := m.tie[k]; position >= 0 {
			e.LogNu, e.LogNuSE, e.HasNu = s.x[position], s.se(position), true
		}
	}
	if m.length >= 0 {
		fit.Length, fit.LengthSE, fit.HasLength = s.x[m.length], s.se(m.length), true
	}
	for _, r := range m.rows {
		fit.DegreesOfFreedom++
		if m.tie[r.judge] >= 0 { // three outcomes
			fit.DegreesOfFreedom++
		}
	}
	fit.DegreesOfFreedom -= m.size - len(fit.Components)
	if m.scaleSum() != nil {
		fit.DegreesOfFreedom++ // their mean is fixed
	}
}
