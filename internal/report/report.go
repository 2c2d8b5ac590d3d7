// Package report reads an evaluation's results, ranks its candidates and presents the outcome. Its forms are a table
// for the terminal, one self-contained page, Markdown, JSON, and the rows of the CSVs that package results writes.
//
// Build streams the rows once and keeps only counts. Its memory grows with the number of candidates and of pairs of
// candidates, not of verdicts. It decides which verdicts count; package eval/rank does the mathematics. The package
// opens no file and no connection, and calls no model.
package report

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Source is the part of a results store that a report reads; a results.Reader is one.
type Source interface {
	Evaluation(ctx context.Context, id eval.ID) (results.Evaluation, error)
	Counts(ctx context.Context, id eval.ID) ([]results.PhaseCounts, error)
	Runs(ctx context.Context, id eval.ID, states ...eval.State) iter.Seq2[results.RunRow, error]
	PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[results.PairwiseRow, error]
	SingleRows(ctx context.Context, id eval.ID) iter.Seq2[results.SingleRow, error]
	PanelRows(ctx context.Context, id eval.ID) iter.Seq2[results.PanelRow, error]
	Votes(ctx context.Context, id eval.ID) iter.Seq2[results.VoteRow, error]
	Responses(ctx context.Context, id eval.ID) iter.Seq2[results.RunRow, error]
	CallTotals(ctx context.Context, id eval.ID) ([]results.CallTotal, error)
	Spent(ctx context.Context, id eval.ID, without ...string) (nano int64, unknown int, err error)
	Statistics(ctx context.Context, id eval.ID) (results.Statistics, error)
	Progress(ctx context.Context, id eval.ID) ([]results.Progress, error)
	OutlaysByJudge(ctx context.Context, id eval.ID) ([]results.Outlay, error)
	OutlaysByName(ctx context.Context, id eval.ID) ([]results.Outlay, error)
	Timeline(ctx context.Context, id eval.ID, most int) (results.Timeline, error)
	Text(ctx context.Context, hash string) (string, error)
	Waits(ctx context.Context, id eval.ID) ([]results.Wait, error)
	Evaluations(ctx context.Context) ([]results.Listed, error)
	Named(ctx context.Context, id eval.ID) (map[string][]string, error)
}

// Options are the options of Build. The zero value uses Davidson's model of ties, leaves out fallback verdicts, and
// does not adjust for length.
type Options struct {
	Ties rank.Ties
	// Fallback includes the verdicts that another model gave in a judge's place.
	Fallback bool
	// Length ranks as if all texts had the same length, by estimating the effect of length.
	Length bool
	// NoPosition does not remove judges' preferences for a position from the ranking, as plain Bradley–Terry does
	// not.
	NoPosition bool
	// FlipsTie counts both verdicts on a pair as ties if a judge preferred the other text in the other order.
	FlipsTie bool
	// Scales weights judges by how well they tell candidates apart (rank.Options.Scales).
	Scales bool
	// Draws and Seed are those of rank.Drawing.
	Draws int
	Seed  uint64
}

// Report holds everything that is reported about one evaluation. Its texts are as they were recorded; WriteText,
// WriteHTML and the other writers make them safe to show.
type Report struct {
	Evaluation results.Evaluation
	Options    Options
	Phases     []results.PhaseCounts
	Calls      []results.CallTotal
	Statistics results.Statistics
	Progress   []PhaseProgress  // of each phase
	Timeline   results.Timeline // of all calls, in at most timelinePeriods
	Waits      []results.Wait   // of calls, by limit; the most frequent first
	// Spent is the cost of all calls in nano-USD. A call whose cost is unknown counts with the most that it can have
	// cost.
	Spent    int64
	Criteria []string // in the order of the plan

	// First and Last are the times of the first and the last verdict; zero without one.
	First, Last time.Time
	Verdicts    int // on pairs, counted in the ranking; people's if there are no judges
	Scored      int // scores of single documents that count

	// Groups are rankings of candidates that judges compared with each other, directly or through others; the largest
	// group is first. Without judges, people's votes count. There is one group unless nothing relates some candidates
	// to the rest. Candidates that were never compared are in no group.
	Groups []Group
	// Intervals says how the limits in Groups were computed; nil if there are none.
	Intervals *Intervals
	Fit       *Fit // nil: there are no abilities
	// Unweighed says what Options.Scales changes; nil without that option.
	Unweighed *Unweighed
	// ByWinners says what degrees change; nil: verdicts have none, or do not count.
	ByWinners *Unweighed
	Cycles    rank.Cycles
	Expected  rank.ExpectedCycles // of Cycles
	Length    rank.Lengths        // of the verdicts of all judges
	// Agreement compares the judges' verdicts on pairs; nil if no pair was judged by two of them. ScoreAgreement and
	// PanelAgreement compare scores by criterion and by dimension, in the order of the plan. They leave out those
	// that fewer than two raters scored.
	Agreement      *Agreement
	ScoreAgreement []*Agreement
	PanelAgreement []*Agreement
	// Unranked are candidates without any verdict that counts.
	Unranked []Ranked
	Judges   []Judge  // in the order of the plan
	Listed   []Listed // in the order of the plan
	// ListedRuns are the listed runs that the evaluation's limit leaves, in the order of the list.
	ListedRuns []ListedRun
	// Answers says how the documents were made; nil if they are not answers to prompts.
	Answers    *Answers
	Soft       *SoftVerdicts // nil: verdicts are not soft
	ByCriteria *ByCriteria   // verdicts on pairs by criterion; nil: there are none
	Effects    *Effects      // of prompts and models; nil: candidates are not made of them, or nothing is ranked
	Panel      *Panel        // nil: the evaluation has none
	Checks     []CheckResult // in the order of the plan
	Rubric     []RubricPart  // nil: documents are not scored by rubrics
	// Escalation is nil if every judge sees everything.
	Escalation *Escalation
	OverTime   *OverTime // nil: judges were not asked about anchors
	People     *People   // nil: there are no votes
	Missing    *Missing  // nil: every verdict that would count in the ranking exists
	Failures   []Failure
	// Readings are a sample of the Pairs pairs with verdicts, with their texts. Pairs that show a problem with judges
	// come first; among the same problem they are in the order of the plan.
	Readings []*Pair
	Pairs    int
	// Items holds the candidates' results on each question, in the order of the plan; nil with only one question.
	// Categories is nil if items have none.
	Items      []Item
	Categories *Categories

	spread     *spread // of scores; nil: the evaluation asks for none
	elo        []documentElo
	documents  []documentResult // in the order of the plan
	candidates []string
	tallies    []*rank.Tally  // of each judge
	unfitted   error          // why there are win rates but no abilities
	unscored   map[string]int // runs that failed, or that another model answered, instead of scoring a document, by candidate
	likened    string         // judges that are probably one, in words; empty: none
	powerless  string         // why no test could tell candidates apart by their scores; empty: some could
	reversed   [][2]string    // pairs of candidates: the first has the higher mean score, but not where both have scores
	exhausted  bool           // every pair of documents is compared, and is a cluster of its own
}

// Intervals says how the limits of abilities and ranks were computed.
type Intervals struct {
	// By says which verdicts may depend on each other: those on one item (ByItem), on one pair of documents (ByPair),
	// or none, as far as is known (ByVerdict).
	By       string `json:"by"`
	Clusters int    `json:"clusters"` // number of items, pairs or verdicts
	// Draws and Seed are the fields of rank.Drawing.
	Draws int    `json:"draws"`
	Seed  uint64 `json:"seed"`
}

// Unweighed compares the ranking with the one that gives all judges, or all degrees, equal weight.
type Unweighed struct {
	Moved int // candidates whose rank differs
	First string
}

// The values of Intervals.By.
const (
	ByItem    = "item"
	ByPair    = "pair"
	ByVerdict = "verdict"
)

// Fit holds the goodness of fit of the model behind the abilities, and its estimate of the effect of length. The
// fields are those of rank.Fit.
type Fit struct {
	LogLikelihood, Deviance      float64
	DegreesOfFreedom, Iterations int
	// Dense is set if cells have enough verdicts to compare Deviance with a chi-squared distribution with
	// DegreesOfFreedom degrees of freedom.
	Dense bool
	// Length is the log-odds that one more standard deviation of length adds, with limits. It is valid only if
	// HasLength is set.
	Length                       float64
	LengthLimits                 rank.Limits
	HasLength, LengthRegularised bool
}

// Group is one ranking.
type Group struct {
	// Item is the id of the question that all documents of the group answer, if there are several groups; otherwise
	// empty.
	Item   string
	Ranked []Ranked // best first
	// Separable and Regularised are the fields of rank.Component.
	Separable, Regularised bool
	// Neighbours compares each candidate but the last with the next one. It is nil without tests, and in a ranking by one
	// judge or person alone.
	Neighbours []Neighbour
	// Tiers and Contenders are nil without tests. In a ranking by one judge or person alone, and in one of a category, it
	// is not known what would leave fewer contenders.
	Tiers      []Tier // best first
	Contenders *Contenders

	tests tests // nil: differences are not tested
}

// tests compares candidates by their abilities (rank.Uncertainty) or mean scores (rank.Means).
type tests interface {
	Beats(i, j int) float64
	Contrast(i, j int) (difference float64, limits rank.Limits, ok bool)
}

// Beats returns the probability that the candidate at position i of Ranked is better than the one at position j
// (rank.Uncertainty.Beats, rank.Means.Beats). It returns NaN without tests.
func (g Group) Beats(i, j int) float64 {
	if g.tests == nil {
		return math.NaN()
	}
	return g.tests.Beats(g.Ranked[i].Candidate, g.Ranked[j].Candidate)
}

// lead returns how far the candidate at position k is ahead of the next, in log-odds or in scores, with limits. It
// returns NaN for the last candidate, without tests, and if the verdicts do not tell.
func (g Group) lead(k int) (lead float64, limits rank.Limits) {
	none := math.NaN()
	if math.IsNaN(g.beatsNext(k)) {
		return none, rank.Limits{SE: none, Low: none, High: none}
	}
	lead, limits, _ = g.tests.Contrast(g.Ranked[k].Candidate, g.Ranked[k+1].Candidate)
	return lead, limits
}

// beatsNext returns the probability that the candidate at position k is better than the next; NaN for the last
// candidate.
func (g Group) beatsNext(k int) float64 {
	if k+1 >= len(g.Ranked) {
		return math.NaN()
	}
	return g.Beats(k, k+1)
}

// Ranked is a candidate with its place. Without verdicts on pairs the place is by Overall, and only Rank of Standing
// is meaningful. The other limits are those of rank.Uncertainty, or of rank.Means.
type Ranked struct {
	Name string
	rank.Standing
	rank.Limits                           // of the ability
	RankLow, RankHigh         int         // hold for all candidates at once
	MarginalLow, MarginalHigh int         // hold for this candidate alone
	Best                      float64     // probability that it is the best; NaN: unknown
	Tier                      int         // from 1; 0: no tests
	Contender                 bool        // may be the best at 95 %
	tiered                    bool        // its group has so many candidates that Tier replaces the bounds of ranks
	WinLimits                 rank.Limits // of Standing.WinRate; NaN: only one cluster
	Soft                      *SoftRate   // nil: verdicts are not soft
	Scores                    []Score     // by criterion
	Overall                   Score       // over all criteria
	ScoreLimits               rank.Limits // of Overall; NaN: only one item
	For                       []Reason
	Against                   []Reason
}

// Score is the mean of several scores.
type Score struct {
	N   int
	sum float64
}

// Mean returns the mean; 0 without scores.
func (s Score) Mean() float64 {
	if s.N == 0 {
		return 0
	}
	return s.sum / float64(s.N)
}

func (s *Score) add(value float64) {
	s.N++
	s.sum += value
}

// Judge summarises one judge's runs.
type Judge struct {
	Name, Model string
	Positions   rank.Counts      // verdicts on pairs that it was sent, by position
	Identical   int              // ties between identical texts, without a call
	Gated       int              // verdicts on texts that fail a gate, without a call
	Fallback    int              // verdicts and scores that another model gave in its place
	Own         int              // verdicts on two documents of one candidate, which are not ranked
	Swaps       rank.Swaps       // pairs it was asked about in both orders
	Effect      rank.JudgeEffect // in the ranking by all judges
	OrderLimits rank.Limits      // of Effect.Order
	ScaleLimits rank.Limits      // of Effect.Scale
	Length      rank.Lengths
	Cycles      rank.Cycles
	Scores      []Score // by criterion
	Failed      int     // runs
	// Card sums up how far the judge can be trusted; nil if no pairs were compared.
	Card *Scorecard
	// Groups is the ranking by this judge alone, as Report.Groups but without scores and reasons. It is nil for the
	// only judge, or one without verdicts.
	Groups []Group
}

// Failure is a class of failed runs.
type Failure struct {
	Class    string
	Runs     int
	Examples []results.RunRow // at most failureExamples, in order of the index
}

// ByScore reports whether candidates are ranked by their mean scores, because there are no verdicts on pairs.
func (r *Report) ByScore() bool { return r.Verdicts == 0 && r.Scored > 0 }

// Build reads the results of evaluation id and ranks its candidates. Failed runs are never counted, as a loss, a tie
// or a score of 0.
func Build(ctx context.Context, source Source, id eval.ID, options Options) (*Report, error) {
	r, err := build(ctx, source, id, options)
	if err != nil {
		return nil, fmt.Errorf("report on %s: %w", id, err)
	}
	return r, nil
}

func build(ctx context.Context, source Source, id eval.ID, options Options) (*Report, error) {
	evaluation, err := source.Evaluation(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &Report{Evaluation: evaluation, Options: options}
	if r.Phases, err = source.Counts(ctx, id); err != nil {
		return nil, err
	}
	if r.Calls, err = source.CallTotals(ctx, id); err != nil {
		return nil, err
	}
	if r.Spent, _, err = source.Spent(ctx, id); err != nil {
		return nil, err
	}
	if err := r.readAnswers(ctx, source); err != nil {
		return nil, err
	}
	if r.Statistics, err = source.Statistics(ctx, id); err != nil {
		return nil, err
	}
	if r.Timeline, err = source.Timeline(ctx, id, timelinePeriods); err != nil {
		return nil, err
	}
	if r.Waits, err = source.Waits(ctx, id); err != nil {
		return nil, err
	}
	if r.OverTime, err = readOverTime(ctx, source, evaluation); err != nil {
		return nil, err
	}
	b := newBuilder(r)
	scores := results.Scores(evaluation.Plan, watched(source.SingleRows(ctx, id), b.addMet))
	if err := each(scores, b.addSingle); err != nil {
		return nil, err
	}

	if evaluation.Plan.Panel != nil {
		r.Panel = newPanel(evaluation.Plan.Panel, len(b.candidate))
		if err := each(source.PanelRows(ctx, id), b.addPanel); err != nil {
			return nil, err
		}
	}

	if err := b.readVotes(ctx, source); err != nil {
		return nil, err
	}
	if err := each(source.PairwiseRows(ctx, id), b.addPairwise); err != nil {
		return nil, err
	}
	if err := b.addTexts(ctx, source); err != nil {
		return nil, err
	}

	if lists(evaluation.Plan) {
		for row, err := range source.Responses(ctx, id) {
			if err != nil {
				return nil, err
			}
			b.addListed(row)
		}
	}

	for row, err := range source.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return nil, err
		}
		b.addFailure(row)
	}

	if err := b.readProgress(ctx, source); err != nil {
		return nil, err
	}
	outlays, err := source.OutlaysByJudge(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := b.finish(ctx); err != nil {
		return nil, err
	}
	if err := b.rankByCriteria(ctx); err != nil {
		return nil, err
	}
	b.findEffects()
	b.scoreJudges(outlays)
	b.finishAnswers()
	b.finishChecks()
	b.finishRubric()
	if err := b.finishItems(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// watched calls see with every row that it yields.
func watched[T any](rows iter.Seq2[T, error], see func(T) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			if err == nil {
				err = see(row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// each calls take with every row, and stops at the first error of either.
func each[T any](rows iter.Seq2[T, error], take func(T) error) error {
	for row, err := range rows {
		if err == nil {
			err = take(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
