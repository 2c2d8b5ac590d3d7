package verdict_test

import (
	"fmt"
	"log"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

// The judge saw two texts as A and B, and answered with prose around its JSON.
func ExamplePairwise() {
	answer := "Both are good.\n```json\n{\"reason\": \"B names its sources.\", \"winner_doc_id\": \"B\"}\n```"
	v, err := verdict.Pairwise(answer, "A", "B", &eval.Pairwise{Ties: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Winner, "–", v.Reason)
	// Output:
	// B – B names its sources.
}

// An answer that can be read in two ways is no verdict. The error can be sent to the judge, which then answers again.
func ExamplePairwise_unclear() {
	answer := `{"winner_doc_id": "A", "reason": "x"} or rather {"winner_doc_id": "B", "reason": "y"}`
	_, err := verdict.Pairwise(answer, "A", "B", &eval.Pairwise{})
	fmt.Println(err)
	// Output:
	// the answer has several JSON objects, with different values of "winner_doc_id"; write the one that holds, and no other
}

// Each criterion has one score, a whole number on the scale.
func ExampleSingle() {
	criteria := []eval.Criterion{{Name: "clarity"}, {Name: "depth"}}
	scale := eval.Scale{Min: 1, Max: 5}
	answer := `{"evaluations": [
		{"criterion": "depth", "score": 3, "reason": "no figures"},
		{"criterion": "clarity", "score": "4", "reason": "short sentences"}]}`
	scores, err := verdict.Single(answer, criteria, scale)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range scores {
		fmt.Println(s.Criterion, s.Score)
	}

	_, err = verdict.Single(`{"evaluations": [{"criterion": "clarity", "score": 4.5, "reason": "clear"}]}`, criteria, scale)
	fmt.Println(err)
	// Output:
	// clarity 4
	// depth 3
	// score of "clarity" is 4.5; it must be a whole number from 1 to 5; criterion "depth" is missing
}
