package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// panelFolder writes an evaluation file with a panel, and what it names.
func panelFolder(t *testing.T, panel string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"eval.yaml": "documents: ['*.md']\npanel: " + panel + "\n",
		"a.md":      "A text.", "p.txt": "You are a prosecutor: $HOME [[agent]].\n",
		"dims.yaml": "- {id: clarity, name: Clarity, description: Plain words}\n- depth\n",
		"none.yaml": "[]", "twice.yaml": "- depth\n- id: depth\n- {name: x}\n", "map.yaml": "depth: 1",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "eval.yaml")
}

func TestPanel(t *testing.T) {
	t.Parallel()
	const agents = `agents: [{name: prosecutor, model: simulator:careful, prompt: p.txt}, {model: "test:x", overrides: {temperature: 0}}]`
	s, err := loadEvaluation(panelFolder(t, "{"+agents+", dimensions: dims.yaml}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &eval.Panel{
		Agents: []eval.Judge{
			{Name: "prosecutor", Provider: "simulator", Model: "careful", Prompt: "You are a prosecutor: $HOME [[agent]].\n"},
			{Name: "test:x", Provider: "test", Model: "x", Overrides: map[string]any{"temperature": 0.0}},
		},
		Dimensions: []eval.Dimension{{ID: "clarity", Name: "Clarity", Description: "Plain words"}, {ID: "depth"}},
		Scale:      eval.Scale{Min: 1, Max: 5},
		Template:   prompt.DefaultTemplate(eval.KindPanel),
	}
	if diff := cmp.Diff(want, s.Evaluation.Panel); diff != "" || len(s.Evaluation.Judges) > 0 {
		t.Errorf("panel, judges %v (-want +got):\n%s", s.Evaluation.Judges, diff)
	}
	if s.Settings.Batching != nil || s.Settings.ConcurrencySource != "default" {
		t.Errorf("without a word, batching is %v and the bound of calls in flight is from %s", s.Settings.Batching, s.Settings.ConcurrencySource)
	}
	id := s.Evaluation.ID()
	for name, tt := range map[string]struct {
		panel, env string
		json       eval.JSONMode
		batching   []string
		warns      string
	}{
		"file":               {"{" + agents + ", dimensions: [clarity], batching: true}", "", "", []string{"prosecutor"}, "test:x has no structured output: agent test:x makes a separate call for each dimension"},
		"environment":        {"{" + agents + ", dimensions: dims.yaml}", "true", "", []string{"prosecutor"}, "test:x has no structured output"},
		"environment is off": {"{" + agents + ", dimensions: dims.yaml, batching: true}", "0", "", nil, ""},
		"without JSON":       {"{" + agents + ", dimensions: dims.yaml, batching: true}", "", eval.JSONFalse, nil, "with json: false each dimension is a separate call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{JSON: tt.json, Env: func(variable string) (string, bool) {
				return tt.env, variable == "BATCHING_ENABLED" && tt.env != ""
			}}
			s, err := loadEvaluation(panelFolder(t, tt.panel), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.batching, s.Settings.Batching); diff != "" {
				t.Errorf("batching (-want +got):\n%s", diff)
			}
			said := ""
			for _, w := range s.Warnings {
				said += w.String() + "\n"
			}
			if !strings.Contains(said, tt.warns) || tt.warns == "" && said != "" {
				t.Errorf("warnings %q, want one with %q", said, tt.warns)
			}
			if strings.Contains(tt.panel, "dims.yaml") && tt.json == "" && s.Evaluation.ID() != id {
				t.Error("batching is part of the identity")
			}
		})
	}
}

func TestProblemsOfPanels(t *testing.T) {
	t.Parallel()
	const one = "agents: [{name: a, model: simulator:careful}]"
	for name, tt := range map[string]struct{ panel, env, want string }{
		"nothing":         {"{}", "", "panel has no agents|panel has no dimensions"},
		"no agents":       {"{agents: [], dimensions: [d]}", "", "agents are missing"},
		"no model":        {"{agents: [{name: a}], dimensions: [d]}", "", "the agent has no model"},
		"unknown":         {"{agents: [{name: a, model: simulater:x}], dimensions: [d]}", "", "unknown provider simulater"},
		"a name twice":    {"{agents: [{name: a, model: simulator:careful}, {name: a, model: simulator:average}], dimensions: [d]}", "", "a second agent called a"},
		"no prompt":       {"{agents: [{name: a, model: simulator:careful, prompt: q.txt}], dimensions: [d]}", "", "q.txt: no such file"},
		"no file":         {"{" + one + ", dimensions: dimensions.yaml}", "", "dimensions.yaml: no such file"},
		"empty list":      {"{" + one + ", dimensions: none.yaml}", "", "dimensions are missing"},
		"no list":         {"{" + one + ", dimensions: map.yaml}", "", "want a list"},
		"id twice":        {"{" + one + ", dimensions: twice.yaml}", "", "twice.yaml:2:7: [1].id: a second dimension with the id depth|twice.yaml:3:3: [2]: the dimension has no id"},
		"judges besides":  {"{" + one + ", dimensions: [d]}\njudges: [simulator:careful]", "", "judges have nothing to do: a panel uses agents"},
		"batching":        {"{" + one + ", dimensions: [d], batching: perhaps}", "", "want true or false"},
		"batching by env": {"{" + one + ", dimensions: [d]}", "perhaps", `BATCHING_ENABLED: got "perhaps"; want true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Env: func(variable string) (string, bool) {
				return tt.env, variable == "BATCHING_ENABLED" && tt.env != ""
			}}
			_, err := loadEvaluation(panelFolder(t, tt.panel), o)
			for want := range strings.SplitSeq(tt.want, "|") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}
