package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// loadFolder makes an evaluation that compares every document of a folder with every other,
// in both orders. It is what loadEvaluation makes of documents: ["dir/*"], pairwise: {} and the
// judges, each a provider:model, and of the flags in Options.Compare, without the files that no one
// submits as documents. Its warnings say what was left out. Its error is of type Problems.
func loadFolder(dir string, judges []string, o Options) (*Submission, error) {
	name := filepath.Base(realPath(dir))
	s, err := newDraft("", dir, name, o)
	if err != nil {
		return nil, err
	}

	s.judgesOf(judges)
	if len(judges) == 0 {
		s.refuse(place{path: "--judge"}, "name one, for example --judge simulator:careful", "a folder needs a judge")
	}
	set := s.newDocumentSet()
	folder := place{file: dir}
	files, ok := set.match(folder, "*")
	files, left := submitted(dir, files)
	set.addFiles(files)
	if len(left) > 0 {
		s.warn(folder, "", "took %s; left out %s", wording.Counted(len(files), "file"), enumerated(left))
	}
	s.asked.Pairwise = s.compare(set, folder)
	if ok && !set.comparable() && len(s.problems) == 0 {
		fix := "put at least two documents into it"
		if len(left) > 0 {
			fix += ", or list files in an evaluation file; left out here: " + enumerated(left)
		}
		s.refuse(folder, fix, "documents to compare in the folder: %d", len(s.asked.Documents))
	}
	return s.finish()
}

// dataEndings are those of files that have data or settings: they are documents only where an evaluation file lists them.
var dataEndings = []string{
	".csv", ".tsv", ".json", ".jsonl", ".eval", ".yaml", ".yml", ".toml", ".ini", ".xlsx", ".xls", ".ods", ".db", ".sqlite", ".parquet",
}

// submitted returns the files of a folder that are documents or have answers, and the names of what is left out:
// README files, files with data or settings, and subfolders. Hidden ones are neither.
func submitted(dir string, files []match) (documents []match, left []string) {
	for _, file := range files {
		ending := strings.ToLower(filepath.Ext(file.path))
		stem := strings.TrimSuffix(filepath.Base(file.path), filepath.Ext(file.path))
		data := slices.Contains(dataEndings, ending) && (isText(file.path) || answersAt(file.path) == nil)
		if data || strings.EqualFold(stem, "readme") {
			left = append(left, file.name)
			continue
		}
		documents = append(documents, file)
	}

	entries, err := os.ReadDir(dir)
	if err != nil { // match has reported it
		return documents, left
	}
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			left = append(left, entry.Name()+"/")
		}
	}
	return documents, left
}

// enumerated names things, and counts those beyond the fifth.
func enumerated(names []string) string {
	const named = 5
	if more := len(names) - named; more > 0 {
		return fmt.Sprintf("%s and %s more", strings.Join(names[:named], ", "), wording.Count(more))
	}
	return strings.Join(names, ", ")
}
