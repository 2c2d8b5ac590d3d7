package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	item := eval.Item{ID: "q1", Question: "Capital?", Reference: "N'Djamena", Facts: map[string]string{"land": "Chad"}}
	const person = `{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}`
	for _, c := range []struct {
		kind        eval.CheckKind
		value, text string
		why         string // empty: it passes
	}{
		{eval.CheckContains, "°C", "It is 20 °C.", ""},
		{eval.CheckContains, "°C", "It is 20 °F.", `it does not contain "°C"`},
		{eval.CheckContains, "{{reference}} in {{ land }}", "N'Djamena in Chad.", ""},
		{eval.CheckContains, "{{reference}}", "Moundou", `it does not contain "N'Djamena"`},
		{eval.CheckNotContains, "As an AI", "As an AI, no.", `it contains "As an AI"`},
		{eval.CheckNotContains, "As an AI", "No.", ""},
		{eval.CheckEquals, "{{reference}}", " N'Djamena\n", ""},
		{eval.CheckEquals, "{{reference}}", "N'Djamena.", `it is not "N'Djamena"`},
		{eval.CheckRegex, `^\d+$`, "42", ""},
		{eval.CheckRegex, `^\d+$`, "42\n43", "it does not match"},
		{eval.CheckMaxWords, "3", "one two\nthree", ""},
		{eval.CheckMaxWords, "3", "one two three four", "it has 4 words"},
		{eval.CheckJSONSchema, person, ` {"age": 3} `, ""},
		{eval.CheckJSONSchema, person, `{"age": "3"}`, "at '/age': got string, want integer"},
		{eval.CheckJSONSchema, person, `{}`, "at '': missing property 'age'"},
		{eval.CheckJSONSchema, person, "```json\n{\"age\": 3}\n```", "it is not JSON: invalid character '`' looking for beginning of value"},
		{eval.CheckJSONSchema, person, `{"age": 3} {"age": 4}`, "it is not JSON: invalid character '{' after top-level value"},
	} {
		test, err := New(eval.Check{Kind: c.kind, Value: c.value})
		if err != nil {
			t.Fatalf("%s %s: %v", c.kind, c.value, err)
		}
		if why, passed := test(c.text, item); why != c.why || passed != (c.why == "") {
			t.Errorf("%s %s of %q: %v, %q; want %q", c.kind, c.value, c.text, passed, why, c.why)
		}
	}
}

// TestChecksThatCannotBe: patterns and schemas that are not valid are refused, and so is what a schema would load.
func TestChecksThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        eval.CheckKind
		value, want string
	}{
		{eval.CheckRegex, "(", "missing closing )"},
		{eval.CheckRegex, strings.Repeat("a", MaxPattern+1), "at most 1000"},
		{eval.CheckMaxWords, "many", "not a number"},
		{eval.CheckJSONSchema, "{", "not JSON"},
		{eval.CheckJSONSchema, `{"type": "person"}`, "type"},
		{eval.CheckJSONSchema, `{"$ref": "file:///etc/hostname"}`, "is another file"},
		{eval.CheckJSONSchema, `{"$ref": "https://example.com/schema"}`, "is another file"},
		{eval.CheckJSONSchema, `"` + strings.Repeat("a", MaxSchema) + `"`, "at most 262144"},
		{"sounds_nice", "", `unknown kind of check "sounds_nice"`},
	} {
		if _, err := New(eval.Check{Kind: c.kind, Value: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40s: %v, want %q", c.kind, c.value, err, c.want)
		}
	}
}

// TestHostileChecksEnd: a schema of a few lines that would be applied 2⁶⁰ times, and a number of a billion digits, take
// no more than others.
func TestHostileChecksEnd(t *testing.T) {
	t.Parallel()
	bomb := func(levels int, last string) string {
		var parts []string
		for k := range levels {
			part := fmt.Sprintf(`{"$ref": "#/$defs/p%d"}`, k+1)
			parts = append(parts, fmt.Sprintf(`"p%d": {"allOf": [%s, %s]}`, k, part, part))
		}
		return fmt.Sprintf(`{"$ref": "#/$defs/p0", "$defs": {%s, "p%d": %s}}`, strings.Join(parts, ", "), levels, last)
	}
	for _, c := range []struct{ schema, text, why string }{
		{bomb(16, "{}"), "1", "the schema takes too long"},
		{bomb(60, "{}"), "1", "the schema takes too long"},
		{bomb(60, `{"type": "string"}`), "1", "the schema takes too long"},
		{`{"type": "integer"}`, "1e999999999", "it is not JSON: json: cannot unmarshal number 1e999999999 into Go value of type float64"},
		{`{"type": "integer"}`, strings.Repeat("[", 100_000), "it is not JSON: invalid character '[' exceeded max depth"},
	} {
		test, err := New(eval.Check{Kind: eval.CheckJSONSchema, Value: c.schema})
		if err != nil {
			t.Fatal(err)
		}
		if why, passed := test(c.text, eval.Item{}); passed || why != c.why {
			t.Fatalf("%.40s of %.20s: %v, %q; want %q", c.schema, c.text, passed, why, c.why)
		}
	}
}

func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		" first line \nsecond": "first line ", "\xff": "\uFFFD", strings.Repeat("é", 300): strings.Repeat("é", 98) + "…", "": "",
	} {
		if got := Reason(said); got != want || len(got) > MostReason {
			t.Errorf("Reason(%.20q) is %q, want %q", said, got, want)
		}
	}
}
