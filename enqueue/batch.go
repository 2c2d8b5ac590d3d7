package enqueue

import (
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// groups are the batches of a phase's part of a queue. Positions are divided into groups of equally many, and the runs
// of a judge within a group that have not ended are asked in one batch. The first of them leads: its task stands for
// all, and no other is pushed while it has not ended. Runs that are retried are asked alone.
type groups struct {
	size    int          // positions in a group; 0: no run of the queue is asked in a batch
	judges  int          // whose runs are in the queue
	batched []bool       // by judge
	leaders map[seat]int // index of the run that leads
}

// seat is a judge's part of a group.
type seat struct{ group, judge int }

// groupsOf returns the groups of a phase's part of a queue, without their leaders.
func (k *known) groupsOf(phase int, queue string) *groups {
	of, batch := k.record.Phases[phase], k.record.Settings.Batch
	g := &groups{}
	if batch == nil {
		return g
	}
	some := false
	for i, judge := range k.plan.JudgesOf(of.Kind) {
		here := of.JudgeQueues[i] == queue
		g.batched = append(g.batched, here && batch.Has(of.Kind, judge))
		some = some || g.batched[i]
		if here {
			g.judges++
		}
	}
	if some {
		g.size = min(batch.Runs*g.judges, record.MostInBatch)
	}
	return g
}

// around returns the positions of the whole groups that positions from `from` on and before `to` belong to.
func (g *groups) around(from, to, length int) (int, int) {
	if g.size == 0 || from >= to {
		return from, to
	}
	return from - from%g.size, min((to+g.size-1)/g.size*g.size, length)
}

// lead finds the leaders of the groups at positions of a queue, which are whole groups.
func (g *groups) lead(p *plan.Plan, queue string, from, to int, states store.States) {
	g.leaders = map[seat]int{}
	if g.size == 0 {
		return
	}
	for i := from; i < to; i++ {
		run := p.At(queue, i)
		at := seat{i / g.size, run.Judge}
		if _, led := g.leaders[at]; led || !g.batched[run.Judge] || !fresh(states.Of(run.Index)) {
			continue
		}
		g.leaders[at] = run.Index
	}
}

// fresh reports whether a run has not ended and was never retried.
func fresh(b byte) bool {
	state, generation := record.ParseStateByte(b)
	return state == eval.StateNone && generation == 0
}

// place returns the batch that the run at a position leads; nil: it leads none. waits reports that another run leads the
// batch that it belongs to. state is the run's.
func (g *groups) place(i int, run plan.Run, state byte, length int) (leads *record.Span, waits bool) {
	if g.size == 0 || !g.batched[run.Judge] || !fresh(state) {
		return nil, false
	}
	from, to := g.around(i, i+1, length)
	if g.leaders[seat{i / g.size, run.Judge}] != run.Index {
		return nil, true
	}
	return &record.Span{From: from, To: to}, false
}

// runsPerTask returns how many runs a task of the queue completes.
func (g *groups) runsPerTask() float64 {
	if g.size == 0 {
		return 1
	}
	tasks := 0
	for _, batched := range g.batched {
		if batched {
			tasks++
		}
	}
	alone := g.judges - tasks
	return float64(g.size) / float64(tasks+alone*g.size/g.judges)
}
