package report

import (
	"context"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// rating is a ranking by the verdicts of some raters, which are judges or people.
type rating struct {
	fit         *rank.Fit
	uncertainty *rank.Uncertainty
	winRates    []rank.Limits   // of each candidate
	places      map[int32]int32 // positions of raters among the fit's judges
	lambda      float64         // rank.Correction.Lambda
}

// rate ranks by the verdicts of the given raters together: either judges or people.
func (b *builder) rate(ctx context.Context, raters []int) (*rating, error) {
	places, _ := b.places(raters)
	return b.rateBy(ctx, raters, b.observed(places))
}

// rateByWinners ranks as rate does, but without degrees.
func (b *builder) rateByWinners(ctx context.Context, raters []int) (*rating, error) {
	places, _ := b.places(raters)
	observed := b.observed(places)
	for i := range observed {
		observed[i].FirstMore, observed[i].SecondMore = 0, 0
	}
	return b.rateBy(ctx, raters, observed)
}

func (b *builder) rateBy(ctx context.Context, raters []int, observed []rank.Observed) (*rating, error) {
	how := b.report.Options
	places, count := b.places(raters)
	n, options := len(b.report.candidates), b.rankOptions(raters)
	out := rating{places: places}
	var err error
	if out.fit, err = rank.FromObserved(n, count, observed, options); err != nil {
		return nil, err
	}
	out.winRates = rank.WinRates(n, observed)
	out.uncertainty, err = out.fit.Uncertainty(ctx, observed, rank.Drawing{Draws: how.Draws, Seed: how.Seed, Joint: b.joint()})
	return &out, err
}

func (b *builder) rankOptions(raters []int) rank.Options {
	how := b.report.Options
	return rank.Options{
		Ties: how.Ties, OrderEffect: raters[0] < len(b.report.Judges) && !how.NoPosition && b.report.ordered(),
		Scales: how.Scales && raters[0] < len(b.report.Judges),
	}
}

// pairClusters numbers the pairs of documents, for clusters that are single pairs. The key is the lower and the
// higher position of the two documents.
func (b *builder) pairClusters() map[[2]int32]int32 {
	clusters := map[[2]int32]int32{}
	b.verdicts.merge()
	for _, c := range b.verdicts.cells {
		low, high := c.pair()
		if _, known := clusters[[2]int32{low, high}]; !known {
			clusters[[2]int32{low, high}] = int32(len(clusters))
		}
	}
	return clusters
}

// observed returns the verdicts of the raters in places on documents of different candidates, each with its cluster.
func (b *builder) observed(places map[int32]int32) []rank.Observed {
	return b.observedIn(&b.verdicts, places)
}

func (b *builder) observedIn(said *verdicts, places map[int32]int32) []rank.Observed {
	cells, by := said.ranked(), b.clusterBy()
	documents, byItem, separate := b.report.Evaluation.Plan.Documents, by == ByItem, by == ByVerdict
	out := make([]rank.Observed, 0, len(cells))
	var pair, low, high int32 = -1, -1, -1
	for _, c := range cells {
		if l, h := c.pair(); l != low || h != high {
			pair, low, high = pair+1, l, h
		}
		rater, wanted := places[c.rater]
		first, second := documents[c.first], documents[c.second]
		if !wanted || first.Candidate == second.Candidate {
			continue
		}
		o := rank.Observed{
			Cluster: pair, Judge: rater,
			First: int32(b.candidate[first.Candidate]), Second: int32(b.candidate[second.Candidate]),
			FirstWins: c.wins, SecondWins: c.losses, Ties: c.ties, Identical: c.identical,
			FirstMore: c.winsMore, SecondMore: c.lossesMore, Soft: c.soft,
		}
		if byItem {
			o.Cluster = int32(first.Item)
		}
		if b.report.Options.Length {
			o.Longer = longerOf(first, second)
		}
		if separate {
			out = eachAlone(out, o)
			continue
		}
		out = append(out, o)
		if c.won+c.lost > 0 { // of any length
			o.FirstWins, o.SecondWins, o.Ties, o.Identical, o.Longer = c.won, c.lost, 0, 0, 0
			o.FirstMore, o.SecondMore, o.Soft = 0, 0, 0
			if b.apartGates(int(c.rater)) {
				o.Judge = int32(len(places))
			}
			out = append(out, o)
		}
	}

	return out
}

// apartGates reports whether a rating that includes a rater has one more judge, which gives the verdicts by gates: they
// do not depend on the order of the texts, and dilute no judge's order effect. If judges are weighted by their
// scale, it would have a weight, too, so
// there they are the verdicts of the judge that was not asked.
func (b *builder) apartGates(rater int) bool {
	return b.gated && rater < len(b.report.Judges) && !b.report.Options.Scales
}

// clusters returns a function that returns the cluster of the next pair, given one of its documents. That is the item
// of the document or, with ByPair, a new cluster for each call.
func (b *builder) clusters() func(document int) int {
	if b.clusterBy() == ByItem {
		return b.itemOf
	}
	pairs := 0
	return func(int) int {
		pairs++
		return pairs
	}
}

// itemOf returns the item of a document. If there is only one item, each document is a cluster of its own, so the
// function returns the document.
func (b *builder) itemOf(document int) int {
	if plan := b.report.Evaluation.Plan; len(plan.Items) > 1 {
		return plan.Documents[document].Item
	}
	return document
}

// ownItem returns the item of a document.
func (b *builder) ownItem(document int) int { return b.report.Evaluation.Plan.Documents[document].Item }

// clusterBy says which verdicts may depend on each other. These are the verdicts on one item (ByItem) if any
// candidate was compared on several items, otherwise those on one pair (ByPair). If nothing says which verdicts belong
// together, each is alone (ByVerdict).
func (b *builder) clusterBy() string {
	if b.report.separate() {
		return ByVerdict
	}
	item := map[string]int{}
	for _, c := range b.verdicts.cells {
		document := b.report.Evaluation.Plan.Documents[c.first]
		if known, ok := item[document.Candidate]; ok && known != document.Item {
			return ByItem
		}
		item[document.Candidate] = document.Item
	}
	return ByPair
}

// tallied counts the observed verdicts by judge.
func tallied(n, judges int, observed []rank.Observed) ([]*rank.Tally, error) {
	tallies := make([]*rank.Tally, judges)
	for k := range tallies {
		tallies[k] = rank.NewTally(n)
	}
	for _, o := range observed {
		counts := rank.Counts{FirstWins: int(o.FirstWins), SecondWins: int(o.SecondWins), Ties: int(o.Ties + o.Identical)}
		if err := tallies[o.Judge].AddCounts(int(o.First), int(o.Second), counts); err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// intervals says how a rating's limits were computed.
func (b *builder) intervals(of *rating) *Intervals {
	return &Intervals{By: b.clusterBy(), Clusters: of.uncertainty.Clusters, Draws: of.uncertainty.Draws, Seed: b.report.Options.Seed}
}

// denseCell is the smallest mean number of verdicts per cell for comparing the deviance with a chi-squared
// distribution. A cell holds one judge's verdicts on a pair in one order.
const denseCell = 5

func fitOf(of *rating) *Fit {
	f := of.fit
	return &Fit{
		LogLikelihood: f.LogLikelihood, Deviance: f.Deviance, DegreesOfFreedom: f.DegreesOfFreedom, Iterations: f.Iterations,
		Length: f.Length, HasLength: f.HasLength, LengthRegularised: f.LengthRegularised,
		LengthLimits: of.uncertainty.Length, Dense: f.PerCell() >= denseCell && !f.Weighted(),
	}
}
