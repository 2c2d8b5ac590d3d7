package results

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Progress counts the recorded runs of one judge in one phase.
type Progress struct {
	Phase int
	// Judge may also be an agent, or the model of listed runs. It is empty for calls whose run has
	// not ended.
	Judge                        string
	Succeeded, Failed, Cancelled int // runs
	// First is when the first of these runs began, Last when the last of them ended; zero if
	// unknown.
	First, Last time.Time
	Used        Usage // by all their calls, including those of discarded generations
}

// Progress counts recorded runs by phase and judge.
func (r *reader) Progress(ctx context.Context, id eval.ID) ([]Progress, error) {
	type group struct {
		Progress
		state string
		runs  int
	}
	var all []Progress
	of := func(phase int, judge string) *Progress {
		i := slices.IndexFunc(all, func(p Progress) bool { return p.Phase == phase && p.Judge == judge })
		if i < 0 {
			i = len(all)
			all = append(all, Progress{Phase: phase, Judge: judge})
		}
		return &all[i]
	}
	ended := rows(ctx, &r.access, func(row scanner, g *group) error {
		var first, last stamp
		err := row.Scan(&g.Phase, &g.Judge, &g.state, &g.runs, &first, &last)
		g.First, g.Last = first.Time, last.Time
		return err
	}, `SELECT phase, judge, state, count(*), min(started_at), max(ended_at) FROM runs WHERE evaluation = ?
GROUP BY phase, judge, state ORDER BY phase, judge, state`, string(id))

	for g, err := range ended {
		if err != nil {
			return nil, err
		}
		p := of(g.Phase, g.Judge)
		p.count(stateOf(g.state), g.runs)
		p.First, p.Last = earlier(p.First, g.First), later(p.Last, g.Last)
	}

	used := rows(ctx, &r.access, func(row scanner, p *Progress) error {
		return row.Scan(append([]any{&p.Phase, &p.Judge}, p.Used.fields()...)...)
	}, `SELECT c.phase, coalesce(r.judge, ''), `+usageColumns+`
FROM calls c LEFT JOIN runs r ON r.evaluation = c.evaluation AND r.phase = c.phase AND r.index_ = c.index_
WHERE c.evaluation = ? GROUP BY c.phase, coalesce(r.judge, '') ORDER BY c.phase, coalesce(r.judge, '')`, string(id))

	for u, err := range used {
		if err != nil {
			return nil, err
		}
		of(u.Phase, u.Judge).Used = u.Used
	}

	return all, nil
}

func (p *Progress) count(state eval.State, runs int) {
	switch state {
	case eval.StateSucceeded:
		p.Succeeded += runs
	case eval.StateFailed:
		p.Failed += runs
	case eval.StateCancelled:
		p.Cancelled += runs
	}
}

// earlier returns the earlier of two times. A zero time counts as absent.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
