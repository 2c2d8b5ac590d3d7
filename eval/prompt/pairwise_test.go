package prompt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// TestCriteriaOfAComparison: the prompt and the schema have each criterion, whatever its name, and the degrees.
func TestCriteriaOfAComparison(t *testing.T) {
	t.Parallel()
	texts := map[string]string{eval.TextHash("One."): "One.", eval.TextHash("Two."): "Two."}
	names := []string{"winner_doc_id", "reason", "__proto__", `a "quoted" name`, "two words", "<b>", "ä\\"}
	e := &eval.Evaluation{
		Items:     []eval.Item{{}},
		Documents: []eval.Document{{ID: "a.md", Hash: eval.TextHash("One.")}, {ID: "b.md", Hash: eval.TextHash("Two.")}},
		Pairwise:  &eval.Pairwise{Ties: true, Degrees: 2}, Blind: true,
	}
	for _, name := range names {
		e.Pairwise.Criteria = append(e.Pairwise.Criteria, eval.Criterion{Name: name, Description: "About " + name})
	}
	built, err := prompt.Build(e, eval.KindPairwise, prompt.About{First: 0, Second: 1}, texts)
	if err != nil {
		t.Fatal(err)
	}

	type enum struct{ Enum []string }
	var schema struct {
		Properties struct {
			Winner   enum `json:"winner_doc_id"`
			Degree   enum
			Criteria struct {
				Items struct {
					Properties struct {
						Criterion, Better enum
						Degree            enum `json:"by_degree"`
					}
					Required []string
				}
			}
		}
		Required []string
	}
	if err := json.Unmarshal(built.Schema, &schema); err != nil {
		t.Fatalf("%v in %s", err, built.Schema)
	}
	entry := schema.Properties.Criteria.Items
	for what, lists := range map[string][2][]string{
		"criteria":          {entry.Properties.Criterion.Enum, names},
		"winners":           {schema.Properties.Winner.Enum, {"A", "B", "tie"}},
		"winners of them":   {entry.Properties.Better.Enum, {"A", "B", "tie"}},
		"degrees":           {schema.Properties.Degree.Enum, {"equal", "better", "much better"}},
		"degrees of them":   {entry.Properties.Degree.Enum, {"equal", "better", "much better"}},
		"required":          {schema.Required, {"criteria", "winner_doc_id", "degree", "reason"}},
		"required of them ": {entry.Required, {"criterion", "better", "by_degree"}},
	} {
		if got, want := strings.Join(lists[0], "|"), strings.Join(lists[1], "|"); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	for _, name := range names {
		if line := "- " + name + ": About " + name; !strings.Contains(built.Messages[0].Content, line) {
			t.Errorf("the prompt lacks %q:\n%s", line, built.Messages[0].Content)
		}
	}
	if strings.Contains(built.Messages[0].Content, "the most important first") {
		t.Error("the prompt has the criteria of comparisons without any, too")
	}
}
