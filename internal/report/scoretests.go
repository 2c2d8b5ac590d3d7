package report

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// compareScores tests the differences between candidates that are ranked by their mean scores. Of one item, or of more
// than rank.MaxMeans candidates, no difference is tested.
func (b *builder) compareScores(ctx context.Context) error {
	r := b.report
	if len(r.Groups) == 0 || len(r.Groups[0].Ranked) < 2 || len(r.Groups[0].Ranked) > rank.MaxMeans {
		return nil
	}
	scale := r.Evaluation.Plan.Single.Scale
	means, err := rank.MeansOf(ctx, len(r.candidates), b.scoresByItem(), float64(scale.Min), float64(scale.Max),
		rank.Drawing{Draws: r.Options.Draws, Seed: r.Options.Seed})
	if err != nil {
		return err
	}
	if means.Clusters < 2 {
		return nil
	}

	r.Intervals = &Intervals{By: ByItem, Clusters: means.Clusters, Draws: means.Draws, Seed: r.Options.Seed}
	group := &r.Groups[0]
	group.tests = means
	for k := range group.Ranked {
		one := &group.Ranked[k]
		i := one.Candidate
		one.Best = means.Best[i]
		one.RankLow, one.RankHigh = means.RankLow[i], means.RankHigh[i]
		one.MarginalLow, one.MarginalHigh = means.MarginalLow[i], means.MarginalHigh[i]
	}
	group.groupTiers(means.Conclusions, 0)
	more := means.Narrowing()
	group.Contenders.Left, group.Contenders.Clusters, group.Contenders.Of = more.Left, more.More, len(group.Ranked)
	for _, n := range means.Neighbours() {
		group.Neighbours = append(group.Neighbours, Neighbour{Right: n.Right, Clusters: n.More, Pairs: math.NaN()})
	}
	r.powerless = powerless(means, group)
	for _, pair := range means.Reversed {
		b.report.reversed = append(b.report.reversed, [2]string{r.candidates[pair[0]], r.candidates[pair[1]]})
	}
	return nil
}

// powerless says that items are too few for any test to say that a candidate is not the best, as a part of a sentence; empty
// if they are not. Of many candidates, that is the test of its own differences, of others of all at once.
func powerless(means *rank.Means, group *Group) string {
	tests := means.Tests
	if group.tiered() {
		tests = len(group.Ranked) - 1
	}
	needed := rank.ClustersFor(max(1, tests))
	if means.Decided >= needed {
		return ""
	}

	if tests <= 1 {
		return fmt.Sprintf("to tell two apart takes %s on which they differ, and these do on %s", wording.Counted(needed, "item"),
			wording.Count(means.Decided))
	}
	return fmt.Sprintf("to test %s differences at once takes %s on which two candidates differ, and no two differ on more than %s",
		wording.Count(tests), wording.Counted(needed, "item"), wording.Count(means.Decided))
}

// because returns a claim that says that candidates are not told apart, with the reason if
// no test of so few items could tell any two apart.
func (r *Report) because(claim string) string {
	if r.powerless == "" {
		return claim
	}
	return strings.TrimSuffix(claim, ".") + ": " + r.powerless + "."
}

// scoreNotes says what mean scores do not tell.
func (r *Report) scoreNotes() []string {
	if !r.ByScore() || len(r.Groups) == 0 || len(r.Groups[0].Ranked) < 2 {
		return nil
	}
	var notes []string
	switch {
	case r.tested():
	case len(r.Groups[0].Ranked) > rank.MaxMeans:
		notes = append(notes,
			fmt.Sprintf("More than %s candidates: differences between mean scores are not tested.", wording.Count(rank.MaxMeans)))
	default:
		notes = append(notes, "Not even two candidates have scores on two items in common, so it is unknown how much their difference would "+
			"vary with other items, and no candidate is called ahead.")
	}

	if n := len(r.reversed); n > 0 {
		higher, lower := called(r.reversed[0][0]), called(r.reversed[0][1])
		note := fmt.Sprintf("%s has a higher mean score than %s, but a lower one on the items that the same judges scored of both: they were "+
			"scored on different items. Neither is called better.", higher, lower)
		if n > 1 {
			note += " The same holds for " + wording.Counted(n-1, "more pair") + " of candidates."
		}
		notes = append(notes, note)
	}
	return notes
}
