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

// entries is the schema of an answer with a list of entries of type P.
type entries[P any] struct {
	Evaluations array[object[P]] `json:"evaluations"`
}

// listSchema returns the schema of an answer with a list of entries.
func listSchema[P any](entry object[P]) json.RawMessage {
	return encode(newObject(entries[P]{array[object[P]]{Type: "array", Items: entry}}, "evaluations"))
}

// quoted returns the JSON of names, with a separator between them.
func quoted(names []string, separator string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quote(name)
	}
	return strings.Join(all, separator)
}

type score struct {
	Criterion text    `json:"criterion"`
	Score     integer `json:"score"`
	Reason    text    `json:"reason"`
}

type truth struct {
	Type string `json:"type"`
}

type finding struct {
	Criterion text  `json:"criterion"`
	Reason    text  `json:"reason"`
	Met       truth `json:"met"`
}

func namesOf(criteria []eval.Criterion) []string {
	names := make([]string, len(criteria))
	for i, c := range criteria {
		names[i] = c.Name
	}
	return names
}

func singleAnswer(s *eval.Single) answerFormat {
	names := namesOf(s.Criteria)
	entry := newObject(score{
		Criterion: text{Type: "string", Enum: names},
		Score:     integer{Type: "integer", Minimum: s.Scale.Min, Maximum: s.Scale.Max},
		Reason:    text{Type: "string"},
	}, "criterion", "score", "reason")
	return answerFormat{
		name: "single_verdict",
		words: "- evaluations: one entry for each criterion, every criterion once: " + quoted(names, ", ") + ".\n" +
			fmt.Sprintf("- score: a whole number from %d (worst) to %d (best).\n", s.Scale.Min, s.Scale.Max) +
			"- reason: what decided the score, in one to three sentences; never empty.",
		schema: listSchema(entry),
	}
}

func rubricAnswer(criteria int) answerFormat {
	numbers := make([]string, criteria)
	for i := range numbers {
		numbers[i] = eval.RubricNumber(i)
	}
	entry := newObject(finding{
		Criterion: text{Type: "string", Enum: numbers},
		Reason:    text{Type: "string"},
		Met:       truth{Type: "boolean"},
	}, "criterion", "reason", "met")
	return answerFormat{
		name: "rubric_verdict",
		words: "- evaluations: one entry for each criterion, every criterion once, by its number: " + quoted(numbers, ", ") + ".\n" +
			"- reason: what in the document decides it, in one or two sentences; never empty.\n" +
			"- met: true if the document does all of what the criterion describes, otherwise false.",
		schema: listSchema(entry),
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
