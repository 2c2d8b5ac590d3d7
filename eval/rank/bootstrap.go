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
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Game is one comparison with what it depends on: verdicts of one cluster (on the
// same texts, or on answers to the same question) err together.
type Game struct {
	Cluster, Judge int // any numbers; Judge from 0
	Comparison
}

// Resampling says how Bootstrap draws.
type Resampling struct {
	Resamples int    // 0: DefaultResamples
	Seed      uint64 // the same seed and games give the same digits, on any number of processors
}

// DefaultResamples are enough for limits at 2.5 and 97.5 %.
const DefaultResamples = 1000

// refits bounds rows × resamples for which models are fitted anew.
const refits = 20_000_000

// Bootstrap is what resampling says of a Fit: how its ranking would have come out
// with other questions of the same kind.
type Bootstrap struct {
	Resamples, Clusters int
	// Low and High bound each candidate's ability, RankLow and RankHigh its rank in
	// its component: the 2.5 and 97.5 percentiles over the resamples.
	Low, High         []float64
	RankLow, RankHigh []int
	// Regularised are the resamples that lost what made abilities finite, such as a
	// candidate's only victory or its only link to the others: a weak prior held
	// them. Not looked for where Linearised.
	Regularised int
	// Linearised says that resamples were not fitted anew, for want of time, but
	// moved by one step of Newton's from the fit: with so many comparisons the
	// difference is small.
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

// NewBootstrap draws as many clusters as there are, with replacement, again and
// again, and ranks each time what was drawn (Efron 1979, "Bootstrap methods: another
// look at the jackknife", by clusters as in Davison and Hinkley 1997, §3.8, with
// percentile limits). Comparisons of a cluster stay together, so that errors they
// share are not taken for evidence.
//
// games must be those of the judges' tallies that BradleyTerry was given with the
// same n and options; their order is of no account. At most 32,767 resamples. It
// uses every processor, takes 2·n² bytes and 8·n for each resample, and ends early
// with ctx.
func NewBootstrap(ctx context.Context, n, judges int, games []Game, options Options, how Resampling) (*Bootstrap, error) {
	resamples := cmp.Or(how.Resamples, DefaultResamples)
	if resamples < 1 || resamples > math.MaxInt16 {
		return nil, fmt.Errorf("bootstrap: %d resamples, want 1 to %d", resamples, math.MaxInt16)
	}
	tallies := make([]*Tally, judges)
	for k := range tallies {
		tallies[k] = NewTally(n)
	}
	for _, g := range games {
		if g.Judge < 0 || g.Judge >= judges {
			return nil, fmt.Errorf("bootstrap: a game of judge %d of %d", g.Judge, judges)
		}
		if err := tallies[g.Judge].Add(g.Comparison); err != nil {
			return nil, fmt.Errorf("bootstrap: %w", err)
		}
	}
	m, fit, at, err := fitted(n, tallies, options)
	if err != nil {
		return nil, err
	}
	d := newDraws(m, games, options)
	b := &Bootstrap{
		Resamples: resamples, Clusters: len(d.clusters) - 1, before: fit.component,
		Linearised: len(m.rows)*resamples > refits, beats: make([][]uint16, n),
	}
	for i := range b.beats {
		b.beats[i] = make([]uint16, n)
	}
	abilities, regularised, err := d.resample(ctx, fit, at, b, how.Seed)
	if err != nil {
		return nil, err
	}
	b.Regularised = regularised
	b.summarise(fit, abilities)
	return b, nil
}

// draws are games by cluster, ready to be drawn.
type draws struct {
	model    *model
	clusters []int // where in games each begins, and the end of the last
	games    []drawn
	halves   bool // a tie is half a win for each
}

type drawn struct {
	row     int32 // of the model
	outcome Outcome
}

func newDraws(m *model, games []Game, options Options) *draws {
	type cell struct{ judge, first, second int }
	rows := make(map[cell]int32, len(m.rows))
	for i, r := range m.rows {
		rows[cell{r.judge, r.first, r.second}] = int32(i)
	}
	games = slices.Clone(games)
	slices.SortFunc(games, func(a, b Game) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Judge, b.Judge), cmp.Compare(a.First, b.First),
			cmp.Compare(a.Second, b.Second), cmp.Compare(a.Outcome, b.Outcome))
	})
	d := &draws{model: m, halves: options.Ties == HalfWins}
	for i, g := range games {
		if i == 0 || g.Cluster != games[i-1].Cluster {
			d.clusters = append(d.clusters, i)
		}
		d.games = append(d.games, drawn{rows[cell{g.Judge, g.First, g.Second}], g.Outcome})
	}
	d.clusters = append(d.clusters, len(games))
	return d
}

// draw says how often each cluster was drawn, in as many draws as there are clusters.
func (d *draws) draw(random *rand.Rand) []uint16 { // small, because draws jump about in it
	times := make([]uint16, len(d.clusters)-1)
	for range times {
		times[random.IntN(len(times))]++
	}
	return times
}

// fill writes the games that were drawn into rows.
func (d *draws) fill(times []uint16, rows []row) {
	for i := range rows {
		rows[i].wins, rows[i].losses, rows[i].ties = 0, 0, 0
	}
	for c, n := range times {
		if n == 0 {
			continue
		}
		for _, g := range d.games[d.clusters[c]:d.clusters[c+1]] {
			switch r := &rows[g.row]; {
			case g.outcome == FirstWins:
				r.wins += float64(n)
			case g.outcome == SecondWins:
				r.losses += float64(n)
			case d.halves:
				r.wins += float64(n) / 2
				r.losses += float64(n) / 2
			default:
				r.ties += float64(n)
			}
		}
	}
}

// resample returns the abilities of every resample, and how many were regularised.
func (d *draws) resample(ctx context.Context, fit *Fit, at solution, b *Bootstrap, seed uint64) ([][]float64, int, error) {
	abilities := make([][]float64, b.Resamples)
	var next, regularised atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			one := *d.model
			one.rows = slices.Clone(d.model.rows)
			follow := newFollower(d, &one, at)
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
					abilities[k] = follow.step(times)
					continue
				}
				d.fill(times, one.rows)
				x, prior, err := follow.refit(fit)
				if err != nil {
					return fmt.Errorf("resample %d: %w", k, err)
				}
				if prior {
					regularised.Add(1)
				}
				abilities[k] = x
			}
		})
	}
	err := group.Wait()
	return abilities, int(regularised.Load()), err
}

// follower finds the maximum for resamples from that of the fit.
type follower struct {
	draws  *draws
	model  *model
	at     solution
	ridge  []float64 // of the fit
	pulls  []pull    // of the draws' games
	factor mat.Cholesky
}

// pull is what one game adds to the gradient at the fit.
type pull struct {
	first, second, order, tie int32   // positions of its parameters; −1: none
	slope, tieSlope           float64 // for those of candidates and order, and for that of ties
}

func newFollower(d *draws, m *model, at solution) *follower {
	f := &follower{draws: d, model: m, at: at, ridge: m.ridge}
	if m.size == 0 {
		return f
	}
	information := mat.NewSymDense(m.size, nil)
	m.derivatives(at.x, make([]float64, m.size), information)
	f.factor.Factorize(information) // it was when the fit was found
	chances := make([]chances, len(m.rows))
	for i, r := range m.rows {
		chances[i] = m.chances(at.x, r)
	}
	for _, g := range d.games {
		r, p := m.rows[g.row], chances[g.row]
		one := pull{
			first: int32(r.first), second: int32(r.second), order: int32(m.order[r.judge]), tie: int32(m.tie[r.judge]),
			slope: -(p.win - p.loss) / 2, tieSlope: -p.tie,
		}
		switch g.outcome {
		case FirstWins:
			one.slope += 0.5
		case SecondWins:
			one.slope -= 0.5
		case Tied:
			one.tieSlope++
		}
		f.pulls = append(f.pulls, one)
	}
	return f
}

// step is the first step of Newton's method from the fit, by each cluster as often as
// it was drawn.
func (f *follower) step(times []uint16) []float64 {
	gradient := make([]float64, len(f.at.x))
	for c, n := range times {
		if n == 0 {
			continue
		}
		for _, g := range f.pulls[f.draws.clusters[c]:f.draws.clusters[c+1]] {
			slope := float64(n) * g.slope
			gradient[g.first] += slope
			gradient[g.second] -= slope
			if g.order >= 0 {
				gradient[g.order] += slope
			}
			if g.tie >= 0 {
				gradient[g.tie] += float64(n) * g.tieSlope
			}
		}
	}
	for k, precision := range f.ridge {
		gradient[k] -= precision * f.at.x[k]
	}
	step := mat.NewVecDense(len(gradient), nil)
	if f.factor.SolveVecTo(step, mat.NewVecDense(len(gradient), gradient)) != nil {
		return slices.Clone(f.at.x[:f.model.candidates])
	}
	x := step.RawVector().Data
	for k := range x {
		x[k] += f.at.x[k]
	}
	return x[:f.model.candidates:f.model.candidates]
}

// refit fits a resample. prior: its abilities have no finite estimate, and a weak
// prior held them.
func (f *follower) refit(fit *Fit) (x []float64, prior bool, err error) {
	m := f.model
	m.ridge = slices.Clone(f.ridge)
	parts, _ := components(m.candidates, slices.DeleteFunc(slices.Clone(m.rows), func(r row) bool { return r.total() == 0 }))
	prior = len(parts) != len(fit.Components)
	for _, part := range parts {
		prior = prior || part.Separable && f.ridge[part.Candidates[0]] == 0
	}
	for i := range m.candidates {
		if prior {
			m.ridge[i] = max(m.ridge[i], DefaultRidge)
		}
	}
	s, infinite, err := m.maximise(slices.Clone(f.at.x))
	for err == nil && infinite != nil { // at most once a judge: what it says of itself is held then
		for _, k := range infinite {
			for _, position := range []int{m.order[k], m.tie[k]} {
				if position >= 0 {
					m.ridge[position] = DefaultRidge
				}
			}
		}
		s, infinite, err = m.maximise(slices.Clone(f.at.x))
	}
	if err != nil {
		return nil, prior, err
	}
	return s.x[:m.candidates:m.candidates], prior, nil
}

// summarise turns the resamples' abilities into limits, ranks and comparisons.
func (b *Bootstrap) summarise(fit *Fit, abilities [][]float64) {
	n := len(fit.Abilities)
	b.Low, b.High = make([]float64, n), make([]float64, n)
	b.RankLow, b.RankHigh = make([]int, n), make([]int, n)
	ranks := make([][]float64, n)
	for i := range ranks {
		ranks[i] = make([]float64, len(abilities))
	}
	rounded := make([]float64, n)
	for k, x := range abilities {
		for i, ability := range x {
			rounded[i] = math.Round(ability * 1e9)
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
	column := make([]float64, len(abilities))
	for i := range n {
		for k, x := range abilities {
			column[k] = x[i]
		}
		slices.Sort(column)
		slices.Sort(ranks[i])
		b.Low[i] = stat.Quantile(0.025, stat.LinInterp, column, nil)
		b.High[i] = stat.Quantile(0.975, stat.LinInterp, column, nil)
		b.RankLow[i] = int(stat.Quantile(0.025, stat.Empirical, ranks[i], nil))
		b.RankHigh[i] = int(stat.Quantile(0.975, stat.Empirical, ranks[i], nil))
	}
}
