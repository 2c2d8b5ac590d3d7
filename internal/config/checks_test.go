package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

const checkedFile = `documents: {jsonl: answers.jsonl}
judges: ["simulator:careful"]
pairwise: {}
`

var checkedFiles = map[string]string{
	"answers.jsonl": `{"id": "a", "item": "q", "candidate": "x", "text": "{\"n\": 1}", "reference": "1"}` + "\n" +
		`{"id": "b", "item": "q", "candidate": "y", "text": "It is 1, of course."}` + "\n",
	"n.json": `{"type": "object", "required": ["n"]}`,
}

func checkedAt(t *testing.T, checks string) string {
	t.Helper()
	files := map[string]string{"eval.yaml": checkedFile + checks}
	for name, text := range checkedFiles {
		files[name] = text
	}
	return promptedAt(t, files)
}

// TestChecksOfDocuments: each check is applied to each text when the file is read, and its name says what it looks for.
func TestChecksOfDocuments(t *testing.T) {
	t.Parallel()
	s, err := loadEvaluation(checkedAt(t, `checks:
  - {json_schema: n.json, gate: true}
  - {contains: "{{reference}}"}
  - {name: laconic, max_words: 3}
  - {json_schema: {type: object}, name: object}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range s.Evaluation.Checks {
		names = append(names, c.Name)
	}
	const notJSON = "it is not JSON: invalid character 'I' looking for beginning of value"
	want := []eval.FailedCheck{{Check: 0, Why: notJSON}, {Check: 2, Why: "it has 5 words"}, {Check: 3, Why: notJSON}}
	if diff := cmp.Diff([]string{"json_schema", `contains "{{reference}}"`, "laconic", "object"}, names) +
		cmp.Diff(want, s.Evaluation.Documents[1].Failed); diff != "" || s.Evaluation.Documents[0].Failed != nil {
		t.Errorf("the first fails %v; names and failures of the second: %s", s.Evaluation.Documents[0].Failed, diff)
	}
	if said := checkNames(s.Evaluation); !strings.HasPrefix(said, "json_schema (gate), contains ") {
		t.Errorf("the checks are called %q", said)
	}
}

// TestChecksOfFactsAreIdentity: reference answers that judges do not see belong to the identity if a check looks for them.
func TestChecksOfFactsAreIdentity(t *testing.T) {
	t.Parallel()
	ids := map[eval.ID]bool{}
	for _, reference := range []string{"1", "2"} {
		files := map[string]string{
			"eval.yaml":     checkedFile + "checks: [{contains: \"{{land}}\"}]\n",
			"answers.jsonl": checkedFiles["answers.jsonl"],
		}
		files["eval.yaml"] = strings.Replace(files["eval.yaml"], "answers.jsonl", "answers.jsonl, fields: [land]", 1)
		files["answers.jsonl"] = strings.ReplaceAll(files["answers.jsonl"], `"item": "q"`, `"item": "q", "land": "`+reference+`"`)
		s, err := loadEvaluation(promptedAt(t, files), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids[s.Evaluation.ID()] = true
	}
	if len(ids) != 2 {
		t.Errorf("other values of a check's variable are the same evaluation: %v", ids)
	}
}

// TestChecksThatAreWrong: every mistake is an error with its place and what to write.
func TestChecksThatAreWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ checks, want, fix string }{
		{`checks: []`, "eval.yaml:4:9: checks: there are no checks", "max_words: 100"},
		{`checks: {max_words: 3}`, "eval.yaml:4:9: checks: got a mapping", "want a list"},
		{`checks: [{gate: true}]`, "eval.yaml:4:10: checks[0]: the check says nothing to look for", "want one of contains, "},
		{`checks: [{contain: a}]`, "eval.yaml:4:11: checks[0].contain: unknown key", "did you mean contains?"},
		{`checks: [{contains: a, regex: b}]`, "the check has contains, too", "check of its own"},
		{`checks: [{regex: "("}]`, "eval.yaml:4:18: checks[0].regex: regex: error parsing regexp: missing closing ): `(`", ""},
		{`checks: [{max_words: 0}]`, "checks[0].max_words: got", "whole number of at least 1"},
		{`checks: [{max_words: 3}, {max_words: 3}]`, "a second check called max_words 3, the first is in line 4", "its own name"},
		{`checks: [{json_schema: none.json}]`, "none.json", ""},
		{`checks: [{json_schema: {type: person}}]`, "checks[0].json_schema: json_schema: ", ""},
		{`checks: [{json_schema: {$ref: "https://example.com/x"}}]`, "is another file", ""},
		{`checks: [{command: [touch, ran]}]`, "eval.yaml:4:11: checks[0].command: a server runs no command of a file that it receives", "enqueue"},
		{`checks: [{command: ./check.sh}]`, "checks[0].command: got", `want a list, for example ["./check.sh"]`},
		{`checks: [{command: []}]`, "checks[0].command: there is no command", "[python3, check.py]"},
		{`checks: [{command: [" "]}]`, "checks[0].command: the command has no program", "[python3, check.py]"},
		{`checks: [{equals: "{{colour}}"}]`, `{{colour}}: item "q" has no such field`, "{{reference}}"},
	} {
		_, err := loadEvaluation(checkedAt(t, c.checks+"\n"), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: got %v\nwant %q and %q", c.checks, err, c.want, c.fix)
		}
	}

	files := map[string]string{
		"eval.yaml":     strings.Replace(checkedFile, "pairwise: {}", "single: {criteria: [style]}", 1) + "checks: [{max_words: 3, gate: true}]\n",
		"answers.jsonl": checkedFiles["answers.jsonl"],
	}
	_, err := loadEvaluation(promptedAt(t, files), Options{})
	if err == nil || !strings.Contains(err.Error(), "eval.yaml:4:25: checks[0].gate: a gate decides pairs, and none are compared; add pairwise") {
		t.Errorf("a gate without pairs: %v", err)
	}
}

// TestChecksOfAnswersToPrompts: answers are checked once they exist, and equally whenever the file is read again.
func TestChecksOfAnswersToPrompts(t *testing.T) {
	t.Parallel()
	files := map[string]string{"brief.md": promptedFiles["brief.md"], "items.jsonl": promptedFiles["items.jsonl"]}
	files["eval.yaml"] = promptedFile + "checks: [{max_words: 1, gate: true}]\n"
	s, err := loadEvaluation(promptedAt(t, files), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if planned := s.Judging.Planned.Evaluation; len(planned.Checks) != 1 || planned.Documents[0].Failed != nil {
		t.Errorf("before there are answers, they fail %v of %v", planned.Documents[0].Failed, planned.Checks)
	}
	if len(s.Evaluation.Checks) != 0 {
		t.Errorf("making answers depends on checks: %v", s.Evaluation.Checks)
	}

	answers := map[string]string{}
	for _, one := range s.Evaluation.Prompts.List {
		answers[one.ID] = "word"
	}
	answers["a/plain + lax"] = "two words"
	for range 2 {
		judged, err := s.Judging.Of(answers)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range judged.Evaluation.Documents {
			if failed := len(d.Failed) > 0; failed != (d.ID == "a/plain + lax") {
				t.Errorf("%s fails %v", d.ID, d.Failed)
			}
		}
	}
}

// TestCommandsOfChecks: a command runs once for each text and each list of arguments. Changing a file that it names makes
// another evaluation, what it says about texts does not, and stored outcomes are those of the same documents.
func TestCommandsOfChecks(t *testing.T) {
	t.Parallel()
	read := func(script string) *Submission {
		s, err := loadEvaluation(promptedAt(t, map[string]string{
			"eval.yaml": "documents: {jsonl: answers.jsonl}\njudges: [\"simulator:careful\"]\npairwise: {}\n" +
				"checks: [{command: [sh, check.sh, \"{{question}}\"]}, {max_words: 1, name: laconic}, {command: [test, -z, x], name: z}]\n",
			"answers.jsonl": `{"id": "a", "item": "p", "question": "P", "candidate": "x", "text": "same text"}` + "\n" +
				`{"id": "b", "item": "p", "question": "P", "candidate": "y", "text": "same text"}` + "\n" +
				`{"id": "c", "item": "q", "question": "Q", "candidate": "x", "text": "same text"}` + "\n",
			"check.sh": script,
		}), Options{RunsCommands: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	s, other := read("exit 0"), read("exit 1")
	if s.Evaluation.ID() == other.Evaluation.ID() || s.Evaluation.ID() != read("exit 0").Evaluation.ID() {
		t.Error("the identity does not follow from what the program's file contains")
	}
	id := s.Evaluation.ID()
	var all []string
	for _, c := range s.Commands() {
		all = append(all, strings.Join(append([]string{c.Check.Name, c.Text}, c.Words...), "|"))
		if c.Check.Name == "z" || c.Words[2] == "P" {
			s.Fail(c, "no")
		}
	}
	if diff := cmp.Diff([]string{
		"command sh check.sh {{question}}|same text|sh|check.sh|P", "command sh check.sh {{question}}|same text|sh|check.sh|Q",
		"z|same text|test|-z|x",
	}, all); diff != "" {
		t.Error(diff)
	}

	again := read("exit 0")
	again.FailAs(s.Evaluation)
	long, last := eval.FailedCheck{Check: 1, Why: "it has 2 words"}, eval.FailedCheck{Check: 2, Why: "no"}
	every := []eval.FailedCheck{{Check: 0, Why: "no"}, long, last}
	for i, want := range [][]eval.FailedCheck{every, every, {long, last}} {
		if diff := cmp.Diff(want, s.Evaluation.Documents[i].Failed) + cmp.Diff(want, again.Evaluation.Documents[i].Failed); diff != "" {
			t.Error(diff)
		}
	}
	if s.Evaluation.ID() != id {
		t.Error("what a command says makes another evaluation")
	}
}
