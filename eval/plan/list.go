package plan

import "github.com/evalfleet/evalfleet/eval"

// list is a phase whose runs are listed individually. at returns the i-th run, with only its model and documents set.
type list interface {
	count() int
	at(i int) Run
}

type fileRuns []eval.FileRun

func (l fileRuns) count() int { return len(l) }

func (l fileRuns) at(i int) Run {
	return Run{Judge: l[i].Model, First: l[i].FileA, Second: l[i].FileB}
}

type prompts []eval.Prompt

func (l prompts) count() int { return len(l) }

func (l prompts) at(i int) Run {
	return Run{Judge: l[i].Model, First: l[i].Row, Second: -1}
}
