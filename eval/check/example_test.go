package check_test

import (
	"fmt"
	"log"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
)

// A check compares a text with what is known about its item, here the right answer.
func ExampleNew() {
	test, err := check.New(eval.Check{Name: "correct", Kind: eval.CheckContains, Value: "{{reference}}"})
	if err != nil {
		log.Fatal(err)
	}
	item := eval.Item{Question: "What is the capital of Peru?", Reference: "Lima"}
	for _, text := range []string{"It is Lima.", "It is Cusco."} {
		if why, passed := test(text, item); passed {
			fmt.Println("passed")
		} else {
			fmt.Println("failed:", why)
		}
	}
	// Output:
	// passed
	// failed: it does not contain "Lima"
}
