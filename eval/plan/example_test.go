package plan_test

import (
	"fmt"
	"log"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// A plan computes each run from its index, so that it takes the same memory for ten pairs
// and for ten million.
func Example() {
	e := &eval.Evaluation{
		Name:     "essays",
		Items:    []eval.Item{{}},
		JSON:     eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	for _, text := range []string{"One essay.", "Another one.", "A third."} {
		id := fmt.Sprintf("%c.md", 'a'+len(e.Documents))
		e.Documents = append(e.Documents, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(text), Bytes: len(text)})
	}
	e.Normalize()

	for phase, kind := range plan.Phases(e) {
		p, err := plan.New(e, phase, plan.Options{JudgeQueues: []string{"openai"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("phase %d, %s: %d runs\n", phase, kind, p.Len("openai"))
		for i := range p.Len("openai") {
			run := p.At("openai", i)
			fmt.Println(run.Index, e.Documents[run.First].ID, "before", e.Documents[run.Second].ID)
		}
	}
	// Output:
	// phase 0, pairwise: 6 runs
	// 2 a.md before c.md
	// 3 c.md before a.md
	// 4 b.md before c.md
	// 5 c.md before b.md
	// 0 a.md before b.md
	// 1 b.md before a.md
}
