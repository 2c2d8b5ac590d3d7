package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// jsonVersion is the version of the JSON form. Adding a field does not change it.
const jsonVersion = 1

// beatsCandidates is the maximum number of candidates of a ranking with a matrix of wins.
const beatsCandidates = 200

// WriteJSON writes the report for programs. Texts are written as they were recorded; a number that does not exist is
// null.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeJSON(w, r.json(), r.Evaluation.ID)
}

func writeJSON(w io.Writer, value any, id eval.ID) error {
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	if err := out.Encode(value); err != nil {
		return fmt.Errorf("write report of %s as JSON: %w", id, err)
	}
	return nil
}

func (r *Report) json() reportJSON {
	planned, succeeded, failed, cancelled := r.runs()
	out := reportJSON{
		Version: jsonVersion, Evaluation: r.evaluationJSON(), Options: r.choices(),
		Headline: r.Headline(), Notes: r.Notes(), Runs: runsJSON{planned, succeeded, failed, cancelled},
		Verdicts: r.Verdicts, Scores: r.Scored, First: someTime(r.First), Last: someTime(r.Last), RankedBy: r.rankedBy(),
		Cycles: cyclesOf(r.Cycles), Length: lengthOf(r.Length), Agreement: agreementOf(r.Agreement, false),
		Intervals: r.Intervals, Statistics: r.Statistics,
	}
	for _, g := range r.Groups {
		out.Rankings = append(out.Rankings, r.groupJSON(g, r.abilities()))
	}
	for _, c := range r.Unranked {
		out.Unranked = append(out.Unranked, c.Name)
	}
	if f := r.Fit; f != nil {
		out.Fit = &fitJSON{number(f.LogLikelihood), number(f.Deviance), f.DegreesOfFreedom, f.Iterations, nil}
		if f.HasLength {
			out.Fit.Length = effectOf(f.Length, f.LengthLimits, f.LengthRegularised)
		}
	}

	for _, j := range r.Judges {
		out.Judges = append(out.Judges, r.judgeJSON(j))
	}
	for _, a := range r.ScoreAgreement {
		out.ScoreAgreement = append(out.ScoreAgreement, agreementOf(a, true))
	}
	out.Panel, out.People = r.panelJSON(), r.peopleJSON()
	for _, l := range r.Listed {
		out.Listed = append(out.Listed, listedJSON{l.Model, l.Runs, l.Succeeded, l.Failed, l.Truncated, usageOf(l.Used)})
	}
	out.Missing, out.Given, out.Answers = r.missingJSON(), r.givenJSON(), r.Answers.form()
	out.Checks, out.History, out.Escalation = r.checksJSON(), r.History(), r.escalationJSON()
	out.OverTime = r.OverTime.json()
	out.Rubric, out.Effects, out.ByCriteria = r.rubricJSON(), r.effectsJSON(), r.byCriteriaJSON()
	out.Soft = r.softJSON()
	out.Categories, out.Items = r.categoriesJSON(), r.itemsJSON()
	if t := r.Reliance(); t != nil {
		out.Reliance = &relianceJSON{
			t.Level, t.String(), number(t.Agree), number(t.Kappa), number(t.Alpha), number(t.Order), number(t.People), number(t.PeopleKappa), nil,
		}
		for _, one := range t.Evidence {
			out.Reliance.Evidence = append(out.Reliance.Evidence, evidenceJSON{one.Of, one.Level, number(one.Value), one.Why})
		}
	}
	r.addUse(&out)
	return out
}

// rankedBy returns the measure that ranks candidates; empty if there is nothing to rank.
func (r *Report) rankedBy() string {
	switch {
	case len(r.Groups) == 0:
		return ""
	case r.ByScore():
		return "mean_score"
	case !r.abilities():
		return "win_rate"
	default:
		return "ability"
	}
}

func (r *Report) evaluationJSON() evaluationJSON {
	e := r.Evaluation
	return evaluationJSON{
		ID: string(e.ID), Name: e.Plan.Name, Settings: r.settings(),
		Submitted: someTime(e.Created), Finished: someTime(e.Finished), Cancelled: someTime(e.Cancelled), Stopped: e.Stopped,
	}
}

func (r *Report) groupJSON(g Group, abilities bool) groupJSON {
	out := groupJSON{Item: g.Item, Separable: g.Separable, Regularised: g.Regularised, Neighbours: r.neighboursJSON(g),
		BestSet: r.bestSetJSON(g)}
	for _, tier := range g.Tiers {
		out.Tiers = append(out.Tiers, tierJSON(tier))
	}
	none := number(math.NaN())
	for k, c := range g.Ranked {
		one := candidateJSON{
			Candidate: c.Name, Rank: c.Rank, Wins: c.Wins, Losses: c.Losses, Ties: c.Ties, WinRate: number(c.WinRate()),
			Ability: none, SE: none, Low: none, High: none, ModelSE: none, BeatsNext: number(g.beatsNext(k)),
			Best: none, Elo: none, EloLow: none, EloHigh: none, WinLow: none, WinHigh: none, ScoreLow: none, ScoreHigh: none,
			Lead: none, LeadLow: none, LeadHigh: none,
			Weighted: weightedOf(c),
			For:      c.For, Against: c.Against, Scores: scoresOf(r.Criteria, c.Scores),
		}
		if g.tests != nil {
			one.RankLow, one.RankHigh, one.MarginalLow, one.MarginalHigh = &c.RankLow, &c.RankHigh, &c.MarginalLow, &c.MarginalHigh
			one.Tier, one.MayBeBest, one.Best = &c.Tier, &c.Contender, number(c.Best)
			lead, leads := g.lead(k)
			one.Lead, one.LeadLow, one.LeadHigh = number(lead), number(leads.Low), number(leads.High)
		}
		if abilities {
			one.WinLow, one.WinHigh = number(c.WinLimits.Low), number(c.WinLimits.High)
			one.Elo, one.EloLow, one.EloHigh = number(rank.Elo(c.Ability)), number(rank.Elo(c.Low)), number(rank.Elo(c.High))
			one.Ability, one.SE, one.Low, one.High, one.ModelSE = number(c.Ability), number(c.SE), number(c.Low), number(c.High), number(c.ModelSE)
		}
		if c.Games() == 0 {
			one.WinRate = none
		}
		if c.Overall.N > 0 {
			one.Score = &scoreJSON{number(c.Overall.Mean()), c.Overall.N}
			one.ScoreLow, one.ScoreHigh = number(c.ScoreLimits.Low), number(c.ScoreLimits.High)
		}
		out.Candidates = append(out.Candidates, one)
	}

	if g.tests != nil && len(g.Ranked) <= beatsCandidates {
		for i := range g.Ranked {
			row := make([]number, len(g.Ranked))
			for j := range g.Ranked {
				row[j] = number(g.Beats(i, j))
			}
			row[i] = none
			out.Beats = append(out.Beats, row)
		}
	}

	return out
}

func (r *Report) judgeJSON(j Judge) judgeJSON {
	p := j.Positions
	out := judgeJSON{
		Card: j.cardJSON(), Name: j.Name, Model: j.Model, Verdicts: p.Total(), Ties: p.Ties,
		Identical: j.Identical, Gated: j.Gated, Fallbacks: j.Fallback, Own: j.Own, Failed: j.Failed,
		Confounded: j.Effect.Confounded, TieNu: number(j.Effect.Nu()), Length: lengthOf(j.Length),
		Cycles: cyclesOf(r.cycles(j)), Scores: scoresOf(r.Criteria, j.Scores),
		BothOrders: swapsJSON{
			j.Swaps.Total(), j.Swaps.Consistent, j.Swaps.AlwaysFirst, j.Swaps.AlwaysSecond, j.Swaps.HalfTied,
			number(j.Swaps.Consistency()), number(j.Swaps.Flipped()),
		},
	}
	if r.ordered() {
		out.FirstWins, out.SecondWins = &p.FirstWins, &p.SecondWins
	}
	if j.Swaps.Total() == 0 {
		out.BothOrders.Consistency, out.BothOrders.Flipped = number(math.NaN()), number(math.NaN())
	}
	if j.Effect.HasScale {
		out.Scale = effectOf(j.Effect.Scale, j.ScaleLimits, false)
	}
	if j.Effect.HasOrder {
		out.Order = effectOf(j.Effect.Order, j.OrderLimits, j.Effect.Regularised)
	}
	for _, g := range j.Groups {
		out.Rankings = append(out.Rankings, r.groupJSON(g, r.abilities()))
	}

	return out
}

func effectOf(effect float64, limits rank.Limits, regularised bool) *effectJSON {
	return &effectJSON{number(effect), number(limits.SE), number(limits.Low), number(limits.High), regularised}
}

func cyclesOf(c rank.Cycles) cyclesJSON {
	share := number(c.Share())
	if c.Triples == 0 {
		share = number(math.NaN())
	}
	return cyclesJSON{c.Circular, c.Triples, share}
}

func lengthOf(l rank.Lengths) lengthJSON {
	return lengthJSON{l.LongerWins, l.ShorterWins, number(l.Correlation())}
}

// scoresOf returns the mean scores by criterion, omitting criteria without scores.
func scoresOf(names []string, scores []Score) map[string]scoreJSON {
	out := map[string]scoreJSON{}
	for k, s := range scores {
		if s.N > 0 {
			out[names[k]] = scoreJSON{number(s.Mean()), s.N}
		}
	}
	return out
}

func agreementOf(a *Agreement, scores bool) *agreementJSON {
	if a == nil {
		return nil
	}
	out := &agreementJSON{
		Name: a.Name, Raters: a.Raters, Units: a.Units, Complete: a.Complete,
		Fleiss: number(a.Fleiss), FleissLow: number(a.FleissLimits.Low), FleissHigh: number(a.FleissLimits.High),
		Alpha: number(a.Alpha), AlphaLow: number(a.AlphaLimits.Low), AlphaHigh: number(a.AlphaLimits.High),
	}

	if scores {
		out.Ordinal, out.OrdinalLow, out.OrdinalHigh = limitedNumber(a.Ordinal, a.OrdinalLimits)
		out.Interval, out.IntervalLow, out.IntervalHigh = limitedNumber(a.Interval, a.IntervalLimits)
		out.Within, out.WithinLow, out.WithinHigh = limitedNumber(a.Within, a.WithinLimits)
	}
	for _, p := range a.Pairs {
		out.Pairs = append(
			out.Pairs,
			raterPairJSON{
				a.Raters[p.A], a.Raters[p.B], p.Units, number(p.Raw), number(p.Cohen), number(p.CohenLimits.Low),
				number(p.CohenLimits.High),
			},
		)
	}
	return out
}

func limitedNumber(x float64, limits rank.Limits) (at, low, high *number) {
	numbers := [3]number{number(x), number(limits.Low), number(limits.High)}
	return &numbers[0], &numbers[1], &numbers[2]
}

func (r *Report) panelJSON() *panelJSON {
	p := r.Panel
	if p == nil {
		return nil
	}
	out := &panelJSON{Scored: p.Scored, Dimensions: map[string]map[string]scoreJSON{}, Candidates: map[string]map[string]scoreJSON{}}
	var dimensions []string
	for _, d := range p.Dimensions {
		dimensions = append(dimensions, d.ID)
		out.Dimensions[d.ID] = scoresOf(p.Agents, d.Scores[:len(p.Agents)])
	}
	for i, scores := range p.candidates {
		out.Candidates[r.candidates[i]] = scoresOf(dimensions, scores[:len(dimensions)])
	}
	for _, a := range r.PanelAgreement {
		out.Agreement = append(out.Agreement, agreementOf(a, true))
	}
	return out
}

// addUse adds the planned runs, the failures, and what the calls used.
func (r *Report) addUse(out *reportJSON) {
	for _, phase := range r.Progress {
		for _, j := range phase.Judges {
			out.Progress = append(out.Progress, progressJSON{
				phase.Phase, phase.Kind, j.Judge, j.Model, j.Planned, j.Succeeded, j.Failed, j.Cancelled, j.Rows,
				someTime(j.First), someTime(j.Last), usageOf(j.Used),
			})
		}
	}
	for _, f := range r.Failures {
		one := failureJSON{Class: f.Class, Runs: f.Runs}
		for _, run := range f.Examples {
			one.Examples = append(one.Examples, exampleJSON{shortRun(run), run.Judge, run.Documents, run.Attempts, run.Error})
		}
		out.Failures = append(out.Failures, one)
	}
	for _, c := range r.Calls {
		out.Calls = append(out.Calls, callsJSON{c.Model, c.Stage, usageOf(c.Usage), c.Errors})
	}
	for _, w := range r.Waits {
		out.Waits = append(out.Waits, waitJSON{w.Limit, w.Calls, number(w.Total.Seconds())})
	}
}

func usageOf(u results.Usage) usageJSON {
	return usageJSON{
		u.Calls, u.FromCache, u.Input, u.Output, u.Cached, u.Written, u.Reasoning, u.Unreported,
		number(u.CostUSD), number(u.SavedUSD), u.Unpriced,
	}
}

// someTime returns nil, written as null, for an unknown (zero) time.
func someTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// shortRun returns a run's own name if it has one, otherwise phase and index, such as "2.17".
func shortRun(r results.RunRow) string {
	return cmp.Or(r.Name, fmt.Sprintf("%d.%d", r.Phase, r.Index))
}

// WriteJSON writes the comparison for programs, as Report.WriteJSON does.
func (c *Comparison) WriteJSON(w io.Writer) error {
	out := comparisonJSON{Version: jsonVersion, Shared: c.Shared, Headline: c.Headline(), Settings: c.Settings}
	for _, r := range c.Reports {
		one := r.evaluationJSON()
		out.Evaluations = append(out.Evaluations, comparedJSON{one.ID, one.Name, one.Submitted, r.rankedBy(), r.Verdicts, r.Scored})
	}

	for _, candidate := range c.Candidates {
		one := besideJSON{Candidate: candidate.Name}
		for k, p := range candidate.Places {
			one.Moves = append(one.Moves, string(candidate.Moves[k]))
			var place *placeJSON
			if p != nil {
				none := number(math.NaN())
				place = &placeJSON{Rank: p.Rank, SharedRank: p.SharedRank, Ability: none, Low: none, High: none}
				if c.Reports[k].tested() {
					place.RankLow, place.RankHigh = &p.RankLow, &p.RankHigh
				}
				if c.Reports[k].abilities() {
					place.Ability, place.Low, place.High = number(p.Ability), number(p.Low), number(p.High)
				}
			}
			one.Places = append(one.Places, place)
		}
		out.Candidates = append(out.Candidates, one)
	}

	return writeJSON(w, out, c.Reports[0].Evaluation.ID)
}
