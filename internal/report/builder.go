package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	planned "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// failureExamples is how many failed runs the report shows of each class of failure.
const failureExamples = 5

// builder collects a report from the result rows of an evaluation, which it is given one after another.
type builder struct {
	report    *Report
	candidate map[string]int // by name
	document  map[string]int // by id
	judge     map[string]int // by name
	criterion map[string]int // by name

	scores  [][]Score // by candidate and criterion
	overall []Score   // by candidate
	reasons []reasons // by candidate
	rated   *rating   // by all raters, or the strong judge; nil: there are no abilities

	documents [][]int // by candidate

	escalation *escalation // nil: every judge sees everything

	verdicts verdicts        // of judges, followed by people
	scored   *ratings        // by judges on criteria
	rubric   *rubricVerdicts // nil: there are no rubrics
	opinions *ratings        // by agents on dimensions

	missing map[int]*MissingOf // by candidate
	lacking []lacking
	own     map[int]bool // annotators whose propensity to tie is estimated separately
	sampled sampledVotes

	comparing comparing  // by criterion
	softRates []SoftRate // of each candidate; nil: verdicts are not soft

	gated    bool // there are verdicts by gates that one text wins
	readings readings
	repeats  []repeats // of each judge
	items    []Item    // in the order of the plan

	documentScores []Score        // by document
	panelScores    []Score        // by document
	waiting        map[shown]told // verdicts whose other order has not been read yet
	failure        map[string]int // position in report.Failures by class
	rows           map[asker]int  // number of result rows
}

// shown is one pair of documents in the order shown, for one judge and trial.
type shown struct {
	judge, first, second, trial int
}

// told is a verdict: who won, and the degrees above the first.
type told struct {
	outcome rank.Outcome
	more    int
}

func newBuilder(r *Report) *builder {
	plan := r.Evaluation.Plan
	b := &builder{
		report:    r,
		candidate: map[string]int{}, document: map[string]int{}, judge: map[string]int{}, criterion: map[string]int{},
		waiting: map[shown]told{}, failure: map[string]int{}, missing: map[int]*MissingOf{}, rows: map[asker]int{},
	}
	for _, document := range plan.Documents {
		r.candidates = append(r.candidates, document.Candidate)
	}
	slices.Sort(r.candidates)
	r.candidates = slices.Compact(r.candidates)
	for i, name := range r.candidates {
		b.candidate[name] = i
	}
	b.documents = make([][]int, len(r.candidates))
	for d, document := range plan.Documents {
		b.document[document.ID] = d
		i := b.candidate[document.Candidate]
		b.documents[i] = append(b.documents[i], d)
	}

	if plan.Single != nil {
		r.spread = newSpread(plan.Single.Scale)
		for c, criterion := range plan.Single.Criteria {
			b.criterion[criterion.Name] = c
			r.Criteria = append(r.Criteria, criterion.Name)
		}
	}

	for k, judge := range plan.Judges {
		b.judge[judge.Name] = k
		r.Judges = append(r.Judges, Judge{Name: judge.Name, Model: judge.Target(), Scores: make([]Score, len(r.Criteria))})
	}
	b.scores = make([][]Score, len(r.candidates))
	for i := range b.scores {
		b.scores[i] = make([]Score, len(r.Criteria))
	}
	b.overall, r.unscored = make([]Score, len(r.candidates)), map[string]int{}
	b.items, b.documentScores = make([]Item, len(plan.Items)), make([]Score, len(plan.Documents))
	b.panelScores = make([]Score, len(plan.Documents))
	b.scored, b.rubric = newRatings(len(plan.Documents), len(r.Judges), len(r.Criteria)), newRubricVerdicts(plan)
	if plan.Panel != nil {
		b.opinions = newRatings(len(plan.Documents), len(plan.Panel.Agents), len(plan.Panel.Dimensions))
	}
	if plan.Pairwise != nil {
		b.readings = readings{sizes: planned.PairSizes(plan), votes: map[[2]int][3]int{}}
	}
	r.ByCriteria = b.newByCriteria(plan.Pairwise)
	if plan.Pairwise != nil && plan.Pairwise.Soft {
		r.Soft = &SoftVerdicts{}
	}
	r.Listed, r.ListedRuns = newListed(plan), newListedRuns(r.Evaluation, r.Phases)
	b.reasons, b.repeats = make([]reasons, len(r.candidates)), make([]repeats, len(r.Judges))
	return b
}

// lookUp returns the position of a name, or an error that names the result if the plan does not have the name. what
// is the kind of name, for the error.
func lookUp(positions map[string]int, what, name string, phase, index int) (int, error) {
	position, ok := positions[name]
	if !ok {
		return 0, fmt.Errorf("result %d.%d names %s %q, which the plan does not have", phase, index, what, name)
	}
	return position, nil
}

func (b *builder) addSingle(row results.SingleRow) error {
	judge, err := lookUp(b.judge, "judge", row.Judge, row.Phase, row.Index)
	if err != nil {
		return err
	}
	candidate, err := lookUp(b.candidate, "candidate", row.Candidate, row.Phase, row.Index)
	if err != nil {
		return err
	}

	criterion, err := lookUp(b.criterion, "criterion", row.Criterion, row.Phase, row.Index)
	if err != nil {
		return err
	}
	b.recorded(row.Phase, row.Judge, row.Timestamp)
	if row.AnsweredBy != row.Model {
		b.report.Judges[judge].Fallback++
		if !b.report.Options.Fallback {
			if criterion == 0 { // a run has a row for each
				b.report.unscored[row.Candidate]++
			}
			return nil
		}
	}

	document, err := lookUp(b.document, "document", row.Document, row.Phase, row.Index)
	if err != nil {
		return err
	}
	b.scored.add(document, judge, criterion, row.Score)
	b.report.Scored++
	b.report.spread.add(row.Score)
	b.scores[candidate][criterion].add(row.Score)
	b.overall[candidate].add(row.Score)
	b.documentScores[document].add(row.Score)
	b.report.Judges[judge].Scores[criterion].add(row.Score)
	return nil
}

func (b *builder) addPairwise(row results.PairwiseRow) error {
	k, err := lookUp(b.judge, "judge", row.Judge, row.Phase, row.Index)
	if err != nil {
		return err
	}
	var documents, candidates [2]int
	for i, name := range []string{row.Document1, row.Document2} {
		if documents[i], err = lookUp(b.document, "document", name, row.Phase, row.Index); err != nil {
			return err
		}
	}
	for i, name := range []string{row.Candidate1, row.Candidate2} {
		if candidates[i], err = lookUp(b.candidate, "candidate", name, row.Phase, row.Index); err != nil {
			return err
		}
	}
	outcome, ok := winnerOf(row.Winner, row.Document1, row.Document2)
	if !ok {
		return fmt.Errorf("result %d.%d: winner %q is neither of its documents nor %q", row.Phase, row.Index, row.Winner, eval.Tie)
	}
	b.recorded(row.Phase, row.Judge, row.Timestamp)

	judge := &b.report.Judges[k]
	asked := row.AnsweredBy != ""
	if asked && row.AnsweredBy != row.Model {
		judge.Fallback++
		if !b.report.Options.Fallback {
			if candidates[0] != candidates[1] {
				b.lack(lacking{k, documents[0], documents[1]}, row.Trial)
			}
			return nil
		}
	}
	if asked {
		b.read(row, documents, outcome)
		judge.Positions.Add(outcome)
		all := b.report.Evaluation.Plan.Documents
		longer := longerOf(all[documents[0]], all[documents[1]])
		judge.Length.Add(outcome, longer)
		b.report.Length.Add(outcome, longer)
	} else if outcome != rank.Tied || row.Reason == eval.ReasonGates {
		judge.Gated++
		b.gated = b.gated || outcome != rank.Tied && candidates[0] != candidates[1]
	} else {
		judge.Identical++
	}
	said := told{outcome, eval.DegreesAbove(row.Degree)}
	b.verdicts.add(k, documents[0], documents[1], outcome, said.more, asked)
	if asked {
		b.soften(row, outcome)
		if err := b.compareBy(k, documents, row); err != nil {
			return err
		}
		b.pairOrders(judge, shown{k, documents[0], documents[1], row.Trial}, said)
	}
	if candidates[0] == candidates[1] {
		judge.Own++
		return nil
	}
	b.report.Verdicts++
	if asked && outcome != rank.Tied {
		winner, loser := candidates[0], candidates[1]
		if outcome == rank.SecondWins {
			winner, loser = loser, winner
		}
		b.keepReason(winner, loser, row)
	}
	return nil
}

// winnerOf returns the outcome that the id of a winner means for two documents. ok is false if the id is neither of
// theirs and not eval.Tie.
func winnerOf(winner, first, second string) (outcome rank.Outcome, ok bool) {
	switch winner {
	case eval.Tie:
		return rank.Tied, true
	case first:
		return rank.FirstWins, true
	case second:
		return rank.SecondWins, true
	}
	return 0, false
}

// pairOrders compares a verdict with the one on the same texts in the other order,
// once both have been read. Neighbouring runs share documents, so few wait.
func (b *builder) pairOrders(judge *Judge, key shown, said told) {
	if b.report.Evaluation.Plan.Pairwise.Order != eval.OrderBoth {
		return
	}
	other := shown{key.judge, key.second, key.first, key.trial}
	if earlier, ok := b.waiting[other]; ok {
		judge.Swaps.Add(earlier.outcome, said.outcome)
		if earlier.outcome == said.outcome && said.outcome != rank.Tied && b.report.Options.FlipsTie {
			b.verdicts.flip(key.judge, key.first, key.second, said, earlier)
		}
		delete(b.waiting, other)
		return
	}
	b.waiting[key] = said
}

// recorded counts a result row and extends the time span of the report to it.
func (b *builder) recorded(phase int, judge string, at time.Time) {
	b.rows[asker{phase, judge}]++
	r := b.report
	if at.IsZero() {
		return
	}
	if r.First.IsZero() || at.Before(r.First) {
		r.First = at
	}
	if at.After(r.Last) {
		r.Last = at
	}
}

func (b *builder) addFailure(row results.RunRow) {
	class := string(row.Class)
	k, ok := b.failure[class]
	if !ok {
		k = len(b.report.Failures)
		b.failure[class] = k
		b.report.Failures = append(b.report.Failures, Failure{Class: class})
	}
	f := &b.report.Failures[k]
	f.Runs++
	if len(f.Examples) < failureExamples {
		f.Examples = append(f.Examples, row)
	}
	if judge, ok := b.judge[row.Judge]; ok {
		b.report.Judges[judge].Failed++
	}
	b.addMissing(row)
}
