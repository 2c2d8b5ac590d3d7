package config

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// FileKind is what a file asks, and so how it is read.
type FileKind string

// The kinds of files.
const (
	EvaluationFile FileKind = "evaluation" // YAML with keys; see LoadEvaluation
	RunsFile       FileKind = "runs"       // YAML or JSON that lists runs; see LoadEvaluation
	ExperimentFile FileKind = "experiment" // prompts, a line each; see LoadExperiment
	BatchFile      FileKind = "batch"      // requests in OpenAI's Batch format, a line each; see LoadBatch
)

// FileKinds are all kinds.
var FileKinds = []FileKind{EvaluationFile, ExperimentFile, BatchFile, RunsFile}

// KindOfFile recognises a file by its content, or else by its extension. An unreadable file
// counts as an evaluation file: its reader reports the error.
func KindOfFile(path string) FileKind {
	file, err := openRegular(path)
	if err != nil {
		return EvaluationFile
	}
	defer file.Close()
	const enough = 1 << 20 // for a first line
	head, _ := io.ReadAll(io.LimitReader(file, enough))
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	kind := kindOfContent(head)
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case kind != "":
		return kind
	case ext == ".jsonl" || ext == ".csv":
		return ExperimentFile
	}
	return EvaluationFile
}

// kindOfContent is the kind that the beginning of a file tells; empty: none.
func kindOfContent(head []byte) FileKind {
	if len(head) == 0 {
		return ""
	}
	switch head[0] {
	case '[':
		return RunsFile
	case '{':
		return kindOfObject(head)
	case '-':
		if len(head) > 1 && (head[1] == ' ' || head[1] == '\n') {
			return RunsFile
		}
	}
	line, _, _ := bufio.NewReaderSize(bytes.NewReader(head), len(head)+1).ReadLine()
	header, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err == nil && slices.Contains(header, "prompt") && slices.Contains(header, "api") {
		return ExperimentFile
	}
	return ""
}

func kindOfObject(head []byte) FileKind {
	var first map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(head)).Decode(&first) != nil {
		return ""
	}
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
