package eval_test

import (
	"fmt"
	"log"

	"github.com/evalfleet/evalfleet/eval"
)

// The ID of an evaluation follows from what it asks. The order in which documents and judges are listed does not change
// it, another text does.
func ExampleEvaluation_ID() {
	essays := func(texts ...string) *eval.Evaluation {
		e := &eval.Evaluation{
			Name: "essays", Items: []eval.Item{{}}, JSON: eval.JSONAuto,
			Judges:   []eval.Judge{{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"}},
			Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
		}
		for _, text := range texts {
			hash := eval.TextHash(text)
			e.Documents = append(e.Documents, eval.Document{ID: text, Candidate: text, Hash: hash, Bytes: len(text)})
		}
		e.Normalize()
		return e
	}
	fmt.Println(essays("one", "two").ID() == essays("two", "one").ID())
	fmt.Println(essays("one", "two").ID() == essays("one", "three").ID())
	// Output:
	// true
	// false
}

// A target is a provider and its name of a model, which may itself contain colons and slashes.
func ExampleParseTarget() {
	for _, target := range []string{"openai:gpt-5-mini", "openrouter:meta-llama/llama-3.3-70b:free", "gpt-5-mini"} {
		provider, model, err := eval.ParseTarget(target)
		fmt.Println(provider, model, err)
	}
	// Output:
	// openai gpt-5-mini <nil>
	// openrouter meta-llama/llama-3.3-70b:free <nil>
	//   "gpt-5-mini": want provider:model, for example openai:gpt-5-mini
}

// Votes of people are compared with the judges' verdicts. Their encoding is the same in whatever order they came.
func ExampleEncodeVotes() {
	text := eval.EncodeVotes([]eval.Vote{
		{Annotator: "ines", First: "b.md", Second: "a.md", Winner: "b.md"},
		{Annotator: "carl", First: "a.md", Second: "b.md", Winner: eval.Tie},
	})
	fmt.Print(text)
	votes, err := eval.DecodeVotes(text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(votes), "votes")
	// Output:
	// {"annotator":"carl","doc_id_1":"a.md","doc_id_2":"b.md","winner_doc_id":"tie"}
	// {"annotator":"ines","doc_id_1":"a.md","doc_id_2":"b.md","winner_doc_id":"b.md"}
	// 2 votes
}
