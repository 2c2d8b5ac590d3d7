package verdict

import (
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` {"a": 1} `:                       `{"a": 1}`,
		"{}":                               "{}",
		"\ufeff{\"a\":\n[{\"b\": \"}\"}]}": "{\"a\":\n[{\"b\": \"}\"}]}",
		"Here it is:\n```json\n{\"a\": 1}\n```\nI hope so.": `{"a": 1}`,
		"<think>{\"draft\": 1}</think>\n{\"a\": 2}":         `{"a": 2}`,
		"see [1] and {this}: {\"a\": 3}":                    `{"a": 3}`,
	} {
		if got, err := Object(text); err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "the answer has no JSON object",
		"In prose.":            "the answer has no JSON object",
		`[{"a": 1}]`:           "it must be one JSON object",
		`"text"`:               "it must be one JSON object",
		`{"a": 1`:              "the answer has no JSON object",
		`{"a": 1} or {"a": 2}`: "the answer has several JSON objects",
		"<think>{\"a\": 1}":    "the answer ends within its reasoning",
	} {
		if got, err := Object(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v; want an error with %q", text, got, err, want)
		}
	}
}
