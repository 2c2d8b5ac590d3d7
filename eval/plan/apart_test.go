package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// samples returns an evaluation of all pairs, some of whose candidates have several documents of an item.
func samples(random *rand.Rand) *eval.Evaluation {
	e := &eval.Evaluation{
		Judges:   []eval.Judge{{Name: "j", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Apart: true},
	}
	for item := range 1 + random.IntN(4) {
		e.Items = append(e.Items, eval.Item{ID: fmt.Sprint("q", item)})
		for n := range random.IntN(30) {
			e.Documents = append(e.Documents, eval.Document{
				ID: fmt.Sprintf("%d-%02d", item, n), Item: item, Candidate: fmt.Sprint("c", random.IntN(6)), Hash: fmt.Sprint(item, n),
			})
		}
	}
	e.Normalize()
	return e
}

// TestSamplesAreNeverPaired: of documents with several of one candidate, each pair of different candidates is planned
// once, in both orders, and no other; a sample of pairs and the best n keep to that.
func TestSamplesAreNeverPaired(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for range 300 {
		e := samples(random)
		want := map[[2]int]bool{}
		for a := range e.Documents {
			for b := a + 1; b < len(e.Documents); b++ {
				if e.Documents[a].Item == e.Documents[b].Item && e.Documents[a].Candidate != e.Documents[b].Candidate {
					want[[2]int{a, b}] = true
				}
			}
		}
		if len(want) == 0 {
			continue
		}
		tried++
		e.Single = nil
		p, err := New(e, 0, Options{JudgeQueues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[[2]int]int{}
		for i := range p.Runs() {
			run := p.At("q", i)
			seen[[2]int{min(run.First, run.Second), max(run.First, run.Second)}]++
		}
		for pair, n := range seen {
			if !want[pair] || n != 2 {
				t.Fatalf("pair %v of %q and %q: %d runs", pair, e.Documents[pair[0]].Candidate, e.Documents[pair[1]].Candidate, n)
			}
		}
		if len(seen) != len(want) {
			t.Fatalf("%d pairs are planned, want %d", len(seen), len(want))
		}

		e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 0.5}
		p, err = New(e, 0, Options{JudgeQueues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Runs() {
			run := p.At("q", i)
			if !want[[2]int{min(run.First, run.Second), max(run.First, run.Second)}] {
				t.Fatalf("the sample has the pair %d and %d", run.First, run.Second)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d evaluations had pairs", tried)
	}
}

// TestBestSamples: the number of runs before the best documents are known is the most there can be.
func TestBestSamples(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	compared := 0
	for range 200 {
		e := samples(random)
		e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "c"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
		e.Pairwise.TopN = 2 + random.IntN(5)
		scores := make([]float64, len(e.Documents))
		for i := range scores {
			scores[i] = random.Float64()
		}
		if p, err := newApart(e.Documents); err != nil || p.count() == 0 {
			continue
		}
		before, err := New(e, 1, Options{JudgeQueues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		choice, err := Choose(e, 1, nil, Found{Scores: scores})
		if err != nil {
			t.Fatal(err)
		}
		after, err := New(e, 1, Options{JudgeQueues: []string{"q"}, Choice: choice})
		if err != nil {
			t.Fatal(err)
		}
		if after.Runs() > before.Runs() {
			t.Fatalf("%d runs before the choice, %d after", before.Runs(), after.Runs())
		}
		for i := range after.Runs() {
			run := after.At("q", i)
			if compared++; e.Documents[run.First].Candidate == e.Documents[run.Second].Candidate {
				t.Fatalf("two documents of %s are compared", e.Documents[run.First].Candidate)
			}
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}
