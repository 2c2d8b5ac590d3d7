package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// answerFormat describes the expected answer, in words and as a JSON schema.
type answerFormat struct {
	name   string
	words  string
	schema json.RawMessage
	search bool // the answer must be based on a search
}

func (a answerFormat) text() string {
	return a.before() + "Answer with one JSON object and nothing before or after it:\n\n" + a.words +
		"\n\nJSON schema: " + string(a.schema)
}

// prose asks for the same content in prose, for a model that is free to choose the form.
func (a answerFormat) prose() string {
	return a.before() + "Answer in prose. Say all of this in it, each under the name that stands before it:\n\n" + a.words
}

func (a answerFormat) before() string {
	if !a.search {
		return ""
	}
	return "Before you answer, search the web for what the texts claim, and take what you find into account.\n\n"
}

// object is the JSON schema of an object with properties of type P. P is a struct rather than a map, because models
// write properties in the order of the schema.
type object[P any] struct {
	Type       string   `json:"type"`
	Properties P        `json:"properties"`
	Required   []string `json:"required"`
	Additional bool     `json:"additionalProperties"`
}

func newObject[P any](properties P, required ...string) object[P] {
	return object[P]{Type: "object", Properties: properties, Required: required}
}

type text struct {
	Type string   `json:"type"`
	Enum []string `json:"enum,omitempty"`
}

type integer struct {
	Type    string `json:"type"`
	Minimum int    `json:"minimum"`
	Maximum int    `json:"maximum"`
}

type array[I any] struct {
	Type  string `json:"type"`
	Items I      `json:"items"`
}

type scores struct {
	Evaluations array[object[score]] `json:"evaluations"`
}

type score struct {
	Criterion text    `json:"criterion"`
	Score     integer `json:"score"`
	Reason    text    `json:"reason"`
}

func pairwiseAnswer(first, second string, ties bool) answerFormat {
	ids := []string{quote(first), quote(second)}
	winner := "the id of the better document, exactly " + ids[0] + " or " + ids[1]
	if ties {
		ids = append(ids, quote(eval.Tie))
		winner += "; " + quote(eval.Tie) + " only if neither is better"
	} else {
		winner += "; choose one even if they are close"
	}
	return answerFormat{
		name: "pairwise_verdict",
		words: "- winner_doc_id: " + winner + ".\n" +
			"- reason: what decided, in one to three sentences; never empty.",
		// Built as text for speed, because every run has its own schema.
		schema: json.RawMessage(`{"type":"object","properties":{"winner_doc_id":{"type":"string","enum":[` + strings.Join(ids, ",") +
			`]},"reason":{"type":"string"}},"required":["winner_doc_id","reason"],"additionalProperties":false}`),
	}
}

func singleAnswer(s *eval.Single) answerFormat {
	names := make([]string, len(s.Criteria))
	quoted := make([]string, len(s.Criteria))
	for i, c := range s.Criteria {
		names[i], quoted[i] = c.Name, string(encode(c.Name))
	}
	entry := newObject(score{
		Criterion: text{Type: "string", Enum: names},
		Score:     integer{Type: "integer", Minimum: s.Scale.Min, Maximum: s.Scale.Max},
		Reason:    text{Type: "string"},
	}, "criterion", "score", "reason")
	return answerFormat{
		name: "single_verdict",
		words: "- evaluations: one entry for each criterion, every criterion once: " + strings.Join(quoted, ", ") + ".\n" +
			fmt.Sprintf("- score: a whole number from %d (worst) to %d (best).\n", s.Scale.Min, s.Scale.Max) +
			"- reason: what decided the score, in one to three sentences; never empty.",
		schema: encode(newObject(scores{
			Evaluations: array[object[score]]{Type: "array", Items: entry},
		}, "evaluations")),
	}
}

// quote returns the JSON of a text.
func quote(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return string(encode(s))
		}
	}
	return `"` + s + `"`
}

// encode returns the JSON of v on one line, without escaping <, > and &.
func encode(v any) json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("prompt: encode: %v", err)) // v contains only strings and numbers
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
