// Package report reads an evaluation's results, ranks its candidates and presents the outcome:
// as a table for the terminal, as one self-contained page, and as the rows of the CSVs that
// package results writes.
//
// Build streams the rows once and keeps counts, so its memory grows with candidates and pairs
// of candidates, not with verdicts. It decides which verdicts count; the mathematics is
// eval/rank's. It opens no file and no connection, and asks no model.
package report

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/results"
)

// Source is what a report reads of a results store; a results.Reader is one.
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
	Timeline(ctx context.Context, id eval.ID, most int) (results.Timeline, error)
	Text(ctx context.Context, hash string) (string, error)
	Waits(ctx context.Context, id eval.ID) ([]results.Wait, error)
}

// Options of Build. The zero value is Davidson's ties, without fallback verdicts and
// without an effect of length.
type Options struct {
	Ties rank.Ties
	// Fallback counts verdicts that another model gave in a judge's place.
	Fallback bool
	// Length ranks as if all texts were of one length, by estimating what length adds.
	Length bool
	// NoPosition leaves judges' preferences for a position in the ranking, as plain
	// Bradley–Terry does.
	NoPosition bool
	// FlipsTie counts a pair on which a judge preferred another text in the other order as
	// a tie in both.
	FlipsTie bool
	// Scales weighs judges by how well they tell candidates apart (rank.Options.Scales).
	Scales bool
	// Draws and Seed are those of rank.Drawing.
	Draws int
	Seed  uint64
}

// Report is everything that is said about one evaluation. Its text is as it was
// recorded: printing must make it harmless, as WriteText and WriteHTML do.
type Report struct {
	Evaluation results.Evaluation
	Options    Options
	Phases     []results.PhaseCounts
	Calls      []results.CallTotal
	Statistics results.Statistics
	Progress   []PhaseProgress  // of each phase
	Timeline   results.Timeline // of all calls, in at most timelinePeriods
	Waits      []results.Wait   // of calls, by limit, the most frequent first
	// Spent is the cost of calls, in nano-USD, and the maximum possible cost of those whose
	// cost is unknown.
	Spent    int64
	Criteria []string // in the order of the plan

	// First and Last are when the first and the last verdict were given; zero
	// without one.
	First, Last time.Time
	Verdicts    int // on pairs, counted in the ranking; of people where there are no judges
	Scored      int // scores of single documents, counted likewise

	// Groups are rankings of candidates that were compared with each other by judges
	// (by people where there are no judges), directly or through others, the largest
	// first. There is one, unless nothing relates some candidates to the rest.
	// Candidates never compared are not in it.
	Groups []Group
	// Intervals says how the limits in Groups were found; nil where there are none.
	Intervals *Intervals
	Fit       *Fit // nil: there are no abilities
	// Unweighed says what Options.Scales changes; nil without it.
	Unweighed *Unweighed
	Cycles    rank.Cycles
	Length    rank.Lengths // of the verdicts of all judges
	// Agreement compares the judges' verdicts on pairs, nil where no two of them
	// judged the same pair. Scores and opinions are compared by criterion and by
	// dimension, in the order of the plan, where at least two gave any.
	Agreement      *Agreement
	ScoreAgreement []*Agreement
	PanelAgreement []*Agreement
	// Unranked are candidates without any verdict that counts.
	Unranked []Ranked
	Judges   []Judge  // in the order of the plan
	Listed   []Listed // in the order of the plan
	// ListedRuns are the listed runs within the evaluation's limit, in the order of the list.
	ListedRuns []ListedRun
	Panel      *Panel   // nil: none was asked
	People     *People  // nil: there are no votes
	Missing    *Missing // nil: no verdict is missing of those that count in the ranking
	Failures   []Failure
	// Readings are pairs with their texts, those that show a problem of judges first in line,
	// of the Pairs that have verdicts. In the order of the plan.
	Readings []*Pair
	Pairs    int
	// Items are how candidates did on each question, in the order of the plan; nil with one
	// question. Categories is nil where items have none.
	Items      []Item
	Categories *Categories

	elo        []results.EloRow
	candidates []string
	tallies    []*rank.Tally // of each judge
	unfitted   error         // why there are win rates but no abilities
	exhausted  bool          // every pair of documents is compared, and each candidate has one
}

// Intervals says how the limits of abilities and ranks were found.
type Intervals struct {
	// By is what verdicts may depend on each other by: their item (ByItem), or their
	// pair of documents (ByPair).
	By       string `json:"by"`
	Clusters int    `json:"clusters"` // how many of them there are
	// Draws and Seed are those of rank.Drawing.
	Draws int    `json:"draws"`
	Seed  uint64 `json:"seed"`
}

// Unweighed is the ranking without Options.Scales.
type Unweighed struct {
	Moved int // candidates that have another rank without them
	First string
}

// What Intervals.By can be.
const (
	ByItem = "item"
	ByPair = "pair"
)

// Fit is the goodness of fit of the model behind the abilities, and its estimate of the effect
// of length. The fields are those of rank.Fit.
type Fit struct {
	LogLikelihood, Deviance      float64
	DegreesOfFreedom, Iterations int
	// Dense is set where cells have enough verdicts to compare Deviance with a
	// chi-squared distribution on DegreesOfFreedom.
	Dense bool
	// Length is the log-odds that a standard deviation more of length adds, with limits; only
	// if HasLength is set.
	Length                       float64
	LengthLimits                 rank.Limits
	HasLength, LengthRegularised bool
}

// Group is one ranking.
type Group struct {
	// Item is the question that all of the group's documents answer, where that is
	// what sets the group apart; empty otherwise.
	Item   string
	Ranked []Ranked // best first
	// Separable and Regularised are those of rank.Component.
	Separable, Regularised bool
	// Neighbours say of each candidate but the last how sure it is that it is better than the
	// next; nil of a ranking by one judge or person alone, and without abilities.
	Neighbours []Neighbour

	uncertainty *rank.Uncertainty // nil: there are no abilities
}

// Beats is the probability that the candidate at position i of Ranked is better than
// the one at position j (rank.Uncertainty.Beats). NaN without abilities.
func (g Group) Beats(i, j int) float64 {
	if g.uncertainty == nil {
		return math.NaN()
	}
	return g.uncertainty.Beats(g.Ranked[i].Candidate, g.Ranked[j].Candidate)
}

// lead is how far the candidate at position k is ahead of the next, in log-odds, with
// limits; NaN of the last, without abilities, and where it cannot be told.
func (g Group) lead(k int) (lead float64, limits rank.Limits) {
	none := math.NaN()
	if math.IsNaN(g.beatsNext(k)) {
		return none, rank.Limits{SE: none, Low: none, High: none}
	}
	lead, limits, _ = g.uncertainty.Contrast(g.Ranked[k].Candidate, g.Ranked[k+1].Candidate)
	return lead, limits
}

// beatsNext is Beats of the candidate at position k and the next; NaN of the last.
func (g Group) beatsNext(k int) float64 {
	if k+1 >= len(g.Ranked) {
		return math.NaN()
	}
	return g.Beats(k, k+1)
}

// Ranked is one candidate's place. Without verdicts on pairs the place is by Overall, and only
// Rank of Standing is meaningful. The other limits are those of rank.Uncertainty.
type Ranked struct {
	Name string
	rank.Standing
	rank.Limits                           // of the ability
	RankLow, RankHigh         int         // of all candidates at once
	MarginalLow, MarginalHigh int         // of the rank of this candidate alone
	Best                      float64     // probability that it is the best; NaN: it cannot be told
	WinLimits                 rank.Limits // of Standing.WinRate; NaN: only one cluster
	Scores                    []Score     // by criterion
	Overall                   Score       // over all criteria
	ScoreLimits               rank.Limits // of Overall; NaN: of one item only
	For                       []Reason
	Against                   []Reason
}

// Score is the mean of several scores.
type Score struct {
	N   int
	sum float64
}

// Mean is 0 without scores.
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
	Positions   rank.Counts      // verdicts it was asked for, by position
	Identical   int              // ties between identical texts, without a call
	Fallback    int              // verdicts and scores that another model gave in its place
	Own         int              // verdicts on two documents of one candidate: in no ranking
	Swaps       rank.Swaps       // pairs it was asked about in both orders
	Effect      rank.JudgeEffect // in the ranking by all judges
	OrderLimits rank.Limits      // of Effect.Order
	ScaleLimits rank.Limits      // of Effect.Scale
	Length      rank.Lengths
	Cycles      rank.Cycles
	Scores      []Score // by criterion
	Failed      int     // runs
	// Card sums up how far it can be trusted; nil where no pairs were compared.
	Card *Scorecard
	// Groups are the ranking by this judge alone, as Report.Groups but without scores
	// and reasons; nil where it is the only judge, or gave no verdict.
	Groups []Group
}

// Failure is a class of failed runs.
type Failure struct {
	Class    string
	Runs     int
	Examples []results.RunRow // at most failureExamples, the first by index
}

// ByScore reports whether candidates are ranked by their mean scores, because
// there are no verdicts on pairs.
func (r *Report) ByScore() bool { return r.Verdicts == 0 && r.Scored > 0 }

// Build reads evaluation id and ranks its candidates. Failed runs are never
// counted, as a loss, a tie or a score of 0.
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
	if r.Statistics, err = source.Statistics(ctx, id); err != nil {
		return nil, err
	}
	if r.Timeline, err = source.Timeline(ctx, id, timelinePeriods); err != nil {
		return nil, err
	}
	if r.Waits, err = source.Waits(ctx, id); err != nil {
		return nil, err
	}
	b := newBuilder(r)
	if err := each(source.SingleRows(ctx, id), b.addSingle); err != nil {
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
	if err := b.finish(ctx); err != nil {
		return nil, err
	}
	b.scoreJudges()
	if err := b.finishItems(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// each hands every row on, until one cannot be read or taken.
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
