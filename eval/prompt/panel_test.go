package prompt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// panel has two agents, one of them with a role, and three dimensions.
func panel() (*eval.Evaluation, map[string]string) {
	e, texts := answers("Rayleigh scattering favours short waves.\n", "Because the sea is blue.")
	e.Panel = &eval.Panel{
		Agents: []eval.Judge{{Name: "prosecutor", Prompt: "You are a prosecutor.\n[[documents]] and $HOME stay as they are.\n"}, {Name: "plain"}},
		Dimensions: []eval.Dimension{
			{ID: "d1", Name: "Clarity", Description: "Plain words,\nshort sentences."},
			{ID: "evidence"}, {ID: `"odd" <id>`, Name: "Oddness"},
		},
		Scale: eval.Scale{Min: 0, Max: 10},
	}
	return e, texts
}

func mustAsk(t *testing.T, e *eval.Evaluation, texts map[string]string, about prompt.About) prompt.Prompt {
	t.Helper()
	about.Second = -1
	built, err := prompt.Build(e, eval.KindPanel, about, texts)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestPanelPrompts(t *testing.T) {
	t.Parallel()
	for name, about := range map[string]prompt.About{
		"panel":         {First: 1, Judge: 0, Dimensions: []int{0}},
		"panel_batched": {First: 0, Judge: 1, Dimensions: []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, texts := panel()
			wantGolden(t, name, transcript(mustAsk(t, e, texts, about)))
		})
	}
}

// What an agent is told of a document is the same up to the dimensions that it is
// asked for, and the schema names these alone.
func TestDimensionsStandBehindTheDocument(t *testing.T) {
	t.Parallel()
	e, texts := panel()
	one := mustAsk(t, e, texts, prompt.About{Dimensions: []int{1}})
	all := mustAsk(t, e, texts, prompt.About{Dimensions: []int{0, 1, 2}})
	if diff := cmp.Diff(one.Messages[0], all.Messages[0]); diff != "" {
		t.Errorf("system message (-one +all):\n%s", diff)
	}
	before := func(p prompt.Prompt) string {
		text, _, _ := strings.Cut(p.Messages[1].Content, "\nDimensions to score:")
		return text
	}
	if before(one) != before(all) || !strings.HasSuffix(before(one), ">\n") {
		t.Errorf("before the dimensions:\n%s\nand of all:\n%s", before(one), before(all))
	}
	for want, p := range map[string]prompt.Prompt{`["evidence"]`: one, `["d1","evidence","\"odd\" <id>"]`: all} {
		var schema struct {
			Properties struct {
				Evaluations struct {
					Items struct {
						Properties struct {
							ID struct {
								Enum []string `json:"enum"`
							} `json:"criterion_id"`
						} `json:"properties"`
					} `json:"items"`
				} `json:"evaluations"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(p.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		var enum []string
		if err := json.Unmarshal([]byte(want), &enum); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(enum, schema.Properties.Evaluations.Items.Properties.ID.Enum); diff != "" {
			t.Errorf("ids in the schema (-want +got):\n%s", diff)
		}
	}
}
