package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// finish ranks the candidates, once all rows have been read.
func (b *builder) finish(ctx context.Context) error {
	r := b.report
	slices.SortFunc(r.Failures, func(x, y Failure) int {
		return cmp.Or(cmp.Compare(y.Runs, x.Runs), cmp.Compare(x.Class, y.Class))
	})
	if err := b.rateDocuments(); err != nil {
		return err
	}
	b.compareRaters()
	b.compareWithPeople()
	all, err := b.rankPeople(ctx)
	if err != nil {
		return err
	}
	if err := b.correct(ctx); err != nil {
		return err
	}

	raters := make([]int, len(r.Judges))
	for k := range raters {
		raters[k] = k
	}
	if len(raters) == 0 {
		raters = b.annotators()
	}
	if err := b.escalate(); err != nil {
		return err
	}
	places, count := b.places(raters)
	observed := b.observed(places)
	if r.tallies, err = tallied(len(r.candidates), count, observed); err != nil {
		return err
	}
	b.rateSoftly(observed)
	if r.Verdicts == 0 {
		return b.rankByScore(ctx)
	}
	r.Expected = rank.ExpectedCycles{Mean: math.NaN(), High: math.NaN()}
	if b.escalation == nil { // a strong judge saw too few pairs, and others do not rank
		r.Cycles = rank.CyclesOf(len(r.candidates), r.tallies)
	}
	if all == nil || len(r.Judges) > 0 { // without judges, people are the raters
		all, err = b.rateAll(ctx)
	}
	if errors.Is(err, rank.ErrTooManyCandidates) {
		r.unfitted = err
		b.rankByWinRate()
		return nil
	}

	if err != nil {
		return err
	}
	b.rated = all
	r.Groups, r.Unranked = b.groups(all, b.ranked)
	if b.escalation == nil {
		r.Expected = b.expectCycles(all)
	}
	r.Fit, r.Intervals = fitOf(all), b.intervals(all)
	b.compareNeighbours(all)
	if err := b.takeEffects(ctx, all); err != nil {
		return err
	}
	if r.Escalation != nil {
		r.Escalation.Lambda = all.lambda
	}

	if err := b.unweigh(raters); err != nil {
		return err
	}
	if err := b.boundMissing(ctx, raters); err != nil {
		return err
	}
	return b.rankByEach(ctx)
}

// takeEffects sets what the ranking says of the judges' own parameters. They are about who won, so degrees do not count.
func (b *builder) takeEffects(ctx context.Context, ranking *rating) error {
	r := b.report
	winners := ranking
	if r.degrees() > 0 && r.Escalation == nil { // a strong judge's ranking has no degrees
		var err error
		if winners, err = b.rateByWinners(ctx, b.mainRaters()); err != nil {
			return err
		}
		r.ByWinners = r.unlike(winners)
	}
	for k := range r.Judges {
		b.takeEffect(k, winners)
	}
	return nil
}

// degrees returns by how many degrees a text can be better; 0: verdicts have none.
func (r *Report) degrees() int {
	if r.Evaluation.Plan.Pairwise == nil {
		return 0
	}
	return r.Evaluation.Plan.Pairwise.Degrees
}

// unlike compares the ranking with another one.
func (r *Report) unlike(other *rating) *Unweighed {
	standings := other.fit.Standings()
	out := &Unweighed{First: r.candidates[standings[0].Candidate]}
	ranks := map[int]int{}
	for _, s := range standings {
		ranks[s.Candidate] = s.Rank
	}
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			if c.Rank != ranks[c.Candidate] {
				out.Moved++
			}
		}
	}
	return out
}

// takeEffect sets what a rating says of a judge's own parameters, if it counts there.
func (b *builder) takeEffect(judge int, of *rating) {
	place, counts := of.places[int32(judge)]
	if !counts {
		return
	}
	j := &b.report.Judges[judge]
	j.Effect = of.fit.Judges[place]
	j.OrderLimits, j.ScaleLimits = of.uncertainty.Orders[place], of.uncertainty.Scales[place]
}

// expectCycles computes how many circular triples the abilities explain.
func (b *builder) expectCycles(of *rating) rank.ExpectedCycles {
	r := b.report
	ability, units := make([]float64, len(r.candidates)), map[[2]int]int{}
	for _, s := range of.fit.Standings() {
		ability[s.Candidate] = s.Ability
	}
	var low, high int32 = -1, -1
	for _, c := range b.verdicts.ranked() {
		if l, h := c.pair(); l != low || h != high {
			low, high = l, h
			i, j := b.candidate[r.Evaluation.Plan.Documents[l].Candidate], b.candidate[r.Evaluation.Plan.Documents[h].Candidate]
			units[[2]int{min(i, j), max(i, j)}]++
		}
	}
	return rank.ExpectCycles(len(r.candidates), r.tallies, ability,
		func(i, j int) int { return units[[2]int{min(i, j), max(i, j)}] }, r.Options.Seed)
}

// unweigh computes how the ranking changes without weights for judges.
func (b *builder) unweigh(raters []int) error {
	r := b.report
	if !r.Options.Scales || len(r.Judges) < 2 || len(r.Groups) == 0 || b.escalation != nil {
		return nil
	}
	options := b.rankOptions(raters)
	options.Scales = false
	places, count := b.places(raters)
	plain, err := rank.FromObserved(len(r.candidates), count, b.observed(places), options)
	if err != nil {
		return err
	}

	r.Unweighed = r.unlike(&rating{fit: plain})
	return nil
}

// rankByEach ranks by each judge alone, if there are several.
func (b *builder) rankByEach(ctx context.Context) error {
	r := b.report
	if len(r.Judges) < 2 {
		return nil
	}
	for k := range r.Judges {
		games := 0
		for _, c := range rank.Records(len(r.candidates), r.tallies[k:k+1]) {
			games += c.Games()
		}
		if games == 0 || r.Escalation != nil && r.Escalation.Corrected && k == b.escalation.strong {
			continue // the strong judge's ranking is the first
		}

		own, err := b.rate(ctx, []int{k})
		if err != nil {
			return fmt.Errorf("judge %s: %w", r.Judges[k].Name, err)
		}
		r.Judges[k].Cycles = rank.CyclesOf(len(r.candidates), r.tallies[k:k+1])
		r.Judges[k].Groups = b.bare(own)
		if _, counts := b.rated.places[int32(k)]; counts {
			continue
		}
		if r.degrees() > 0 {
			if own, err = b.rateByWinners(ctx, []int{k}); err != nil {
				return fmt.Errorf("judge %s: %w", r.Judges[k].Name, err)
			}
		}
		b.takeEffect(k, own)
	}
	return nil
}

// compareRaters computes how far judges agree, and how far the agents of a panel do.
func (b *builder) compareRaters() {
	r := b.report
	var judges []string
	for _, j := range r.Judges {
		judges = append(judges, j.Name)
	}
	first := judges[:len(r.Evaluation.Plan.FirstJudges())] // a strong judge saw the very pairs on which others disagree
	same := alikeOf(len(first))
	r.Agreement = b.agreement(0, first, same.add)
	r.likened = cmp.Or(same.words(r.Judges), b.scoredAlike(r.Judges))
	r.ScoreAgreement = b.scored.agreement(judges, r.Criteria, b.itemOf, b.ownItem)
	if r.Panel != nil {
		var dimensions []string
		for _, d := range r.Panel.Dimensions {
			dimensions = append(dimensions, d.ID)
		}
		r.PanelAgreement = b.opinions.agreement(r.Panel.Agents, dimensions, b.itemOf, b.ownItem)
	}
}

// bare returns the groups of a rating, without scores and reasons.
func (b *builder) bare(of *rating) []Group {
	groups, _ := b.groups(of, func(s rank.Standing) Ranked {
		return Ranked{Name: b.report.candidates[s.Candidate], Standing: s}
	})
	return groups
}

// groups returns the ranked candidates of a rating by component, and those it does not rank.
func (b *builder) groups(of *rating, ranked func(rank.Standing) Ranked) (groups []Group, unranked []Ranked) {
	groups = make([]Group, len(of.fit.Components))
	for c, part := range of.fit.Components {
		groups[c] = Group{Separable: part.Separable, Regularised: part.Regularised, tests: of.uncertainty}
	}
	for _, s := range of.fit.Standings() {
		one := ranked(s)
		if len(of.fit.Components[s.Component].Candidates) == 1 { // no verdict compares it with another
			one.Component = -1
			unranked = append(unranked, one)
			continue
		}
		u, i := of.uncertainty, s.Candidate
		one.Limits, one.Best = u.Abilities[i], u.Best[i]
		one.WinLimits = of.winRates[i]
		one.RankLow, one.RankHigh = u.RankLow[i], u.RankHigh[i]
		one.MarginalLow, one.MarginalHigh = u.MarginalLow[i], u.MarginalHigh[i]
		groups[s.Component].Ranked = append(groups[s.Component].Ranked, one)
	}

	for c := range groups {
		if len(groups[c].Ranked) > 0 {
			groups[c].groupTiers(of.uncertainty.Conclusions, c)
		}
	}
	groups = slices.DeleteFunc(groups, func(g Group) bool { return len(g.Ranked) == 0 })
	if len(groups) > 1 {
		b.nameGroups(groups)
	}
	return groups, unranked
}

func (b *builder) ranked(s rank.Standing) Ranked {
	i := s.Candidate
	return Ranked{
		Name: b.report.candidates[i], Standing: s, ScoreLimits: b.scoreLimits(i),
		Scores: b.scores[i], Overall: b.overall[i], Soft: b.softRate(i),
		For: b.reasons[i].won, Against: b.reasons[i].lost,
	}
}

// scoreLimits returns the limits of a candidate's mean score. They are computed by document, because each document
// answers another item.
func (b *builder) scoreLimits(candidate int) rank.Limits {
	plan := b.report.Evaluation.Plan
	if plan.Single == nil {
		return rank.Limits{}
	}
	var sums, counts []float64
	for _, d := range b.documents[candidate] {
		var all Score
		for _, one := range b.scored.scores[d] {
			all.N += one.N
			all.sum += one.sum
		}
		if all.N > 0 {
			sums, counts = append(sums, all.sum), append(counts, float64(all.N))
		}
	}
	_, limits := rank.MeanOf(sums, counts, float64(plan.Single.Scale.Min), float64(plan.Single.Scale.Max))
	return limits
}

// rankByScore ranks by mean score over all criteria, and tests the differences.
func (b *builder) rankByScore(ctx context.Context) error {
	b.rankBy(
		func(r Ranked) bool { return r.Overall.N > 0 },
		func(r Ranked) float64 { return r.Overall.Mean() })
	return b.compareScores(ctx)
}

// rankByWinRate ranks by win rate, if there are more candidates than can be fitted.
func (b *builder) rankByWinRate() {
	b.rankBy(
		func(r Ranked) bool { return r.Games() > 0 },
		func(r Ranked) float64 { return r.WinRate() })
}

func (b *builder) rankBy(counts func(Ranked) bool, value func(Ranked) float64) {
	r := b.report
	var all []Ranked
	for i, record := range rank.Records(len(r.candidates), r.tallies) {
		one := b.ranked(rank.Standing{Candidate: i, Record: record})
		if counts(one) {
			all = append(all, one)
		} else {
			r.Unranked = append(r.Unranked, one)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y Ranked) int { return cmp.Compare(value(y), value(x)) })
	for k := range all {
		all[k].Rank = k + 1
		if k > 0 && value(all[k]) == value(all[k-1]) {
			all[k].Rank = all[k-1].Rank
		}
	}
	r.Groups = []Group{{Ranked: all}}
}

// nameGroups sets Group.Item for the groups whose documents all answer one question.
func (b *builder) nameGroups(groups []Group) {
	plan := b.report.Evaluation.Plan
	const several = -1
	item := map[string]int{}
	for _, document := range plan.Documents {
		if known, ok := item[document.Candidate]; ok && known != document.Item {
			item[document.Candidate] = several
			continue
		}
		item[document.Candidate] = document.Item
	}
	for g := range groups {
		group := &groups[g]
		first := item[group.Ranked[0].Name]
		same := first != several && !slices.ContainsFunc(group.Ranked, func(r Ranked) bool { return item[r.Name] != first })
		if same {
			group.Item = plan.Items[first].ID
		}
	}
}

// Rankings returns the rows of ranking.csv, elo_summary.csv and items.csv. A number that was not estimated is NaN.
