package config

import (
	"path/filepath"
)

// loadFolder makes an evaluation that compares every document of a folder with every other,
// in both orders. It is what loadEvaluation makes of documents: ["dir/*"], pairwise: {} and the
// judges, each a provider:model, and of the flags in Options.Compare. Subfolders and hidden files are left out. Its error is of type
// Problems.
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
	set.addFiles(files)
	s.asked.Pairwise = s.compare(set, folder)
	if ok && !set.comparable() && len(s.problems) == 0 {
		s.refuse(folder, "put at least two documents into it", "documents to compare in the folder: %d", len(s.asked.Documents))
	}
	return s.finish()
}
