package estimate

import (
	"iter"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Known says which runs of each phase `run` would not ask about, by index. The zero value: none.
type Known struct {
	Recorded []map[int]bool // they have ended
	Answered []map[int]bool // earlier evaluations have answers to exactly the same questions
}

func inPhase(of []map[int]bool, phase int) map[int]bool {
	if phase >= len(of) {
		return nil
	}
	return of[phase]
}

// load is what a judge is asked in a phase.
type load struct {
	runs, identical, recorded, answered int
	whole, again, calls                 amount // of all runs; without the recorded ones; and without those answered, too
}

// amount is a number of calls, and how many of them belong to prompts of several turns.
type amount struct{ calls, turns int }

func (a amount) minus(b amount) amount { return amount{a.calls - b.calls, a.turns - b.turns} }

// loadsOf returns what each judge of a phase is asked, by position of the judge.
func loadsOf(q Question, phase int) []load {
	p := q.Plans[phase]
	asks, identical := plan.Asks(q.Evaluation, phase, p.Runs()), identicalByJudge(q.Evaluation, p)
	turns := turnsOf(q, p.Kind())
	recorded := count(q, p, maps.Keys(inPhase(q.Known.Recorded, phase)), turns)
	answered := count(q, p, maps.Keys(inPhase(q.Known.Answered, phase)), turns)
	var prompts []tally
	if turns != nil {
		prompts = count(q, p, rangeOf(p.Runs()), turns)
	}

	loads := make([]load, len(asks))
	for i := range loads {
		l := load{runs: asks[i], identical: identical[i], recorded: recorded[i].runs, answered: answered[i].runs}
		l.whole = amount{calls: l.runs - l.identical}
		if prompts != nil {
			l.whole = prompts[i].amount
		}
		l.again = l.whole.minus(recorded[i].amount)
		l.calls = l.again.minus(answered[i].amount)
		loads[i] = l
	}
	return loads
}

func rangeOf(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// tally counts some runs of a judge.
type tally struct {
	runs int
	amount
}

// count counts runs that need calls, by position of the judge. turns returns the calls of a run; nil: each needs one.
func count(q Question, p *plan.Plan, indexes iter.Seq[int], turns func(plan.Run) int) []tally {
	counts := make([]tally, len(q.Evaluation.JudgesOf(p.Kind())))
	for index := range indexes {
		if index >= p.Runs() {
			continue // beyond --limit
		}
		run := p.Run(index)
		if same(q.Evaluation, p.Kind(), run) {
			continue
		}

		of, n := &counts[run.Judge], 1
		if turns != nil {
			n = turns(run)
		}
		of.runs++
		of.calls += n
		if n > 1 {
			of.turns += n
		}
	}
	return counts
}

// turnsOf returns a function that counts the calls of a prompt, one for each turn; nil for other kinds. A prompt that
// cannot be read needs no calls.
func turnsOf(q Question, kind eval.Kind) func(plan.Run) int {
	if kind != eval.KindPrompts {
		return nil
	}
	prompts, turns := q.Evaluation.Prompts, map[int]int{}
	return func(run plan.Run) int {
		n, known := turns[run.First]
		if !known {
			written, _ := prompt.ReadRow(prompts.Format, q.Texts[prompts.Rows[run.First].Hash]) // no turns on an error
			n = len(written.Turns)
			turns[run.First] = n
		}
		return n
	}
}

// demand is work of a judge in a phase, in one service tier.
type demand struct {
	kind          eval.Kind
	judge         eval.Judge
	group         string // of limits; empty: none
	tier          string // service tier; empty: the standard one
	bound         bool   // the evaluation file cannot choose its tier
	batchable     bool   // it can be in a batch, if the provider has those
	calls         int
	input, output int64
	reserved      int64    // maximum output of its answers; equals output if unbounded
	begins        []begins // of its prompts, the longest first
	least         part     // of it that is asked at least; zero: all
}

// demands returns the work of so many calls of a judge, and of the model that writes JSON if verdicts take a second call.
func (s *sized) demands(i int, judge eval.Judge, of amount) []demand {
	kind, q := s.kind, s.q
	two := q.TwoCalls != nil && q.TwoCalls(kind, judge)
	group := q.Settings.Group(kind, i)
	add := func(all []demand, calls int, batchable bool) []demand {
		if calls == 0 {
			return all
		}
		d := newDemand(judge, s.part(judge, calls))
		d.group, d.tier, d.batchable, d.begins = group, judge.Tier(), batchable, s.beginnings()
		d.least = s.least
		if batchable && q.Settings.Batch.Has(kind, judge) {
			d.tier = providers.TierBatch
		}
		return append(all, d)
	}

	all := add(nil, of.calls-of.turns, kind != eval.KindPanel && !two)
	all = add(all, of.turns, false)
	if two && of.calls > 0 {
		writer, part := second(q, s.part(judge, of.calls), s.prompts)
		d := newDemand(writer, part)
		d.group, d.bound, d.least = group, true, s.least
		all = append(all, d)
	}
	return all
}

// sized is a phase whose prompts were measured.
type sized struct {
	q       Question
	kind    eval.Kind
	prompts prompts
	least   part // of it that is asked at least
}

// part returns a part of so many calls of a judge.
func (s *sized) part(judge eval.Judge, calls int) Part {
	part := Part{Kind: s.kind, Judge: judge.Name, Calls: calls, Input: s.prompts.tokens(calls, s.q.capabilities(judge))}
	part.Output, part.OutputBound = output(s.q, s.kind, judge, calls)
	return part
}

func newDemand(judge eval.Judge, p Part) demand {
	reserved := p.Output
	if p.OutputBound > 0 {
		reserved = p.OutputBound
	}
	return demand{kind: p.Kind, judge: judge, calls: p.Calls, input: p.Input, output: p.Output, reserved: reserved}
}

// callsOf sums the calls of demands.
func callsOf(asked []demand) int {
	calls := 0
	for _, d := range asked {
		calls += d.calls
	}
	return calls
}

// share returns part/of of a demand.
func (d demand) share(part, of int) demand {
	scaled := func(n int64) int64 { return (n*int64(part) + int64(of) - 1) / int64(of) }
	d.calls = int(scaled(int64(d.calls)))
	d.input, d.output, d.reserved = scaled(d.input), scaled(d.output), scaled(d.reserved)
	return d
}

// inTiers returns demands in the tiers that a function chooses.
func inTiers(asked []demand, tier func(demand) string) []demand {
	chosen := slices.Clone(asked)
	for i, d := range chosen {
		chosen[i].tier = tier(d)
	}
	return chosen
}

// callsIn counts the calls in a tier.
func callsIn(asked []demand, tier string) int {
	calls := 0
	for _, d := range asked {
		if d.tier == tier {
			calls += d.calls
		}
	}
	return calls
}

// tokens returns how many tokens of the demand a limit counts.
func (d demand) tokens(l ratelimit.Limit) int64 {
	output := d.output
	if l.Charged {
		output = d.reserved
	}
	switch l.Kind {
	case ratelimit.Tokens:
		return d.input + output
	case ratelimit.InputTokens:
		return d.input
	case ratelimit.OutputTokens:
		return output
	}
	return 0
}
