package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Summary is what people read about a run that succeeded as the result of its task. asynq keeps its
// Words.
type Summary struct {
	Winner   string  `json:"winner,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Scores   []Score `json:"scores,omitempty"`
	Answer   string  `json:"answer,omitempty"`
	Attempts int     `json:"attempts"`
}

// Words returns what was said, and why or the answer; "" if there is nothing to say.
func (s Summary) Words() string {
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
	return strings.Join(said, ": ")
}

// ResultInWords returns a task's result as people read it. Workers of earlier versions left a Summary as JSON; any
// other result, such as an answer that is JSON itself, is returned as it is.
func ResultInWords(result string) string {
	var s struct {
		Summary
		Attempts *int `json:"attempts"` // every Summary has it
	}
	earlier := json.NewDecoder(bytes.NewReader([]byte(result)))
	earlier.DisallowUnknownFields()
	if earlier.Decode(&s) != nil || s.Attempts == nil {
		return result
	}
	if words := s.Words(); words != "" {
		return words
	}
	return result
}
