package config

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval/foreign/parquet"
)

// FileKind is what a file asks, which determines how it is read.
type FileKind string

// The kinds of files.
const (
	EvaluationFile FileKind = "evaluation" // YAML with keys; see loadEvaluation
	RunsFile       FileKind = "runs"       // YAML or JSON that lists runs; see loadEvaluation
	ExperimentFile FileKind = "experiment" // prompts, one per line; see loadExperiment
	AnswersFile    FileKind = "answers"    // answers of models, in one of many formats; see loadAnswers
	PromptfooFile  FileKind = "promptfoo"  // a configuration of promptfoo, which --kind does not name; see loadPromptfoo
	BatchFile      FileKind = "batch"      // requests in OpenAI's Batch format, one per line; see loadBatch
)

// FileKinds lists the kinds that can be named.
var FileKinds = []FileKind{EvaluationFile, ExperimentFile, AnswersFile, BatchFile, RunsFile}

// kindOfFile recognises a file by its content, or else by its extension. An unreadable file
// counts as an evaluation file: its reader reports the error.
func kindOfFile(path string) FileKind {
	head, err := headOf(path)
	if err != nil {
		return EvaluationFile
	}
	if parquet.Is(head) {
		return AnswersFile
	}
	if shape := answersAt(path); shape != nil && !shape.Prepared {
		return AnswersFile
	}
	kind := kindOfContent(head)
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case kind != "":
		return kind
	case isPromptfoo(head):
		return PromptfooFile
	case ext == ".jsonl" || ext == ".csv":
		return ExperimentFile
	}
	return EvaluationFile
}

// headOf returns the beginning of a file without a byte order mark and white space.
func headOf(path string) ([]byte, error) {
	file, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const enough = 1 << 20 // enough for a first line
	head, _ := io.ReadAll(io.LimitReader(file, enough))
	return bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n"), nil
}

// kindOfContent returns the kind that the beginning of a file shows; empty: none.
func kindOfContent(head []byte) FileKind {
	if len(head) == 0 {
		return ""
	}
	switch head[0] {
	case '[':
		return kindOfList(head)
	case '{':
		return kindOfObject(head)
	case '-':
		if len(head) > 1 && (head[1] == ' ' || head[1] == '\n') {
			return RunsFile
		}
	}
	header := headerOf("", head)
	if slices.Contains(header, "prompt") && slices.Contains(header, "api") {
		return ExperimentFile
	}
	return ""
}

// headerOf returns the columns of a CSV file that begins with text. The path may be empty.
func headerOf(path string, head []byte) []string {
	return (&draft{}).headerOf(path, head).header // its problems are reported when the rows are read
}

// headerOf reads the header of a table of answers from the beginning of its file.
func (s *draft) headerOf(path string, head []byte) *table {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return s.newTable(path, line, columns{unnamed: true})
}

// refuseHeader reports the problems of the header of a file, and whether there are any.
func (s *draft) refuseHeader(path string) bool {
	head, err := headOf(path)
	return err == nil && len(head) > 0 && isTable(path) && s.headerOf(path, head).rows == nil
}

// kindOfList returns the kind of a list by its first element. A list whose first element shows
// none, also in YAML, is a list of runs.
func kindOfList(head []byte) FileKind {
	if kind := kindOfObject(head); kind != "" {
		return kind
	}
	return RunsFile
}

// fieldsOf returns the fields of the object with which a file, or the list in it, begins.
func fieldsOf(head []byte) map[string]json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(withoutNaN(head, "null")))
	if len(head) > 0 && head[0] == '[' {
		_, _ = decoder.Token()
	}
	var first map[string]json.RawMessage
	if decoder.Decode(&first) != nil {
		return nil
	}
	return first
}

func kindOfObject(head []byte) FileKind {
	first := fieldsOf(head)
	has := func(key string) bool { return first[key] != nil }
	switch {
	case has("custom_id") && (has("body") || has("url")):
		return BatchFile
	case has("prompt") || has("api") && has("model_name"):
		return ExperimentFile
	case has("runs"):
		return RunsFile
	}
	return ""
}
