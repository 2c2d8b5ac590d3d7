package record

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Summary is what asynq keeps as the result of a task, as JSON.
type Summary struct {
	Winner   string  `json:"winner,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Scores   []Score `json:"scores,omitempty"`
	Answer   string  `json:"answer,omitempty"`
	Attempts int     `json:"attempts"`
}

// SummaryInWords returns a task's result as people read it: what was said, and why or the answer. Of a task of another
// program it returns the result as it is.
func SummaryInWords(result string) string {
	var s Summary
	if json.Unmarshal([]byte(result), &s) != nil {
		return result
	}

	var said []string
	switch s.Winner {
	case "":
	case eval.Tie:
		said = append(said, "tie")
	default:
		said = append(said, s.Winner+" wins")
	}
	if s.Reason != "" {
		said = append(said, s.Reason)
	}
	var scores []string
	for _, score := range s.Scores {
		words := fmt.Sprintf("%s %g", score.Criterion, score.Score)
		if score.Reason != "" {
			words += " (" + score.Reason + ")"
		}
		scores = append(scores, words)
	}
	if len(scores) > 0 {
		said = append(said, strings.Join(scores, ", "))
	}
	if s.Answer != "" {
		said = append(said, s.Answer)
	}

	if len(said) == 0 {
		return result
	}
	return strings.Join(said, ": ")
}
