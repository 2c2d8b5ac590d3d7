package rank

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// influences holds, for each cluster of verdicts, what leaving it out would add to the gradient at the fit. It stores
// few numbers for each, because most clusters are about few candidates.
type influences struct {
	start []int // positions in at and by where each cluster begins, and the end
	at    []int32
	by    []float64

	verdicts [][]Observed // of each cluster
	members  []int        // by component: clusters with a verdict on its candidates
	judged   []int        // by judge: clusters with its verdicts
	bridged  []bool
	victors  map[orderedPair]*victories // by winner and loser, if the fit has a prior
	decided  [][]int32                  // by candidate: the first clusters that decide something about it, at most fewestDecided
	leverage bool
}

// victories counts the clusters in which a candidate beat another, by the winner's position.
//
// Where verdicts have weights, a cluster counts as part of the heaviest: if that is a verdict of one in five pairs, and one
// of a pair that was chosen for another reason has weight 1, five of these are as much evidence about all pairs.
type victories struct {
	shownFirst, shownSecond float64
	lastFirst, lastSecond   int32 // the last cluster that was counted
}

// mostLeverage bounds the number of multiplications for correcting each cluster individually.
const mostLeverage = 3_000_000_000

// errOtherVerdicts is returned if verdicts are not those of the fit.
var errOtherVerdicts = errors.New("these are not the verdicts of the fit")

// influences computes the influences of the observed verdicts, in any order. A cluster's residuals are too small,
// because the fit has followed them. They are divided by the identity less the cluster's share of the information.
// This is the jackknife's CR3 of Bell and McCaffrey 2002, "Bias reduction in standard errors for linear regression
// with multi-stage samples". If that takes too long, every cluster is given an equal share.
func (f *Fit) influences(observed []Observed) (*influences, error) {
	observed = slices.Clone(observed)
	slices.SortFunc(observed, func(a, b Observed) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.compare(b)) })
	out := &influences{
		start: []int{0}, members: make([]int, len(f.Components)), judged: make([]int, len(f.Judges)),
		bridged: make([]bool, len(f.Components)), victors: map[orderedPair]*victories{}, decided: make([][]int32, len(f.Abilities)),
	}
	records := make([]Record, len(f.Abilities))
	for _, o := range observed {
		if err := o.check(len(f.Abilities), len(f.Judges)); err != nil {
			return nil, err
		}
		o.record(records)
	}

	if !slices.Equal(records, f.records) {
		return nil, errOtherVerdicts
	}
	observed = slices.DeleteFunc(observed, func(o Observed) bool { return o.counts().Total() == 0 })
	for len(observed) > 0 {
		end := slices.IndexFunc(observed, func(o Observed) bool { return o.Cluster != observed[0].Cluster })
		if end < 0 {
			end = len(observed)
		}
		out.verdicts = append(out.verdicts, observed[:end])
		observed = observed[end:]
	}

	all := out.verdicts
	c := newClusterScore(f)
	work := 0.0
	for _, cluster := range all {
		work += math.Pow(float64(c.support(cluster)), 3)
	}
	out.leverage = work <= mostLeverage
	for k, cluster := range all {
		c.support(cluster)
		c.add(cluster)
		score := c.score
		if out.leverage {
			var ok bool
			if score, ok = c.corrected(); !ok {
				out.bridge(f, cluster)
			}
		}
		share := 1.0
		if !out.leverage && len(all) > 1 {
			share = float64(len(all)) / float64(len(all)-1)
		}
		for i, position := range c.positions {
			out.at = append(out.at, int32(position))
			out.by = append(out.by, share*score[i])
		}
		out.start = append(out.start, len(out.at))
		out.count(f, int32(k+1), cluster)
	}

	return out, nil
}

func (in *influences) clusters() int { return len(in.start) - 1 }

// bridge marks the components that would fall apart without a cluster.
func (in *influences) bridge(f *Fit, cluster []Observed) {
	for _, o := range cluster {
		in.bridged[f.component[o.First]] = true
	}
}

// count counts the k-th cluster (from 1) for its components and judges, and for the pairs that need a prior.
func (in *influences) count(f *Fit, k int32, cluster []Observed) {
	components, judges := map[int]bool{}, map[int32]bool{}
	in.decide(k, cluster)
	for _, o := range cluster {
		if o.Predicted {
			continue
		}
		if c := f.component[o.First]; !components[c] {
			components[c] = true
			in.members[c]++
		}
		if !judges[o.Judge] {
			judges[o.Judge] = true
			in.judged[o.Judge]++
		}

		if f.strong[o.First] == f.strong[o.Second] {
			continue
		}

		if o.FirstWins > 0 {
			if v := in.victor(o.First, o.Second); v.lastFirst != k {
				v.lastFirst = k
				v.shownFirst += f.model.evidence(o)
			}
		}

		if o.SecondWins > 0 {
			if v := in.victor(o.Second, o.First); v.lastSecond != k {
				v.lastSecond = k
				v.shownSecond += f.model.evidence(o)
			}
		}
	}
}

// decide adds the k-th cluster to those that decide something about a candidate: in which it won more often than it lost
// against another candidate, or less often. Verdicts that cancel, such as those of judges that choose a place, decide
// nothing. Clusters beyond the first fewestDecided of both candidates are not looked at.
func (in *influences) decide(k int32, cluster []Observed) {
	full := func(i int32) bool { return len(in.decided[i]) == fewestDecided }
	won := map[orderedPair]int32{}
	for _, o := range cluster {
		if o.Predicted || full(o.First) && full(o.Second) {
			continue
		}
		by := o.FirstWins - o.SecondWins
		if o.First > o.Second {
			o.First, o.Second, by = o.Second, o.First, -by
		}
		won[pairOf(int(o.First), int(o.Second))] += by
	}

	for pair, by := range won {
		if by == 0 {
			continue
		}
		i, j := pair.split()
		for _, one := range [2]int{i, j} {
			if !full(int32(one)) && !slices.Contains(in.decided[one], k) {
				in.decided[one] = append(in.decided[one], k)
			}
		}
	}
}

// evidence returns the part of a cluster that verdicts count as; see victories.
func (m *model) evidence(o Observed) float64 {
	if m.heaviest == 0 {
		return 1
	}
	return o.weight() / m.heaviest
}

func (in *influences) victor(winner, loser int32) *victories {
	pair := pairOf(int(winner), int(loser))
	if in.victors[pair] == nil {
		in.victors[pair] = &victories{}
	}
	return in.victors[pair]
}

// clusterScore computes the scores and the information of one cluster at a time.
type clusterScore struct {
	fit       *Fit
	here      point
	local     []int // for each parameter, its index in positions, or −1
	positions []int // the parameters that the cluster's verdicts are about
	score     []float64
	info      []float64 // a square matrix, row by row
}

func newClusterScore(f *Fit) *clusterScore {
	c := &clusterScore{fit: f, here: f.model.at(f.at), local: make([]int, f.model.size)}
	for k := range c.local {
		c.local[k] = -1
	}
	return c
}

// support starts a cluster: it finds the parameters that its verdicts are about, and returns their number.
func (c *clusterScore) support(cluster []Observed) int {
	for _, position := range c.positions {
		c.local[position] = -1
	}
	c.positions = c.positions[:0]
	m := c.fit.model
	for _, o := range cluster {
		for _, position := range [...]int{int(o.First), int(o.Second), m.order[o.Judge], m.tie[o.Judge], m.length, m.scales[o.Judge]} {
			if position >= 0 && c.local[position] < 0 {
				c.local[position] = len(c.positions)
				c.positions = append(c.positions, position)
			}
		}
	}
	return len(c.positions)
}

// add sets score and info to the derivatives of the cluster's verdicts, as model.derivatives does for all verdicts.
func (c *clusterScore) add(cluster []Observed) {
	m, s := c.fit.model, len(c.positions)
	c.score = append(c.score[:0], make([]float64, s)...)
	c.info = append(c.info[:0], make([]float64, s*s)...)
	var terms []term

	for _, o := range cluster {
		r := o.row(m.scale, m.degree)
		if c.fit.halves {
			r.wins, r.losses, r.ties = r.wins+r.ties/2, r.losses+r.ties/2, 0
		}
		p, n := c.here.chances(&r), r.total()
		slope := ((r.wins - r.losses) - n*(p.win-p.loss)) / 2
		curve := n * (p.win + p.loss - (p.win-p.loss)*(p.win-p.loss)) / 4
		terms = c.here.terms(&r, terms)
		tie := -1
		if k := m.tie[r.judge]; k >= 0 {
			tie = c.local[k]
			c.score[tie] += r.ties - n*p.tie
			c.info[tie*s+tie] += n * p.tie * (1 - p.tie)
		}
		for _, one := range terms {
			a := c.local[one.at]
			c.score[a] += slope * one.slope
			for _, other := range terms {
				c.info[a*s+c.local[other.at]] += curve * one.slope * other.slope
			}
			if tie >= 0 {
				cross := -n * p.tie * (p.win - p.loss) / 2 * one.slope
				c.info[a*s+tie] += cross
				c.info[tie*s+a] += cross
			}
		}
	}
}

// corrected returns (I − H_g H⁻¹)⁻¹ u_g, where H_g is the cluster's information and u_g its score. ok is false if the
// other verdicts do not determine the parameters that this cluster is about.
func (c *clusterScore) corrected() (score []float64, ok bool) {
	const singular = 1e6
	s := len(c.positions)
	covariance := mat.NewDense(s, s, nil)
	for a, i := range c.positions {
		for b, j := range c.positions {
			covariance.Set(a, b, c.fit.covariance.At(i, j))
		}
	}
	var left mat.Dense
	left.Mul(mat.NewDense(s, s, c.info), covariance)
	left.Scale(-1, &left)
	for k := range s {
		left.Set(k, k, left.At(k, k)+1)
	}
	var factor mat.LU
	factor.Factorize(&left)
	out := mat.NewVecDense(s, nil)
	if factor.Cond() > singular || factor.SolveVecTo(out, false, mat.NewVecDense(s, c.score)) != nil {
		return c.score, false
	}
	return out.RawVector().Data, true
}
