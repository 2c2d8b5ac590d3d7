package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// answerFields maps keys of a document block to the fields of a line that commonly hold them in
// files of answers. It returns nil if the line is not an answer.
func answerFields(fields map[string]json.RawMessage) map[string]string {
	found := map[string]string{}
	for part, names := range map[string][]string{
		"text": {
			"text", "answer", "response", "output", "completion", "generation", "prediction", "content", "generated_text",
			"model_output",
		},
		"candidate": {"candidate", "model", "model_name", "model_id", "generator", "system"},
		"item":      {"item", "item_id", "question_id", "prompt_id", "instance_id", "task_id", "id"},
		"question":  {"question", "prompt", "instruction", "input", "query"},
	} {
		if i := slices.IndexFunc(names, func(name string) bool { return fields[name] != nil }); i >= 0 {
			found[part] = names[i]
		}
	}
	if fields["api"] != nil || fields["custom_id"] != nil || found["text"] == "" {
		return nil
	}
	return found
}

// answersIn returns the answerFields that a file's first line, row or element has.
func answersIn(path string) map[string]string {
	head, err := headOf(path)
	if err != nil || len(head) == 0 {
		return nil
	}
	if head[0] == '{' || head[0] == '[' {
		return answerFields(fieldsOf(head))
	}
	columns := map[string]json.RawMessage{}
	for _, name := range headerOf(head) {
		columns[name] = json.RawMessage("null")
	}
	return answerFields(columns)
}

// notPrompts returns the problem that a file has answers, not prompts. Its Fix says how to judge
// them.
func notPrompts(path string, fields map[string]string) Problem {
	reads := "jsonl: " + filepath.Base(path)
	for _, part := range []string{"item", "candidate", "text", "question"} {
		if name := fields[part]; name != "" && name != part {
			reads += ", " + part + ": " + name
		}
	}
	fix := "to have them judged, write an evaluation file beside it: documents: {" + reads + "}, judges: [openai:gpt-5-mini], pairwise: {}"
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		fix = "to have them judged, convert them to one JSON object per line, and write an evaluation file: documents: {" +
			strings.TrimSuffix(reads, filepath.Base(path)) + "answers.jsonl}, judges: [openai:gpt-5-mini], pairwise: {}"
	}
	return Problem{File: path, Line: 1, Fix: fix,
		Message: "this looks like a file of answers (it has a field " + fields["text"] + " and no api), not of prompts to send"}
}
