package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// answersAt returns the shape of a file of answers or questions; nil: it is not one.
func answersAt(path string) *answers.Shape {
	first, err := firstOf(path)
	if err != nil || first == nil {
		return nil
	}
	if shape := answers.Sniff(first); shape != nil {
		return shape
	}
	return answers.Guess(first)
}

// notPrompts returns the problem that a file has answers, not prompts. Its Fix says how to judge
// them.
func notPrompts(path string) Problem {
	return Problem{
		File: path, Line: 1, Message: "this looks like a file of answers, not of prompts to send",
		Fix: "to have them judged, run evalfleet run " + wording.ShellWord(path) + " --judge openai:gpt-5-mini",
	}
}

// loadAnswers makes an evaluation that compares the answers in files pair by pair, in both orders. It is what
// loadEvaluation makes of documents: {answers: [files…]}, pairwise: {} and the judges, each a provider:model. Its
// error is of type Problems.
func loadAnswers(paths, judges []string, o Options) (*Submission, error) {
	s, set, err := readAnswers(paths, o)
	if err != nil {
		return nil, err
	}
	s.judgesOf(judges)
	if len(judges) == 0 {
		what := "this looks like a file of answers"
		if len(paths) > 1 {
			what = "these look like files of answers"
		}
		s.refuse(place{file: paths[0], line: 1}, "name a judge, for example --judge simulator:careful", "%s; they need a judge", what)
	}
	s.asked.Pairwise = s.compare(*set, place{file: paths[0]})
	if len(s.problems) == 0 && !set.comparable() {
		s.refuse(place{file: paths[0]}, "add the files of other candidates", "no item has answers of two candidates: %s",
			strings.Join(s.taken, "; "))
	}
	return s.finish()
}

// readAnswers reads files of answers, of questions about them, and documents beside them.
func readAnswers(paths []string, o Options) (*draft, *documentSet, error) {
	name, dir := stem(paths[0]), filepath.Dir(paths[0])
	if len(paths) > 1 {
		name = filepath.Base(realPath(dir))
	}
	s, err := newDraft("", dir, name, o)
	if err != nil {
		return nil, nil, err
	}

	set := s.newDocumentSet()
	a := set.newAnswerFiles()
	for _, path := range paths {
		if answersAt(path) == nil && len(paths) > 1 && isText(path) {
			set.addFile(path, foundDocument{id: filepath.Base(path)})
			continue
		}
		a.file(place{file: path}, path)
	}
	a.finish()
	return s, &set, nil
}

// isText reports whether a file is a document, by its name: it is none of the formats of answers.
func isText(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json", ".jsonl", ".csv", ".tsv", ".parquet", ".eval":
		return false
	}
	return true
}

// Look describes the answers that files have, without judges. Its error is of type Problems.
func (in Input) Look(o Options) (text string, warnings []Problem, err error) {
	s, _, err := readAnswers(in.paths(), o)
	if err != nil {
		return "", nil, err
	}
	if err := s.err(); err != nil {
		return "", nil, err
	}
	command := "evalfleet run"
	for _, path := range in.paths() {
		command += " " + wording.ShellWord(path)
	}
	const most = 200 // a longer command is not for people
	if len(command) > most {
		command = fmt.Sprintf("evalfleet run with these %s", wording.Counted(len(in.paths()), "file"))
	}
	text = "looks like " + strings.TrimPrefix(strings.Join(s.taken, "\nand "), "read ") + "\n"
	return strings.ReplaceAll(text, "and read ", "and ") + "run with: " + command + " --judge openai:gpt-5-mini\n", s.warnings, nil
}

// paths returns the input's files.
func (in Input) paths() []string {
	if len(in.More) == 0 {
		return []string{in.Path}
	}
	return in.More
}

// judgesOf adds the judges of a flag.
func (s *draft) judgesOf(judges []string) {
	at := place{path: "--judge"}
	for _, target := range judges {
		var judge eval.Judge
		if s.setTarget(&judge, target, at) {
			s.asked.Judges = append(s.asked.Judges, judge)
			s.judgesAt = append(s.judgesAt, at)
		}
	}
}
