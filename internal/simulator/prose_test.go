package simulator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// fencedAnswer asks for the JSON of an answer in prose.
func fencedAnswer(schema, prose string) []message {
	return []message{{Role: "user", Content: "Write down as JSON what it says.\n\n<answer fence=\"0000f00d\">\n" + prose +
		"\n</answer fence=\"0000f00d\">\n\n" + schemaLine + schema}}
}

// A judge says the same in prose and in JSON, and what it said in prose is written
// down as it said it, by whichever model.
func TestProseIsTakenOver(t *testing.T) {
	t.Parallel()
	a, b := document{"a", prose}, document{`"b" & <c>`, flawedProse}
	ids := `"a","\"b\" & <c>"`
	for name, test := range map[string]struct {
		schema string
		asked  string // in prose
		shown  []document
	}{
		"the better one is first":  {fmt.Sprintf(pairSchema, ids), winnerLine + `exactly "a" or "\"b\" & <c>".`, []document{a, b}},
		"the better one is second": {fmt.Sprintf(pairSchema, ids), winnerLine + `exactly "a" or "\"b\" & <c>".`, []document{b, a}},
		"a tie":                    {fmt.Sprintf(pairSchema, `"a","d","tie"`), winnerLine + `exactly "a" or "d"; "tie" if neither.`, []document{a, {"d", prose}}},
		"scores":                   {singleSchema, scoresLine + "each once: \"style\", \"facts\".\n" + scaleLine + "from 1 (worst) to 5 (best).", []document{b}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			say := func(model string, messages []message) string {
				return s.mustAsk(t, map[string]any{"model": model, "messages": messages}).text
			}
			direct := say("careful", fenced(test.schema, test.shown...))
			inProse := fenced("", test.shown...)
			inProse[1].Content += test.asked
			told := say("careful", inProse)
			if json.Valid([]byte(told)) {
				t.Fatalf("asked for prose, it said %s", told)
			}
			if got := say("careless", fencedAnswer(test.schema, told)); got != direct {
				t.Errorf("written down: got %s, want %s, of\n%s", got, direct, told)
			}
		})
	}
}

// What an answer does not say has no reason.
func TestWhatIsMissingInProseStaysEmpty(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for schema, said := range map[string]string{
		fmt.Sprintf(pairSchema, `"a","b"`): "winner_doc_id: c\nreason: it is",
		singleSchema:                       `"style": 4, because: clear`,
	} {
		got := s.mustAsk(t, map[string]any{"model": "careful", "messages": fencedAnswer(schema, said)}).text
		if !strings.Contains(got, `"reason":""`) {
			t.Errorf("of %q: got %s, want an empty reason", said, got)
		}
	}
}
