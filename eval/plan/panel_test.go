package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// panel has documents, agents and dimensions, and is all that is asked.
func panel(documents, agents, dimensions int) *eval.Evaluation {
	e := evaluation(0, documents)
	e.Single, e.Pairwise = nil, nil
	e.Panel = &eval.Panel{Scale: eval.Scale{Min: 1, Max: 5}}
	for i := range agents {
		e.Panel.Agents = append(e.Panel.Agents, eval.Judge{Name: string(rune('a' + i)), Provider: "simulator", Model: "careful"})
	}
	for i := range dimensions {
		e.Panel.Dimensions = append(e.Panel.Dimensions, eval.Dimension{ID: string(rune('k' + i))})
	}
	e.Normalize()
	return e
}

func TestPanelAsksEveryAgentAboutEveryDimension(t *testing.T) {
	t.Parallel()
	const documents, agents, dimensions = 2, 3, 4
	p := mustPlan(t, panel(documents, agents, dimensions), 0, plan.Options{JudgeQueues: []string{"x", "y", "x"}})
	if p.Runs() != documents*agents*dimensions || p.Len("x") != 2*documents*dimensions {
		t.Fatalf("%d runs, %d of queue x", p.Runs(), p.Len("x"))
	}
	index := 0
	for document := range documents {
		for dimension := range dimensions {
			for agent := range agents {
				want := plan.Run{Index: index, Judge: agent, First: document, Second: -1, Trial: 1, Dimension: dimension}
				if diff := cmp.Diff(want, p.Run(index)); diff != "" {
					t.Errorf("run %d (-want +got):\n%s", index, diff)
				}
				index++
			}
		}
	}
}

func TestGroupIsOneAgentsRunsOfADocument(t *testing.T) {
	t.Parallel()
	const documents, agents, dimensions = 2, 3, 4
	e := panel(documents, agents, dimensions)
	for _, limit := range []int{0, 1, 5, 14, 20} {
		p := mustPlan(t, e, 0, plan.Options{JudgeQueues: []string{"x", "y", "x"}, Limit: limit})
		for index := range p.Runs() {
			run := p.Run(index)
			var want []int
			for other := range p.Runs() {
				if r := p.Run(other); r.First == run.First && r.Judge == run.Judge {
					want = append(want, other)
				}
			}
			if diff := cmp.Diff(want, p.Group(index)); diff != "" {
				t.Errorf("group of %d within %d (-want +got):\n%s", index, limit, diff)
			}
			if leader := p.Run(p.Leader(index)); leader.Index != want[0] || leader.Dimension != 0 {
				t.Errorf("leader of %d is %+v, want run %d", index, leader, want[0])
			}
		}
	}
}

func TestPanelRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*eval.Panel){
		"plan phase 0: no dimensions":                  func(p *eval.Panel) { p.Dimensions = nil },
		`plan phase 0: two dimensions have the id "k"`: func(p *eval.Panel) { p.Dimensions[2].ID = "k" },
		"plan phase 0: no judges":                      func(p *eval.Panel) { p.Agents = nil },
	} {
		e := panel(1, 1, 3)
		change(e.Panel)
		o := plan.Options{JudgeQueues: make([]string, len(e.Panel.Agents))}
		for i := range o.JudgeQueues {
			o.JudgeQueues[i] = "x"
		}
		if _, err := plan.New(e, 0, o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
