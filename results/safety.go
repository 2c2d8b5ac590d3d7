package results

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// rated are the APIs whose lines prompto gives the field safety_attributes.
var rated = map[string]bool{"gemini": true, "vertexai": true}

// probabilities are the numbers of Google's words, which prompto writes as text.
var probabilities = map[string]string{"HARM_PROBABILITY_UNSPECIFIED": "0", "NEGLIGIBLE": "1", "LOW": "2", "MEDIUM": "3", "HIGH": "4"}

// finishReasons are Google's words for how an answer of use ended.
var finishReasons = map[string]string{string(providers.FinishStop): "STOP", string(providers.FinishTruncated): "MAX_TOKENS"}

// safety is the value of safety_attributes of an answered line of Gemini: an object, or of
// a prompt of several turns a list of one for each; nil: the line has none, as where
// another model answered.
func (x *experiment) safety(ctx context.Context, line object, row PromptRow) (json.RawMessage, error) {
	var api string
	_ = json.Unmarshal(line.get("api"), &api)
	if !rated[api] || row.State != eval.StateSucceeded.String() || row.AnsweredBy != row.Model {
		return nil, nil //nolint:nilnil // none
	}
	var answered []record.Call
	for call, err := range x.from.Calls(ctx, row.RunID(x.of.ID)) {
		if err != nil {
			return nil, err
		}
		if call.Class == "" && call.Model == row.AnsweredBy {
			answered = append(answered, call)
		}
	}
	var turns []string
	several := row.Answers != nil && json.Unmarshal(line.get("prompt"), &turns) == nil
	if !several {
		turns = []string{""}
	}
	if len(answered) < len(turns) {
		return nil, nil //nolint:nilnil // not all are known
	}
	var all []string
	for _, call := range answered[len(answered)-len(turns):] {
		all = append(all, attributes(call))
	}
	if several {
		return json.RawMessage("[" + strings.Join(all, ", ") + "]"), nil
	}
	return json.RawMessage(all[0]), nil
}

// attributes are a call's ratings: each category with its probability, then whether each
// blocked the answer, as Python prints a list, and how the answer ended.
func attributes(call record.Call) string {
	var out strings.Builder
	var blocked []string
	if call.Grounding != nil {
		for _, rating := range call.Grounding.Safety {
			number, known := probabilities[rating.Probability]
			if !known {
				number = rating.Probability
			}
			fmt.Fprintf(&out, "%s: %s, ", quoted(rating.Category), quoted(number))
			word := strconv.FormatBool(rating.Blocked)
			blocked = append(blocked, strings.ToUpper(word[:1])+word[1:])
		}
	}
	fmt.Fprintf(&out, "%s: %s, ", quoted("blocked"), quoted("["+strings.Join(blocked, ", ")+"]"))
	fmt.Fprintf(&out, "%s: %s", quoted("finish_reason"), quoted(cmp.Or(finishReasons[call.Finish], call.Finish)))
	return "{" + out.String() + "}"
}
