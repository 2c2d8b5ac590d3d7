// Package plan defines the runs of an evaluation's phase without ever listing them. It computes any run from its
// index, so ten million pairs take no more memory than ten.
//
// A run's index belongs to its phase alone. It counts, from the outside in, the subject (a
// document, or a pair in one order), the trial and the judge:
//
//	single:   index = (document·trials + trial)·judges + judge
//	pairwise: index = ((pair·orders + order)·trials + trial)·judges + judge
//	panel:    index = (document·dimensions + dimension)·agents + agent
//	runs:     index = position in the list
//
// Judges are innermost, so that the queue of a run follows by arithmetic and neighbouring runs of every queue share
// documents. Each listed run has its own model and follows no such order; a plan keeps four bytes for the queue of
// each. [eval.PlanVersion] freezes the meaning of an index.
//
// An index names a run; it does not say when the run is asked. Queues contain the runs of most pairwise phases in an order
// that is balanced: an evaluation that ends early has compared all documents about equally often ([Plan.Balanced]).
//
// The documents that a phase compares may depend on the results of earlier phases (BasisOf). Choose computes them, and
// from then on they are part of the plan's input. Only later rounds of swiss pairing, and the pairs that a strong judge
// sees, take memory.
//
// The package does not know which runs are already recorded. Pairs of identical texts are ordinary runs; the worker
// decides whether to ask a judge about them.
package plan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// Phases returns the kinds of an evaluation's phases in the order in which they run. A phase's number is its position
// in this list. Swiss pairing has a phase for each round, and escalation one for the strong judge.
func Phases(e *eval.Evaluation) []eval.Kind {
	var kinds []eval.Kind
	if e.Single != nil {
		kinds = append(kinds, eval.KindSingle)
	}
	if e.Pairwise != nil {
		kinds = append(kinds, slices.Repeat([]eval.Kind{eval.KindPairwise}, pairwisePhases(e))...)
	}
	if e.Panel != nil {
		kinds = append(kinds, eval.KindPanel)
	}
	if e.Runs != nil {
		kinds = append(kinds, eval.KindRuns)
	}
	if e.Prompts != nil {
		kinds = append(kinds, eval.KindPrompts)
	}
	return kinds
}

// Options are settings for running a phase. They never change the meaning of an index.
type Options struct {
	// JudgeQueues is the queue of each judge, by position in Evaluation.Asked.
	JudgeQueues []string
	// Limit keeps only the runs with an index below it; 0 keeps all.
	Limit int
	// Choice is the result of Choose for a phase that is not Fixed; nil: not chosen yet.
	Choice *Choice
}

// Plan is the indexed list of one phase's runs. It is immutable and safe for concurrent use, as long as its
// evaluation does not change.
type Plan struct {
	kind       eval.Kind
	list       list // of listed runs and prompts; other kinds use the next four fields
	cases      cases
	trials     int
	dimensions int // of a panel; 1 for other kinds
	first      int // the first judge that is asked
	judges     int // how many are, from the first on
	all        int // runs of the phase, regardless of the limit
	runs       int // runs within the limit
	queues     queues
	open       bool
}

// Run is one unit of work. Its judge and documents are positions in
// [eval.Evaluation.Asked] and [eval.Evaluation.Shown].
type Run struct {
	Index  int // in the phase
	Judge  int
	First  int // the document shown first, or the only one, or the instructions, or a prompt's row
	Second int // the document shown second, or the input; -1: none
	Trial  int // from 1
	// Dimension is a position in eval.Panel.Dimensions; 0 for other kinds.
	Dimension int
}

// cases enumerates what a phase asks every judge in every trial.
type cases interface {
	count() int
	// at returns the documents of the i-th case; second is -1 if it has only one.
	at(i int) (first, second int)
}

// New returns the plan of e's phase, which is a position in Phases. The evaluation must have been normalized. New
// hashes and checks the whole evaluation, so call it once and keep the plan. The error names every problem found.
func New(e *eval.Evaluation, phase int, o Options) (*Plan, error) {
	if err := validate(e, phase, o); err != nil {
		return nil, fmt.Errorf("plan phase %d: %w", phase, err)
	}
	kind := Phases(e)[phase]
	p := &Plan{kind: kind, dimensions: 1}
	p.first, p.judges = JudgesIn(e, phase)
	switch p.kind {
	case eval.KindSingle:
		p.cases, p.trials = documents(len(e.Documents)), e.Single.Trials
	case eval.KindPairwise:
		p.open = BasisOf(e, phase) != Fixed && o.Choice == nil
		cases, err := newComparisons(e, phase, o.Choice)
		if err != nil {
			return nil, fmt.Errorf("plan phase %d: %w", phase, err)
		}
		p.cases, p.trials = cases, e.Pairwise.Trials
	case eval.KindPanel:
		p.dimensions = len(e.Panel.Dimensions)
		p.cases, p.trials = sheets{len(e.Documents), p.dimensions}, 1
	case eval.KindRuns:
		return p.listing(fileRuns(e.Runs.List), o), nil
	case eval.KindPrompts:
		return p.listing(prompts(e.Prompts.List), o), nil
	}

	all, ok := product(p.cases.count(), p.trials, p.judges)
	if !ok {
		return nil, fmt.Errorf("plan phase %d: %d × %d trials × %d judges are more runs than can be numbered",
			phase, p.cases.count(), p.trials, p.judges)
	}

	p.all, p.runs = all, within(all, o.Limit)
	p.queues = dealtQueues(o.JudgeQueues[p.first:p.first+p.judges], p.runs)
	if c, ok := p.cases.(comparisons); ok && p.runs == p.all {
		p.queues.balanced, p.queues.perJudge = newBalanced(c.pairs, c.seed), c.orders*p.trials
	}
	return p, nil
}

// listing completes a plan with a list of runs.
func (p *Plan) listing(l list, o Options) *Plan {
	p.list, p.all = l, l.count()
	p.runs = within(p.all, o.Limit)
	p.queues = listedQueues(o.JudgeQueues, p.list, p.runs)
	return p
}

// within returns how many of all runs a limit leaves; the limit 0 leaves all.
func within(all, limit int) int {
	if limit > 0 {
		return min(all, limit)
	}
	return all
}

// Kind returns what the phase's runs ask.
func (p *Plan) Kind() eval.Kind { return p.kind }

// Open reports whether the phase's documents have not been chosen yet. Until then they are placeholders that serve
// for estimates and must not be run; the number of runs is a maximum.
func (p *Plan) Open() bool { return p.open }

// Runs returns the number of runs in all queues together.
func (p *Plan) Runs() int { return p.runs }

// Judges returns how many judges the phase asks (JudgesIn).
func (p *Plan) Judges() int { return p.judges }

// Asks counts the first `runs` runs of a phase by the judges that they ask, in the order of
// [eval.Evaluation.JudgesOf]. The evaluation must have the phase, but need not be valid.
func Asks(e *eval.Evaluation, phase, runs int) []int {
	var l list
	kind := Phases(e)[phase]
	switch kind {
	case eval.KindRuns:
		l = fileRuns(e.Runs.List)
	case eval.KindPrompts:
		l = prompts(e.Prompts.List)
	default:
		asked := make([]int, len(e.JudgesOf(kind)))
		first, judges := JudgesIn(e, phase)
		copy(asked[first:], dealt(judges, runs))
		return asked
	}
	asked := make([]int, len(e.JudgesOf(kind)))
	for index := range min(runs, l.count()) {
		asked[l.at(index).Judge]++
	}
	return asked
}

// JudgesIn returns which of the judges of its kind (eval.Evaluation.JudgesOf) a phase asks: the position of the first,
// and how many.
func JudgesIn(e *eval.Evaluation, phase int) (first, judges int) {
	kind := Phases(e)[phase]
	switch {
	case Escalated(e, phase):
		return e.Strong(), 1
	case kind == eval.KindPairwise:
		return 0, len(e.FirstJudges())
	}
	return 0, len(e.JudgesOf(kind))
}

// dealt returns how many of the first runs each judge gets, if judges take turns.
func dealt(judges, runs int) []int {
	asked := make([]int, judges)
	for judge := range asked {
		asked[judge] = runs / judges
		if judge < runs%judges {
			asked[judge]++
		}
	}
	return asked
}

// Queues returns the queues that have at least one run, sorted.
func (p *Plan) Queues() []string { return slices.Clone(p.queues.names) }

// Len returns the number of runs in a queue; 0 for an unknown queue.
func (p *Plan) Len(queue string) int { return p.queues.length[queue] }

// Balanced reports whether queues contain the runs in an order in which the first ones, however many, compare all
// documents about equally often. Runs of a pair, one for each judge, order and trial, stay next to each other. Otherwise,
// indexes rise. A phase that a limit cuts is not balanced, because the limit determines which runs it has.
func (p *Plan) Balanced() bool { return p.queues.balanced != nil }

// At returns the i-th run of a queue. It panics if i is not in [0, Len(queue)).
func (p *Plan) At(queue string, i int) Run {
	if i < 0 || i >= p.Len(queue) {
		panic(fmt.Sprintf("plan: run %d of queue %q, which has %d", i, queue, p.Len(queue)))
	}
	return p.Run(p.queues.index(queue, i))
}

// mostSpans is how many runs of a balanced queue Spans looks for one by one.
const mostSpans = 4096

// Spans returns ranges of indexes, first and last included, that contain the runs of a queue from the position `from` on
// and before `to`. Ranges are ascending and apart from each other, and may contain other runs.
func (p *Plan) Spans(queue string, from, to int) [][2]int {
	switch {
	case from >= to:
		return nil
	case !p.Balanced():
		return [][2]int{{p.At(queue, from).Index, p.At(queue, to-1).Index}}
	case to-from > mostSpans:
		return [][2]int{{0, p.runs - 1}}
	}
	return p.queues.spans(queue, from, to)
}

// Run returns the run with an index. The index may be beyond the limit, because the limit may have been lowered since
// the run was pushed. Run panics if the phase has no such run.
func (p *Plan) Run(index int) Run {
	if index < 0 || index >= p.all {
		panic(fmt.Sprintf("plan: run %d of a phase of %d", index, p.all))
	}
	if p.list != nil {
		run := p.list.at(index)
		run.Index, run.Trial = index, 1
		return run
	}
	rest, judge := index/p.judges, index%p.judges
	first, second := p.cases.at(rest / p.trials)
	return Run{
		Index: index, Judge: p.first + judge, First: first, Second: second, Trial: rest%p.trials + 1,
		Dimension: rest / p.trials % p.dimensions,
	}
}

// product multiplies non-negative factors; ok is false if the result does not fit an int.
func product(factors ...int) (result int, ok bool) {
	total := uint64(1)
	for _, f := range factors {
		high, low := bits.Mul64(total, uint64(f))
		if high != 0 || low > math.MaxInt {
			return 0, false
		}
		total = low
	}
	return int(total), true
}
