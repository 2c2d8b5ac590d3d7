package report

import (
	"cmp"
	"context"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	runplan "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
)

// PhaseProgress holds the planned and the recorded runs of one phase.
type PhaseProgress struct {
	Phase  int
	Kind   eval.Kind
	Judges []JudgeProgress // in the order of the plan; then calls of unfinished runs, without a name
}

// JudgeProgress holds the planned and the recorded runs of one judge in one phase.
type JudgeProgress struct {
	results.Progress
	Model   string // provider:model
	Planned int    // runs
	Missing int    // planned runs that have not ended
	Rows    int    // result rows: verdicts, scores or answers
}

// plus adds up two judges' progress; First is the earlier, Last the later of theirs.
func (p JudgeProgress) plus(q JudgeProgress) JudgeProgress {
	p.Planned += q.Planned
	p.Missing += q.Missing
	p.Rows += q.Rows
	p.Succeeded += q.Succeeded
	p.Failed += q.Failed
	p.Cancelled += q.Cancelled
	p.Used = p.Used.Plus(q.Used)
	if p.First.IsZero() || !q.First.IsZero() && q.First.Before(p.First) {
		p.First = q.First
	}
	if q.Last.After(p.Last) {
		p.Last = q.Last
	}
	return p
}

// name returns the judge's name, or words for the calls of runs that have not ended.
func (p JudgeProgress) name() string { return cmp.Or(p.Judge, "runs that have not ended") }

// took returns the time from the start of the first run to the end of the last; 0 if it is not known.
func (p JudgeProgress) took() time.Duration {
	if p.First.IsZero() || p.Last.IsZero() {
		return 0
	}
	return max(0, p.Last.Sub(p.First))
}

// Sum adds up the progress of all judges of the phase.
func (p PhaseProgress) Sum() JudgeProgress {
	var sum JudgeProgress
	for _, judge := range p.Judges {
		sum = sum.plus(judge)
	}
	return sum
}

// progress adds up the progress of all phases.
func (r *Report) progress() JudgeProgress {
	var sum JudgeProgress
	for _, phase := range r.Progress {
		sum = sum.plus(phase.Sum())
	}
	return sum
}

// asker identifies a judge in a phase.
type asker struct {
	phase int
	name  string
}

// readProgress compares the planned runs with those in the results store.
func (b *builder) readProgress(ctx context.Context, source Source) error {
	r := b.report
	recorded, err := source.Progress(ctx, r.Evaluation.ID)
	if err != nil {
		return err
	}

	for _, phase := range r.Phases {
		progress := PhaseProgress{Phase: phase.Phase, Kind: phase.Kind}
		place := map[string]int{}
		at := func(name string) *JudgeProgress {
			k, ok := place[name]
			if !ok {
				k = len(progress.Judges)
				place[name] = k
				progress.Judges = append(progress.Judges, JudgeProgress{
					Progress: results.Progress{Phase: phase.Phase, Judge: name}, Rows: b.rows[asker{phase.Phase, name}],
				})
			}
			return &progress.Judges[k]
		}
		asks := runplan.Asks(r.Evaluation.Plan, phase.Phase, phase.Runs)
		first, judges := runplan.JudgesIn(r.Evaluation.Plan, phase.Phase)
		for k, judge := range r.Evaluation.Plan.JudgesOf(phase.Kind)[first : first+judges] {
			of := at(judge.Name)
			of.Model, of.Planned = judge.Target(), asks[first+k]
		}
		for _, one := range recorded {
			if one.Phase == phase.Phase {
				at(one.Judge).Progress = one
			}
		}
		for k := range progress.Judges {
			of := &progress.Judges[k]
			if r.Evaluation.Plan.Given != nil {
				of.Planned = of.Succeeded
			}
			// The limit on runs may have been lowered since some of them ran.
			of.Missing = max(0, of.Planned-of.Succeeded-of.Failed-of.Cancelled)
		}
		r.Progress = append(r.Progress, progress)
	}

	return nil
}

// timelinePeriods is the largest number of periods that a timeline shows.
const timelinePeriods = 120
