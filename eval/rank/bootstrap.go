package rank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Resampling says how Bootstrap draws.
type Resampling struct {
	Resamples int    // 0: as many as DefaultResamples says
	Seed      uint64 // the same seed and verdicts give the same digits, on any number of processors
}

// DefaultResamples is how often is drawn where nobody says: 1,000 times, which are
// enough for limits at 2.5 and 97.5 %, and 200 times where that many would take
// minutes, at the price of limits that are rougher by a tenth of their width.
func DefaultResamples(candidates, observed int) int {
	if candidates*candidates+observed > 500_000 {
		return 200
	}
	return 1000
}

// refits bounds the work for which models are fitted anew, in the time that one
// multiplication of the Cholesky factor takes: some ten seconds of one processor.
const refits = 10_000_000_000

// Limits are those of one number, by resampling, corrected for the number of clusters
// (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", §4: the spread
// over resamples of G clusters is too small by √((G−1)/G), and the normal quantiles
// that percentiles stand for are those of Student's t with G−1 degrees of freedom).
type Limits struct {
	SE        float64 // √(G/(G−1)) times the standard deviation over the resamples
	Low, High float64 // of many clusters the 2.5 and 97.5 percentiles, of few wider ones
}

// Bootstrap is what resampling says of a Fit: how its ranking would have come out
// with other questions of the same kind.
type Bootstrap struct {
	Resamples, Clusters int
	Abilities           []Limits // of each candidate
	// RankLow and RankHigh bound each candidate's rank in its component: the 2.5 and
	// 97.5 percentiles over the resamples.
	RankLow, RankHigh []int
	// Orders are those of JudgeEffect.Order; of a judge without one they are 0.
	Orders []Limits
	// Length are those of Fit.Length; without it they are 0.
	Length Limits
	// Regularised are the resamples that lost what made abilities finite, such as a
	// candidate's only victory or its only link to the others: a weak prior held
	// them. Not looked for where Linearised.
	Regularised int
	// Linearised says that resamples were not fitted anew, for want of time, but
	// moved by one step of Newton's from the fit (Andrews 2002, "Higher-order
	// improvements of a computationally attractive k-step bootstrap", k = 1): with
	// so many comparisons the difference is small.
	Linearised bool

	beats  [][]uint16 // twice the resamples in which i is above j, once those in which they are equal
	before []int      // component of each candidate
}

// Beats is the share of resamples in which i is above j, those in which they are
// equal counting half. NaN for candidates of different components.
func (b *Bootstrap) Beats(i, j int) float64 {
	if b.before[i] != b.before[j] {
		return math.NaN()
	}
	return float64(b.beats[i][j]) / float64(2*b.Resamples)
}

// Bootstrap draws as many clusters as there are, with replacement, again and
// again, and ranks each time what was drawn (Efron 1979, "Bootstrap methods: another
// look at the jackknife", by clusters as in Davison and Hinkley 1997, §3.8, with
// percentile limits). Verdicts of a cluster stay together, so that errors they
// share are not taken for evidence.
//
// observed, which is sorted in place, must be the verdicts of the fit; their order is
// of no account. At most 32,767 resamples. It uses every processor, takes 2·n² bytes,
// 16·n for each resample and 48 for each of observed, and ends early with ctx.
func (f *Fit) Bootstrap(ctx context.Context, observed []Observed, how Resampling) (*Bootstrap, error) {
	n := len(f.Abilities)
	resamples := how.Resamples
	if resamples == 0 {
		resamples = DefaultResamples(n, len(observed))
	}
	if resamples < 1 || resamples > math.MaxInt16 {
		return nil, fmt.Errorf("bootstrap: %d resamples, want 1 to %d", resamples, math.MaxInt16)
	}
	d, err := newDraws(f, observed)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	const row = 400 // what a row takes, in multiplications
	b := &Bootstrap{
		Resamples: resamples, Clusters: len(d.clusters) - 1, before: f.component,
		Linearised: float64(resamples)*(row*float64(len(f.model.rows))+math.Pow(float64(n), 3)) > refits,
		beats:      make([][]uint16, n),
	}
	for i := range b.beats {
		b.beats[i] = make([]uint16, n)
	}
	drawn, err := d.resample(ctx, f, b, how.Seed)
	if err != nil {
		return nil, err
	}
	b.summarise(f, drawn)
	return b, nil
}

// draws are verdicts by cluster, ready to be drawn.
type draws struct {
	clusters []int // where in cells each begins, and the end of the last
	cells    []drawn
}

type drawn struct {
	row                int32   // of the model
	wins, losses, ties float32 // as the model's row counts them
}

func newDraws(f *Fit, observed []Observed) (*draws, error) {
	m := f.model
	type cell struct {
		cluster int32
		drawn
	}
	slices.SortFunc(observed, Observed.compare)
	cells, at := make([]cell, 0, len(observed)), 0
	for _, o := range observed {
		if o.FirstWins+o.SecondWins+o.Ties == 0 {
			continue
		}
		want := row{judge: int(o.Judge), first: int(o.First), second: int(o.Second), longer: o.Longer / m.scale}
		for at < len(m.rows) && m.rows[at].compare(want) < 0 {
			at++
		}
		if at == len(m.rows) || m.rows[at].compare(want) != 0 {
			return nil, fmt.Errorf("judge %d on candidates %d and %d is not in the fit", o.Judge, o.First, o.Second)
		}
		one := drawn{int32(at), float32(o.FirstWins), float32(o.SecondWins), float32(o.Ties)}
		if f.halves {
			one.wins, one.losses, one.ties = one.wins+one.ties/2, one.losses+one.ties/2, 0
		}
		cells = append(cells, cell{o.Cluster, one})
	}
	slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.cluster, b.cluster) })
	d := &draws{cells: make([]drawn, len(cells))}
	for i, c := range cells {
		if i == 0 || c.cluster != cells[i-1].cluster {
			d.clusters = append(d.clusters, i)
		}
		d.cells[i] = c.drawn
	}
	d.clusters = append(d.clusters, len(cells))
	return d, nil
}

// draw says how often each cluster was drawn, in as many draws as there are clusters.
func (d *draws) draw(random *rand.Rand) []uint16 { // small, because draws jump about in it
	times := make([]uint16, len(d.clusters)-1)
	for range times {
		times[random.IntN(len(times))]++
	}
	return times
}

// fill writes the verdicts that were drawn into rows.
func (d *draws) fill(times []uint16, rows []row) {
	for i := range rows {
		rows[i].wins, rows[i].losses, rows[i].ties = 0, 0, 0
	}
	for c, n := range times {
		if n == 0 {
			continue
		}
		for _, one := range d.cells[d.clusters[c]:d.clusters[c+1]] {
			r := &rows[one.row]
			r.wins += float64(n) * float64(one.wins)
			r.losses += float64(n) * float64(one.losses)
			r.ties += float64(n) * float64(one.ties)
		}
	}
}

// resample returns the parameters of every resample, and counts in b how many were
// regularised.
func (d *draws) resample(ctx context.Context, fit *Fit, b *Bootstrap, seed uint64) ([][]float64, error) {
	parameters := make([][]float64, b.Resamples)
	var next, regularised atomic.Int64
	var step *stepper
	if b.Linearised {
		step = newStepper(fit, d)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			var again *refitter
			if !b.Linearised {
				again = newRefitter(fit, d)
			}
			for {
				k := int(next.Add(1)) - 1
				if k >= b.Resamples {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return context.Cause(ctx)
				}
				times := d.draw(rand.New(rand.NewPCG(seed, uint64(k))))
				if b.Linearised {
					parameters[k] = step.from(times)
					continue
				}
				x, prior, err := again.fit(times)
				if err != nil {
					return fmt.Errorf("resample %d: %w", k, err)
				}
				if prior {
					regularised.Add(1)
				}
				parameters[k] = x
			}
		})
	}
	err := group.Wait()
	b.Regularised = int(regularised.Load())
	return parameters, err
}

// summarise turns the resamples' parameters into limits, ranks and comparisons.
func (b *Bootstrap) summarise(fit *Fit, drawn [][]float64) {
	n := len(fit.Abilities)
	ranks := b.compare(fit, drawn)
	b.Abilities = make([]Limits, n)
	b.RankLow, b.RankHigh = make([]int, n), make([]int, n)
	column := make([]float64, len(drawn))
	tail, narrow := correction(b.Clusters)
	limits := func(position int) Limits {
		if position < 0 {
			return Limits{}
		}
		for k, x := range drawn {
			column[k] = x[position]
		}
		slices.Sort(column)
		l := Limits{Low: percentile(column, tail), High: percentile(column, 1-tail)}
		if len(column) > 1 {
			l.SE = narrow * stat.StdDev(column, nil)
		}
		return l
	}
	for i := range n {
		b.Abilities[i] = limits(i)
		slices.Sort(ranks[i])
		b.RankLow[i] = int(stat.Quantile(0.025, stat.Empirical, ranks[i], nil))
		b.RankHigh[i] = int(stat.Quantile(0.975, stat.Empirical, ranks[i], nil))
	}
	for _, position := range fit.model.order {
		b.Orders = append(b.Orders, limits(position))
	}
	b.Length = limits(fit.model.length)
}

// correction is what the limits of so many clusters take: the share of resamples below
// the lower one, and the factor of standard errors.
func correction(clusters int) (tail, narrow float64) {
	if clusters < 2 {
		return 0.025, 1
	}
	freedom := float64(clusters - 1)
	narrow = math.Sqrt(float64(clusters) / freedom)
	t := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(0.975)
	return distuv.UnitNormal.CDF(-narrow * t), narrow
}

// percentile is the value of sorted below which a share of all lies, of which these
// are a sample: the k-th of n stands for k/(n+1) (Hyndman and Fan 1996, "Sample
// Quantiles in Statistical Packages", definition 6).
func percentile(sorted []float64, share float64) float64 {
	at := min(max(share*float64(len(sorted)+1), 1), float64(len(sorted)))
	below := int(at)
	if below == len(sorted) {
		return sorted[below-1]
	}
	return sorted[below-1] + (at-float64(below))*(sorted[below]-sorted[below-1])
}

// compare counts who is above whom, and returns each candidate's ranks.
func (b *Bootstrap) compare(fit *Fit, drawn [][]float64) [][]float64 {
	ranks := make([][]float64, len(fit.Abilities))
	for i := range ranks {
		ranks[i] = make([]float64, len(drawn))
	}
	rounded := make([]float64, len(fit.Abilities))
	for k, x := range drawn {
		for i := range rounded {
			rounded[i] = math.Round(x[i] * 1e9)
		}
		for _, part := range fit.Components {
			for _, i := range part.Candidates {
				ranks[i][k] = 1
				for _, j := range part.Candidates {
					switch {
					case rounded[j] > rounded[i]:
						ranks[i][k]++
					case rounded[j] < rounded[i]:
						b.beats[i][j] += 2
					default:
						b.beats[i][j]++
					}
				}
			}
		}
	}
	return ranks
}
