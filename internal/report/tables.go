package report

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/table"
)

// Names of the tables, which are their files without the endings.
const (
	eloName        = "elo_summary"
	rankingName    = "ranking"
	effectsName    = "effects"
	itemsName      = "items"
	comparisonName = "comparison"
)

// Tables returns the tables of this package, without rows.
func Tables() []table.Sheet {
	return []table.Sheet{
		table.Of(rankingName, rankingTable, table.Rows[rankedLine](nil)),
		table.Of(effectsName, effectTable, table.Rows[effectLine](nil)),
		table.Of(criteriaName, criteriaTable, table.Rows[criterionLine](nil)),
		table.Of(itemsName, itemTable, table.Rows[Item](nil)),
		table.Of(eloName, eloTable, table.Rows[documentElo](nil)),
		table.Of(comparisonName, comparisonTable, table.Rows[comparedLine](nil)),
	}
}

// TablesOf returns the names of the tables that Rankings has, as far as what is recorded tells.
func TablesOf(e results.Evaluation, counts []results.PhaseCounts) (names []string) {
	recorded := func(kind eval.Kind) bool {
		return slices.ContainsFunc(counts, func(p results.PhaseCounts) bool { return p.Kind == kind && p.Succeeded > 0 })
	}
	compared := recorded(eval.KindPairwise) || e.Voted()
	if compared {
		names = append(names, eloName)
	}
	if compared || recorded(eval.KindSingle) {
		names = append(names, rankingName)
		if e.Plan.Answered != nil && len(e.Plan.Answered.Candidates) > 0 {
			names = append(names, effectsName)
		}
		if recorded(eval.KindPairwise) && len(e.Plan.Pairwise.Criteria) > 0 {
			names = append(names, criteriaName)
		}
		if len(e.Plan.Items) > 1 {
			names = append(names, itemsName)
		}
	}
	return names
}

// Rankings returns the tables that are computed from verdicts and scores, and what they depend on. Ranks restart in
// every group.
func (r *Report) Rankings() results.Rankings {
	var out results.Rankings
	if r.elo != nil {
		out.Tables = append(out.Tables, table.Of(eloName, eloTable, table.Rows(r.elo)))
	}
	if r.Verdicts > 0 || r.ByScore() {
		out.Tables = append(out.Tables, table.Of(rankingName, rankingTable, r.rankedLines()))
	}
	if r.Effects != nil {
		out.Tables = append(out.Tables, table.Of(effectsName, effectTable, table.Rows(r.effectLines())))
	}
	if r.ByCriteria != nil && len(r.Groups) > 0 {
		out.Tables = append(out.Tables, table.Of(criteriaName, criteriaTable, table.Rows(r.criterionLines())))
	}
	if len(r.Items) > 0 {
		out.Tables = append(out.Tables, table.Of(itemsName, itemTable, table.Rows(r.Items)))
	}

	if r.abilities() {
		choices := r.choices()
		out.Choices = &choices
	}
	return out
}

// rankedLine is a line of the table of candidates.
type rankedLine struct {
	Ranked
	group     int  // from 1; 0: not ranked
	abilities bool // whether it has an ability
	tested    bool // whether its differences from others are tested
	beatsNext float64
	lead      float64
	leads     rank.Limits
}

// rankedLines yields the candidates by group, best first, and then those without a rank.
func (r *Report) rankedLines() iter.Seq2[rankedLine, error] {
	return func(yield func(rankedLine, error) bool) {
		for g, group := range r.Groups {
			for k, one := range group.Ranked {
				line := rankedLine{Ranked: one, group: g + 1, abilities: r.abilities(), tested: r.tested(), beatsNext: group.beatsNext(k)}
				line.lead, line.leads = group.lead(k)
				if !yield(line, nil) {
					return
				}
			}
		}

		none := math.NaN()
		for _, one := range r.Unranked {
			one.Standing = rank.Standing{Candidate: one.Candidate}
			if !yield(rankedLine{Ranked: one, beatsNext: none, lead: none, leads: rank.Limits{Low: none, High: none}}, nil) {
				return
			}
		}
	}
}

// fitted returns a number that is known only of candidates with an ability.
func fitted(value func(rankedLine) float64) func(rankedLine) float64 {
	return func(l rankedLine) float64 {
		if !l.abilities {
			return math.NaN()
		}
		return value(l)
	}
}

// scored returns a number that is known only of candidates with scores.
func scored(value func(rankedLine) float64) func(rankedLine) float64 {
	return func(l rankedLine) float64 {
		if l.Overall.N == 0 {
			return math.NaN()
		}
		return value(l)
	}
}

var rankingTable = table.Table[rankedLine]{
	table.Text("candidate", "the candidate", func(l rankedLine) string { return l.Name }),
	table.Positive("rank", "in its group, by strength, or by mean score where no pairs are compared; missing: not ranked",
		func(l rankedLine) int { return l.Rank }),
	table.Positive("rank_low", "the best rank at 95 %, for all candidates at once", func(l rankedLine) int { return l.RankLow }),
	table.Positive("rank_high", "the worst rank, likewise", func(l rankedLine) int { return l.RankHigh }),
	table.Number("ability", "in log-odds; 0 is the mean of the group", fitted(func(l rankedLine) float64 { return l.Ability })),
	table.Number("se", "standard error of `ability`", fitted(func(l rankedLine) float64 { return l.SE })),
	table.Number("low", "lower limit of `ability` at 95 %", fitted(func(l rankedLine) float64 { return l.Low })),
	table.Number("high", "upper limit", fitted(func(l rankedLine) float64 { return l.High })),
	table.Integer("wins", "verdicts for it", func(l rankedLine) int { return l.Wins }),
	table.Integer("losses", "verdicts against it", func(l rankedLine) int { return l.Losses }),
	table.Integer("ties", "verdicts for neither", func(l rankedLine) int { return l.Ties }),
	table.Number("win_rate", "share of verdicts for it; a tie is half a win; missing without any", func(l rankedLine) float64 {
		if l.Games() == 0 {
			return math.NaN()
		}
		return l.WinRate()
	}),
	table.Positive("group", "from 1: only candidates of one group were compared with each other, and each group has its own ranks",
		func(l rankedLine) int { return l.group }),
	table.Number("model_se", "standard error of the fit, which treats all verdicts as independent",
		fitted(func(l rankedLine) float64 { return l.ModelSE })),
	table.Number("beats_next", "probability that it is better than the next; missing where position and candidates "+
		"cannot be told apart, and with verdicts on one item or pair", func(l rankedLine) float64 { return l.beatsNext }),
	table.Positive("marginal_rank_low", "the best rank at 95 %, for this candidate alone", func(l rankedLine) int { return l.MarginalLow }),
	table.Positive("marginal_rank_high", "the worst rank, likewise", func(l rankedLine) int { return l.MarginalHigh }),
	table.Number("p_best", "probability that it is the best of its group; missing as `beats_next`", func(l rankedLine) float64 {
		if !l.tested {
			return math.NaN()
		}
		return l.Best
	}),
	table.Number("elo", "`ability` as 1000 + 400/ln 10 · `ability`", fitted(func(l rankedLine) float64 { return rank.Elo(l.Ability) })),
	table.Number("elo_low", "lower limit of `elo` at 95 %", fitted(func(l rankedLine) float64 { return rank.Elo(l.Low) })),
	table.Number("elo_high", "upper limit", fitted(func(l rankedLine) float64 { return rank.Elo(l.High) })),
	table.Number("win_rate_low", "lower limit of `win_rate` at 95 %", fitted(func(l rankedLine) float64 { return l.WinLimits.Low })),
	table.Number("win_rate_high", "upper limit", fitted(func(l rankedLine) float64 { return l.WinLimits.High })),
	table.Number("lead", "`ability` less that of the next in the group; without pairs, the mean difference of their scores by the "+
		"same judges on the same items", func(l rankedLine) float64 { return l.lead }),
	table.Number("lead_low", "lower limit of `lead` at 95 %", func(l rankedLine) float64 { return l.leads.Low }),
	table.Number("lead_high", "upper limit", func(l rankedLine) float64 { return l.leads.High }),
	table.Number("mean_score", "mean of its scores on all criteria; missing without scores",
		scored(func(l rankedLine) float64 { return l.Overall.Mean() })),
	table.Number("mean_score_low", "lower limit of `mean_score` at 95 %; missing with one item",
		scored(func(l rankedLine) float64 { return l.ScoreLimits.Low })),
	table.Number("mean_score_high", "upper limit", scored(func(l rankedLine) float64 { return l.ScoreLimits.High })),
	table.Integer("scores", "its scores that count", func(l rankedLine) int { return l.Overall.N }),
	table.Positive("tier", "from 1 in its group: it is worse than a candidate of the tier above, all at once at 95 %",
		func(l rankedLine) int { return l.Tier }),
	table.Known("may_be_best", "1: one of the candidates that hold the best of its group at 95 %; 0: not one of them",
		func(l rankedLine) (int, bool) {
			if l.Contender {
				return 1, true
			}
			return 0, l.Tier > 0
		}),
	table.Number("weighted_win_rate", "mean probability with which judges prefer it; a tie is half a win; missing without `soft`",
		func(l rankedLine) float64 { return softNumber(l.Ranked, func(s SoftRate) float64 { return s.Rate }) }),
	table.Number("weighted_win_rate_low", "lower limit of `weighted_win_rate` at 95 %",
		func(l rankedLine) float64 { return softNumber(l.Ranked, func(s SoftRate) float64 { return s.Low }) }),
	table.Number("weighted_win_rate_high", "upper limit",
		func(l rankedLine) float64 { return softNumber(l.Ranked, func(s SoftRate) float64 { return s.High }) }),
}

// effectLine is a line of the table of effects.
type effectLine struct {
	of, prompt, model, candidate string
	rank, rankLow, rankHigh      int // 0: of an interaction
	expected, at, p              float64
	rank.Limits
}

// effectLines returns the effects of prompts and of models, each the highest first, and then how far each candidate is
// from what they add up to, the farthest first. There are none where they are not known.
func (r *Report) effectLines() (all []effectLine) {
	e, none := r.Effects, math.NaN()
	if e.Why != "" {
		return nil
	}
	for k, one := range inOrder(e.Prompts, e.Rows) {
		all = append(all, effectLine{"prompt", one.Name, "", "", k + 1, one.RankLow, one.RankHigh, none, one.At, none, one.Limits})
	}
	for k, one := range inOrder(e.Models, e.Columns) {
		all = append(all, effectLine{"model", "", one.Name, "", k + 1, one.RankLow, one.RankHigh, none, one.At, none, one.Limits})
	}
	for _, d := range r.deviations() {
		all = append(all, effectLine{"interaction", d.prompt, d.model, d.name, 0, 0, 0, d.expected, d.By, e.P, d.Limits})
	}
	return all
}

var effectTable = table.Table[effectLine]{
	table.Text("of", "`prompt` or `model`: a main effect; `interaction`: of a candidate", func(l effectLine) string { return l.of }),
	table.Text("prompt", "the prompt; empty in a row of a model", func(l effectLine) string { return l.prompt }),
	table.Text("model", "the model; empty in a row of a prompt", func(l effectLine) string { return l.model }),
	table.Text("candidate", "the prompt together with the model, in a row of an interaction",
		func(l effectLine) string { return l.candidate }),
	table.Positive("rank", "among the prompts, or the models", func(l effectLine) int { return l.rank }),
	table.Positive("rank_low", "the best rank at 95 %, for all prompts and models at once", func(l effectLine) int { return l.rankLow }),
	table.Positive("rank_high", "the worst rank, likewise", func(l effectLine) int { return l.rankHigh }),
	table.Number("expected", "what the candidate's prompt and model add up to", func(l effectLine) float64 { return l.expected }),
	table.Number("effect", "of a prompt or model, the mean of its candidates; of a candidate, how far it is above `expected`. In "+
		"log-odds, or in scores where no pairs are compared", func(l effectLine) float64 { return l.at }),
	table.Number("se", "standard error of `effect`", func(l effectLine) float64 { return l.SE }),
	table.Number("low", "lower limit of `effect` at 95 %; those of interactions hold for all candidates at once",
		func(l effectLine) float64 { return l.Low }),
	table.Number("high", "upper limit", func(l effectLine) float64 { return l.High }),
	table.Number("p", "of the hypothesis that no prompt suits a model better than others, in each row of an interaction",
		func(l effectLine) float64 { return l.p }),
}

var itemTable = table.Table[Item]{
	table.Text("item", "the item", func(i Item) string { return i.ID }),
	table.Text("categories", "separated by `; `", func(i Item) string { return strings.Join(i.Categories, "; ") }),
	table.Integer("pairs", "of texts, with verdicts of judges", func(i Item) int { return i.Pairs }),
	table.Integer("disagree", "pairs on which judges disagree", func(i Item) int { return i.Disagree }),
	table.Integer("flipped", "pairs on which a judge follows the order of the texts", func(i Item) int { return i.Flipped }),
	table.Integer("unlike_people", "pairs on which judges and people differ", func(i Item) int { return i.Unlike }),
	table.Integer("contested", "pairs with any of these", func(i Item) int { return i.Marked }),
	table.Number("contested_share", "of `pairs`", Item.Contested),
	table.Number("spread", "standard deviation of the candidates' win rates, or mean scores", Item.Spread),
	table.Number("mean_score", "of all scores on it: the lower, the harder", Item.meanScore),
}

var eloTable = table.Table[documentElo]{
	table.Text("doc_id", "the document", func(d documentElo) string { return d.id }),
	table.Number("elo", "its rating among the documents of its item; their mean is 1000", func(d documentElo) float64 { return d.elo }),
}

// Table returns the comparison as a table: a line for every candidate in every evaluation.
func (c *Comparison) Table() table.Sheet {
	return table.Of(comparisonName, comparisonTable, func(yield func(comparedLine, error) bool) {
		for _, one := range c.Candidates {
			for k, r := range c.Reports {
				line := comparedLine{one.Name, r, Place{}, one.Moves[k]}
				if one.Places[k] != nil {
					line.Place = *one.Places[k]
				}
				if !yield(line, nil) {
					return
				}
			}
		}
	})
}

// comparedLine is a candidate in one of the compared evaluations.
type comparedLine struct {
	name string
	in   *Report
	Place
	move Move
}

// fitted reports whether the candidate has an ability there.
func (l comparedLine) fitted() bool { return l.Rank > 0 && l.in.abilities() }

var comparisonTable = table.Table[comparedLine]{
	table.Text("candidate", "the candidate", func(l comparedLine) string { return l.name }),
	table.Text("evaluation", "its id", func(l comparedLine) string { return string(l.in.Evaluation.ID) }),
	table.Text("name", "of the evaluation", func(l comparedLine) string { return l.in.Evaluation.Plan.Name }),
	table.Positive("rank", "missing: not ranked", func(l comparedLine) int { return l.Rank }),
	table.Positive("rank_low", "as in `ranking`", func(l comparedLine) int { return l.RankLow }),
	table.Positive("rank_high", "as in `ranking`", func(l comparedLine) int { return l.RankHigh }),
	table.Positive("shared_rank", "among the candidates that all evaluations rank", func(l comparedLine) int { return l.SharedRank }),
	table.Number("ability", "as in `ranking`; 0 is the mean of the shared candidates",
		comparedLimit(func(p Place) float64 { return p.Ability })),
	table.Number("low", "as in `ranking`", comparedLimit(func(p Place) float64 { return p.Low })),
	table.Number("high", "as in `ranking`", comparedLimit(func(p Place) float64 { return p.High })),
	table.Text("move", "from the first evaluation: `same`, `within`, `beyond`, `unsized`, `new`, `gone` or empty; explained below",
		func(l comparedLine) string { return string(l.move) }),
}

// comparedLimit returns a number that is known only of candidates with an ability.
func comparedLimit(value func(Place) float64) func(comparedLine) float64 {
	return func(l comparedLine) float64 {
		if !l.fitted() {
			return math.NaN()
		}
		return value(l.Place)
	}
}
