package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const tie = "tie"

// answer is what a model says to a conversation: a verdict on two documents,
// scores of one, or a sentence of prose.
func answer(model string, messages []message, schema string) string {
	j, ok := judges[model]
	if !ok {
		j = judges[defaultJudge]
	}
	documents, inPrompt := parsePrompt(messages)
	if schema == "" {
		schema = inPrompt
	}
	a := parseSchema(schema)
	switch {
	case a.winners != nil && len(documents) == 2:
		return j.pairwise(model, documents[0], documents[1], a)
	case a.criteria != nil && len(documents) == 1:
		return j.single(model, documents[0], a)
	}
	words := 0
	for _, m := range messages {
		words += len(strings.Fields(m.Content))
	}
	return fmt.Sprintf("This is a simulated answer. I was shown %d words and %d documents, and no verdict was asked that I know how to give.", words, len(documents))
}

func (j judge) pairwise(model string, first, second document, a asked) string {
	v := j.compare(model, first.text, second.text, slices.Contains(a.winners, tie))
	winner := tie
	if v.winner >= 0 {
		winner = [2]document{first, second}[v.winner].id
	}
	return encode(struct {
		Winner string `json:"winner_doc_id"`
		Reason string `json:"reason"`
	}{winner, v.reason})
}

func (j judge) single(model string, d document, a asked) string {
	evaluations := make([]map[string]any, len(a.criteria))
	for i, criterion := range a.criteria {
		score, reason := j.score(model, criterion, d.text, a.lowest, a.highest)
		evaluations[i] = map[string]any{a.criterionField: criterion, "score": score, a.reasonField: reason}
	}
	return encode(map[string]any{"evaluations": evaluations})
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // none of our own values can fail
		panic(fmt.Sprintf("simulator: encode answer: %v", err))
	}
	return string(raw)
}

var wrongID = strings.NewReplacer(
	`"winner_doc_id":"`, `"winner_doc_id":"document `,
	`"criterion":"`, `"criterion":"the `, `"criterion_id":"`, `"criterion_id":"the `)

// garble spoils an answer in one of the ways that models do.
func garble(answer string, chance uint64) string {
	ways := []func(string) string{
		func(s string) string { return s[:len(s)/2] },
		func(s string) string {
			return "Here is my verdict:\n\n```json\n" + s + "\n```\n\nI hope that this helps."
		},
		wrongID.Replace,
		func(s string) string { return strings.ReplaceAll(s, `"reason":"`, `"because":"`) },
	}
	return ways[chance%uint64(len(ways))](answer)
}
