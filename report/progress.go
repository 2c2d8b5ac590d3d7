package report

import (
	"cmp"
	"context"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	runplan "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/results"
)

// PhaseProgress is the planned and the recorded runs of one phase.
type PhaseProgress struct {
	Phase  int
	Kind   eval.Kind
	Judges []JudgeProgress // in the order of the plan; last, with an empty name, calls of runs that have not ended
}

// JudgeProgress is the planned and the recorded runs of one judge in one phase.
type JudgeProgress struct {
	results.Progress
	Model   string // provider:model
	Planned int    // runs
	Missing int    // planned runs that have not ended
	Rows    int    // of results: verdicts, scores, answers
}

// plus is what both planned and recorded.
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

// name is the judge's, or describes its calls.
func (p JudgeProgress) name() string { return cmp.Or(p.Judge, "runs that have not ended") }

// took is from when the first run began to when the last ended; 0 where that is not
// known.
func (p JudgeProgress) took() time.Duration {
	if p.First.IsZero() || p.Last.IsZero() {
		return 0
	}
	return max(0, p.Last.Sub(p.First))
}

// Sum is what all judges of the phase together planned and recorded.
func (p PhaseProgress) Sum() JudgeProgress {
	var sum JudgeProgress
	for _, judge := range p.Judges {
		sum = sum.plus(judge)
	}
	return sum
}

// progress is what all phases together planned and recorded.
func (r *Report) progress() JudgeProgress {
	var sum JudgeProgress
	for _, phase := range r.Progress {
		sum = sum.plus(phase.Sum())
	}
	return sum
}

// asker is the judge asked in a phase.
type asker struct {
	phase int
	name  string
}

// readProgress joins the plan's numbers with those of the results store.
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
		asks := runplan.Asks(r.Evaluation.Plan, phase.Kind, phase.Runs)
		for k, judge := range r.Evaluation.Plan.Asked(phase.Kind) {
			of := at(judge.Name)
			of.Model, of.Planned = judge.Target(), asks[k]
		}
		for _, one := range recorded {
			if one.Phase == phase.Phase {
				at(one.Judge).Progress = one
			}
		}
		for k := range progress.Judges {
			of := &progress.Judges[k]
			// A limit on the runs may be lower now than it was.
			of.Missing = max(0, of.Planned-of.Succeeded-of.Failed-of.Cancelled)
		}
		r.Progress = append(r.Progress, progress)
	}
	return nil
}

// timelinePeriods is how many periods a timeline is drawn with at most.
const timelinePeriods = 120
