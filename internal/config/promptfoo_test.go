package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const promptfooConfig = `# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json
description: Capitals
prompts:
  - 'Answer briefly: {{ question }} ({{tone}})'
  - file://system.json
  - {id: file://long.txt, label: long}
  - file://make.js
providers:
  - openai:chat:gpt-4.1-mini
  - id: anthropic:messages:claude-sonnet-4-5
    label: sonnet
    config: {temperature: 0.5, max_tokens: 300, tools: []}
  - python:model.py
defaultTest:
  vars: {tone: friendly}
  assert: [{type: latency, threshold: 100}]
tests:
  - vars: {question: "Capital of France?"}
    assert:
      - {type: contains, value: Paris}
  - description: peru
    vars: {question: file://q.txt, tone: stern}
    assert: [{type: javascript, value: output.length}]
  - file://more.csv
outputPath: out.html
`

func promptfooFolder(t *testing.T, text string) Input {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"promptfooconfig.yaml": text, "q.txt": "Capital of Peru?\n", "long.txt": "Long: {{question}}\n---\nLonger: {{question}}\n",
		"system.json": `[{"role":"system","content":"Be {{tone}}."},{"role":"user","content":"{{question}}"}]`,
		"more.csv":    "question,__expected\nCapital of Chad?,icontains: n'djamena\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return InputAt(filepath.Join(dir, "promptfooconfig.yaml"))
}

func TestPromptfoo(t *testing.T) {
	in := promptfooFolder(t, promptfooConfig)
	if in.Kind != PromptfooFile {
		t.Fatalf("recognised as %q", in.Kind)
	}
	s, err := in.Load([]string{"simulator:careful"}, Options{Compare: Compare{Budget: "5"}})
	if err != nil {
		t.Fatal(err)
	}

	asked := s.Evaluation.Prompts
	if got, want := len(asked.List), 4*2*3; got != want {
		t.Errorf("%d prompts are sent, want %d", got, want)
	}
	var models []string
	for _, m := range asked.Models {
		models = append(models, m.Name+"="+m.Target())
	}
	if want := []string{"openai-chat:gpt-4.1-mini=openai-chat:gpt-4.1-mini", "sonnet=anthropic:claude-sonnet-4-5"}; !slices.Equal(models, want) {
		t.Errorf("models %q, want %q", models, want)
	}
	if got := asked.Models[1].Overrides; got["temperature"] != 0.5 || got["max_completion_tokens"] != 300.0 || len(got) != 2 {
		t.Errorf("settings %v", got)
	}
	var texts []string
	for _, text := range s.Texts {
		texts = append(texts, text)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{
		`"Answer briefly: Capital of France? (friendly)"`, `"Answer briefly: Capital of Peru? (stern)"`, `"content":"Be stern."`, `"Longer: Capital of Chad?"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no prompt has %s in\n%s", want, all)
		}
	}
	var items []string
	for _, item := range s.Judging.Planned.Evaluation.Items {
		items = append(items, item.ID)
	}
	slices.Sort(items)
	if want := []string{"peru", "test 1", "test 3"}; !slices.Equal(items, want) {
		t.Errorf("items %q, want %q", items, want)
	}

	warnings := strings.Join(Problems(s.Warnings).Listed("warning"), "\n")
	for _, want := range []string{
		":7:5: ", "prompt in make.js", ":12:", "tools of a provider", `provider "python:model.py"`, "3 asserts", "column __expected", "outputPath",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning has %q in\n%s", want, warnings)
		}
	}
}

func TestPromptfooIsRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		promptfooConfig: true,
		"prompts: [a]\nproviders: openai:gpt-4o\n":                               true,
		"prompts: [a]\ntargets:\n# two\n\n- openai:gpt-4o\n":                     true,
		"prompts: [a]\nproviders: {local: {dialect: chat}}\nmodels: [local:m]\n": false,
		"prompts: [a]\nproviders:\n  local: {dialect: chat}\n":                   false,
		"documents: [a]\njudges: [b]\n":                                          false,
	} {
		if got := isPromptfoo([]byte(text)); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestPromptfooProblems(t *testing.T) {
	for text, want := range map[string]string{
		"prompts: ['{% if a %}x{% endif %}']\nproviders: [openai:gpt-4o]\n":                       `yaml:1:11: prompts[0]: the prompt "prompt 1" is a template with {%`,
		"prompts: ['{{a}}']\nproviders: [exec:./x.sh]\n":                                          "there is no provider that can be asked",
		"prompts: ['{{a}}']\nproviders: [openai:gpt-4o]\ntests: [{vars: {b: x}}]\n":               `{{a}}: item "test 1"`,
		"prompts: ['{{a}}']\nproviders: [openai:gpt-4o]\ntests: [{vars: {a: [x, y]}}]\n":          "a has several values; write one test for each value",
		"prompts: ['{{a}}']\nproviders: [{id: openai:gpt-4o, config: {apiKey: k, api_key: k}}]\n": "API keys are not read from files",
	} {
		_, err := promptfooFolder(t, text).Load([]string{"simulator:careful"}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v\nwant %s", text, err, want)
		}
	}
	_, err := promptfooFolder(t, promptfooConfig).Load(nil, Options{})
	if err == nil || !strings.Contains(err.Error(), "need a judge; name one, for example --judge openai:gpt-5-mini") {
		t.Errorf("got %v", err)
	}
}
