package report

import (
	"context"

	"github.com/evalfleet/evalfleet/eval/rank"
)

const (
	// fewItems is from how many items on whole items are drawn. Limits by resampling
	// are too narrow with few clusters (Cameron, Gelbach and Miller 2008,
	// "Bootstrap-based improvements for inference with clustered errors": of 5 to 30);
	// with fewer items, pairs are drawn, and the limits hold for these items only.
	fewItems = 20
	// fewPairs is from how many pairs on pairs are drawn; with fewer the limits are
	// those of the fit.
	fewPairs = 10
)

// rating is a ranking by the verdicts of some raters.
type rating struct {
	fit       *rank.Fit
	bootstrap *rank.Bootstrap // nil: too few verdicts to draw from
}

// rate ranks by the verdicts of these raters together, which are judges or people.
func (b *builder) rate(ctx context.Context, raters []int) (*rating, error) {
	how := b.report.Options
	observed := b.observed(raters)
	n, options := len(b.report.candidates), rank.Options{Ties: how.Ties, OrderEffect: raters[0] < len(b.report.Judges)}
	var out rating
	var err error
	if out.fit, err = rank.FromObserved(n, len(raters), observed, options); err != nil {
		return nil, err
	}
	clusters := map[int32]bool{}
	for _, o := range observed {
		clusters[o.Cluster] = true
		if len(clusters) == fewPairs {
			out.bootstrap, err = out.fit.Bootstrap(ctx, observed, rank.Resampling{Resamples: how.Resamples, Seed: how.Seed})
			return &out, err
		}
	}
	return &out, nil
}

// observed are the verdicts of these raters on pairs of candidates, by cluster.
func (b *builder) observed(raters []int) []rank.Observed {
	place := map[int32]int32{} // of each rater among these
	for k, rater := range raters {
		place[int32(rater)] = int32(k)
	}
	b.verdicts.merge()
	documents, byItem := b.report.Evaluation.Plan.Documents, b.clusterBy() == ByItem
	out := make([]rank.Observed, 0, len(b.verdicts.cells))
	var pair, low, high int32 = -1, -1, -1
	for _, c := range b.verdicts.cells {
		if l, h := c.pair(); l != low || h != high {
			pair, low, high = pair+1, l, h
		}
		rater, wanted := place[c.rater]
		first, second := documents[c.first], documents[c.second]
		if !wanted || first.Candidate == second.Candidate {
			continue
		}
		o := rank.Observed{
			Cluster: pair, Judge: rater,
			First: int32(b.candidate[first.Candidate]), Second: int32(b.candidate[second.Candidate]),
			FirstWins: c.wins, SecondWins: c.losses, Ties: c.ties + c.identical,
		}
		if byItem {
			o.Cluster = int32(first.Item)
		}
		if b.report.Options.Length {
			o.Longer = rank.Relative(first.Bytes, second.Bytes)
		}
		out = append(out, o)
	}
	return out
}

// clusterBy says what is drawn.
func (b *builder) clusterBy() string {
	items := map[int]bool{}
	for _, c := range b.verdicts.cells {
		items[b.report.Evaluation.Plan.Documents[c.first].Item] = true
		if len(items) == fewItems {
			return ByItem
		}
	}
	return ByPair
}

// tallied counts what was observed, by judge.
func tallied(n, judges int, observed []rank.Observed) ([]*rank.Tally, error) {
	tallies := make([]*rank.Tally, judges)
	for k := range tallies {
		tallies[k] = rank.NewTally(n)
	}
	for _, o := range observed {
		counts := rank.Counts{FirstWins: int(o.FirstWins), SecondWins: int(o.SecondWins), Ties: int(o.Ties)}
		if err := tallies[o.Judge].AddCounts(int(o.First), int(o.Second), counts); err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// intervals says how a rating's limits were found.
func (b *builder) intervals(of *rating) *Intervals {
	drawn := of.bootstrap
	if drawn == nil {
		return nil
	}
	return &Intervals{
		By: b.clusterBy(), Clusters: drawn.Clusters, Resamples: drawn.Resamples, Seed: b.report.Options.Seed,
		Regularised: drawn.Regularised, Linearised: drawn.Linearised,
	}
}

// ownLimits are those by a fit's standard error, which stand where drawing gives none.
func ownLimits(x, se float64) rank.Limits {
	return rank.Limits{SE: se, Low: x - 1.96*se, High: x + 1.96*se}
}

func fitOf(of *rating) *Fit {
	f := of.fit
	out := &Fit{
		LogLikelihood: f.LogLikelihood, Deviance: f.Deviance, DegreesOfFreedom: f.DegreesOfFreedom, Iterations: f.Iterations,
		Length: f.Length, HasLength: f.HasLength, LengthRegularised: f.LengthRegularised,
		LengthLimits: ownLimits(f.Length, f.LengthSE),
	}
	if of.bootstrap != nil {
		out.LengthLimits = of.bootstrap.Length
	}
	return out
}
