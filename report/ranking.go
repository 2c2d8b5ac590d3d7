package report

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/results"
)

// finish ranks what has been read.
func (b *builder) finish() error {
	r := b.report
	slices.SortFunc(r.Failures, func(x, y Failure) int {
		return cmp.Or(cmp.Compare(y.Runs, x.Runs), cmp.Compare(x.Class, y.Class))
	})
	if err := b.rateDocuments(); err != nil {
		return err
	}
	if r.Verdicts == 0 {
		b.rankByScore()
		return nil
	}
	fit, err := rank.BradleyTerry(len(r.candidates), r.tallies, rank.Options{Ties: r.Options.Ties, OrderEffect: true})
	if errors.Is(err, rank.ErrTooManyCandidates) {
		r.unfitted = err
		b.rankByWinRate()
		return nil
	}
	if err != nil {
		return err
	}
	for k := range r.Judges {
		r.Judges[k].Effect = fit.Judges[k]
	}
	r.Groups = make([]Group, len(fit.Components))
	for c, part := range fit.Components {
		r.Groups[c].Separable, r.Groups[c].Regularised = part.Separable, part.Regularised
	}
	for _, s := range fit.Standings() {
		if s.Games() == 0 {
			s.Component = -1
			r.Unranked = append(r.Unranked, b.ranked(s))
			continue
		}
		r.Groups[s.Component].Ranked = append(r.Groups[s.Component].Ranked, b.ranked(s))
	}
	r.Groups = slices.DeleteFunc(r.Groups, func(g Group) bool { return len(g.Ranked) == 0 })
	if len(r.Groups) > 1 {
		b.nameGroups()
	}
	return nil
}

func (b *builder) ranked(s rank.Standing) Ranked {
	i := s.Candidate
	return Ranked{
		Name: b.report.candidates[i], Standing: s,
		Scores: b.scores[i], Overall: b.overall[i],
		For: b.reasons[i].won, Against: b.reasons[i].lost,
	}
}

// rankByScore ranks by mean score over all criteria.
func (b *builder) rankByScore() {
	b.rankBy(
		func(r Ranked) bool { return r.Overall.N > 0 },
		func(r Ranked) float64 { return r.Overall.Mean() })
}

// rankByWinRate is for more candidates than can be fitted.
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

// nameGroups finds groups whose documents all answer one question.
func (b *builder) nameGroups() {
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
	for g := range b.report.Groups {
		group := &b.report.Groups[g]
		first := item[group.Ranked[0].Name]
		same := first != several && !slices.ContainsFunc(group.Ranked, func(r Ranked) bool { return item[r.Name] != first })
		if same {
			group.Item = plan.Items[first].ID
		}
	}
}

// Rankings are the rows of ranking.csv and elo_summary.csv. A number that was not
// estimated is NaN. Ranks start anew in every group.
func (r *Report) Rankings() results.Rankings {
	out := results.Rankings{Elo: r.elo}
	if r.Verdicts == 0 {
		return out
	}
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			row := results.RankingRow{
				Candidate: c.Name, Rank: c.Rank, RankLow: c.RankLow, RankHigh: c.RankHigh,
				Ability: c.Ability, SE: c.SE, Low: c.Low, High: c.High,
				Wins: c.Wins, Losses: c.Losses, Ties: c.Ties, WinRate: c.WinRate(),
			}
			if r.unfitted != nil {
				row.Ability, row.SE, row.Low, row.High = math.NaN(), math.NaN(), math.NaN(), math.NaN()
			}
			out.Ranking = append(out.Ranking, row)
		}
	}
	for _, c := range r.Unranked {
		out.Ranking = append(out.Ranking, results.RankingRow{
			Candidate: c.Name,
			Ability:   math.NaN(), SE: math.NaN(), Low: math.NaN(), High: math.NaN(), WinRate: math.NaN(),
		})
	}
	return out
}
