package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Input is the source of an evaluation: a file, a folder of documents, or only the runs of
// Options.Listed.
type Input struct {
	Path   string // empty: only options list runs
	Folder bool
	Kind   FileKind // of a file
	// More are all files of answers, if there are several. Path is the first of them.
	More []string
}

// InputAt returns the input at a path, with the kind that its content shows. The path may be empty.
func InputAt(path string) Input {
	in := Input{Path: path, Kind: EvaluationFile}
	if path == "" {
		return in
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		in.Folder = true
	} else {
		in.Kind = kindOfFile(path)
	}
	return in
}

// ErrNoAnswers is the error of several files of which none is a file of answers or a document.
var ErrNoAnswers = errors.New("none of the files has answers")

// InputOf returns the input of several files of answers, or of the files that match patterns. Its error is of type
// Problems, or ErrNoAnswers.
func InputOf(patterns []string) (Input, error) {
	var files []string
	for _, pattern := range patterns {
		if _, err := os.Stat(pattern); err == nil {
			files = append(files, pattern)
			continue
		}
		matches, err := doublestar.FilepathGlob(pattern, doublestar.WithNoHidden(), doublestar.WithFilesOnly())
		if err != nil || len(matches) == 0 {
			return Input{}, Problems{{File: pattern, Message: "no such file"}}
		}
		slices.Sort(matches)
		files = append(files, matches...)
	}

	var problems Problems
	taken := 0
	for _, file := range files {
		switch in := InputAt(file); {
		case in.Folder:
			problems = append(problems, Problem{File: file, Message: "this is a folder", Fix: "name its files, for example " +
				filepath.Join(file, "*.jsonl")})
		case in.Kind != AnswersFile && (!isText(file) || isYAML(file)):
			problems = append(problems, Problem{
				File: file, Line: 1, Message: "not a known kind of answers" + fieldsSeen(file),
				Fix: "several files are compared with each other; run evaluations, experiments and lists of runs one at a time",
			})
		default:
			taken++
		}
	}
	if taken == 0 {
		return Input{}, ErrNoAnswers
	}
	if len(problems) > 0 {
		return Input{}, problems
	}
	return Input{Path: files[0], Kind: AnswersFile, More: files}, nil
}

// AreEvaluations reports whether all paths are those of evaluation files, by their names. The files may not exist.
func AreEvaluations(paths []string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !isYAML(path) })
}

// isYAML reports whether a file's name is that of an evaluation file.
func isYAML(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".yaml" || ext == ".yml"
}

// Experiments lists the experiment files in a folder, the oldest first. Its error is of type
// Problems.
func Experiments(dir string) ([]Input, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Problems{{File: dir, Message: "no such folder", Fix: "put experiments into it, or pass a FILE"}}
	}
	if err != nil {
		return nil, Problems{{Message: err.Error()}}
	}

	var found []fs.FileInfo
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); ext != ".jsonl" && ext != ".csv" {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}

	if len(found) == 0 {
		return nil, Problems{{File: dir, Message: "the folder has no experiment", Fix: "want files that end with .jsonl or .csv"}}
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	all := make([]Input, len(found))
	for i, info := range found {
		all[i] = Input{Path: filepath.Join(dir, info.Name()), Kind: ExperimentFile}
	}
	return all, nil
}

// Load makes the evaluation of an input. judges, each a provider:model, judge the documents of a
// folder. Its error is of type Problems.
func (in Input) Load(judges []string, o Options) (*Submission, error) {
	refuse := func(flag, message string) (*Submission, error) {
		return nil, Problems{{Path: flag, Message: message}}
	}
	if flags := o.Compare.flags(); len(flags) > 0 && !in.Folder && in.Kind != AnswersFile && in.Kind != PromptfooFile {
		return refuse(flags[0], "the flag applies to folders and files of answers or promptfoo's; in an evaluation file, set "+
			"pairwise.pairs, until and budget")
	}

	switch {
	case in.Folder && o.Listed != Listed{}:
		return refuse(o.Listed.flags()[0], in.Path+" is a folder; with listed runs, pass a file with settings, or no file")
	case in.Folder:
		return loadFolder(in.Path, judges, o)
	case in.Kind == ExperimentFile:
		return loadExperiment(in.Path, o)
	case in.Kind == AnswersFile && o.Listed != Listed{}:
		return refuse(o.Listed.flags()[0], in.Path+" is a file of answers; with listed runs, pass a file with settings, or no file")
	case in.Kind == AnswersFile:
		return loadAnswers(in.paths(), judges, o)
	case in.Kind == PromptfooFile && o.Listed != Listed{}:
		return refuse(o.Listed.flags()[0], in.Path+" is promptfoo's; with listed runs, pass a file with settings, or no file")
	case in.Kind == PromptfooFile:
		return loadPromptfoo(in.Path, judges, o)
	case in.Kind == BatchFile:
		return loadBatch(in.Path, o)
	case len(judges) > 0 && in.Path == "":
		return refuse("--judge", "listed runs name their own models; the flag applies to folders and experiments")
	case len(judges) > 0:
		return refuse("--judge", in.Path+" is a file, which names its own judges; the flag applies to folders and experiments")
	case in.Path == "":
		return loadRuns(o)
	}
	return loadEvaluation(in.Path, o)
}

// Files returns the files of an evaluation that is sent to another machine: their paths relative to
// dir, and inputs, the paths of the evaluation file, the folder of documents, or the files of answers
// among them. The paths include the name of the evaluation's folder, because evaluations may be named
// after it. Files with errors are included: the receiver knows the providers and reports the errors.
// Its error is of type Problems.
func (in Input) Files(judges []string) (dir string, inputs, paths []string, err error) {
	refuse := func(err error) (string, []string, []string, error) {
		return "", nil, nil, Problems{{Message: err.Error()}}
	}
	path, err := filepath.Abs(in.Path)
	if err != nil {
		return refuse(err)
	}

	own := path // the evaluation's folder
	if !in.Folder {
		own = filepath.Dir(path)
	}
	dir = filepath.Dir(own)
	for _, input := range in.paths() {
		absolute, err := filepath.Abs(input)
		if err != nil {
			return refuse(err)
		}
		name, err := filepath.Rel(dir, absolute)
		if err != nil {
			return refuse(err)
		}
		inputs = append(inputs, name)
	}

	var opened []string
	_, loaded := in.Load(judges, Options{ForFleet: true, AllowOutside: true, Opened: func(path string) { opened = append(opened, path) }})
	if len(opened) == 0 {
		return "", nil, nil, loaded
	}

	for _, path := range opened {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return refuse(err)
		}
		name, err := filepath.Rel(own, absolute)
		if err != nil || !filepath.IsLocal(name) {
			return "", nil, nil, Problems{{
				File: path, Message: "the file is not below the evaluation's folder", Fix: "copy it there, so that it can be sent",
			}}
		}
		paths = append(paths, filepath.Join(filepath.Base(own), name))
	}

	return dir, inputs, paths, nil
}

// OfAnswers reports whether an experiment asks judges about the answers of another.
func (s *Submission) OfAnswers() bool { return s.Queues != nil && s.File == "" }

// MoveTo moves an experiment's file into a folder, and makes the folder if needed. The error is
// fs.ErrExist if the folder has a file of that name.
func (s *Submission) MoveTo(dir string) error {
	to, err := filepath.Abs(filepath.Join(dir, filepath.Base(s.File)))
	if err != nil || to == s.File {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(s.File, to); err != nil {
		return err
	}
	s.File = to
	return nil
}
