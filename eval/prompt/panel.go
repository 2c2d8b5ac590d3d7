package prompt

import (
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// anyone is the role of an agent without its own prompt.
const anyone = "You are a careful and impartial judge."

// agentWords returns the beginning of an agent's prompt: its own prompt, or a default role.
func agentWords(agent eval.Judge) string {
	if own := strings.TrimSpace(agent.Prompt); own != "" {
		return own
	}
	return anyone
}

// dimensionsList lists dimensions by the ids that answers use, with names and descriptions.
func dimensionsList(dimensions []eval.Dimension) string {
	lines := make([]string, len(dimensions))
	for i, d := range dimensions {
		name := d.ID
		if d.Name != "" && d.Name != d.ID {
			name += " (" + d.Name + ")"
		}
		lines[i] = described(name, d.Description)
	}
	return strings.Join(lines, "\n")
}

type opinion struct {
	CriterionID text    `json:"criterion_id"`
	Score       integer `json:"score"`
	Argument    text    `json:"argument"`
}

// panelAnswer returns the format of an answer that scores dimensions. It is the same for one dimension and for
// several.
func panelAnswer(dimensions []eval.Dimension, scale eval.Scale) answerFormat {
	ids := make([]string, len(dimensions))
	for i, d := range dimensions {
		ids[i] = d.ID
	}
	entry := newObject(opinion{
		CriterionID: text{Type: "string", Enum: ids},
		Score:       integer{Type: "integer", Minimum: scale.Min, Maximum: scale.Max},
		Argument:    text{Type: "string"},
	}, "criterion_id", "score", "argument")
	return answerFormat{
		name: "panel_verdict",
		words: "- evaluations: one entry for each criterion_id, every one once: " + quoted(ids, ", ") + ".\n" +
			fmt.Sprintf("- score: a whole number from %d (worst) to %d (best).\n", scale.Min, scale.Max) +
			"- argument: what decided the score, in one to three sentences; never empty.",
		schema: listSchema(entry),
	}
}
