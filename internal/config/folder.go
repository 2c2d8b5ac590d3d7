package config

import (
	"path/filepath"

	"github.com/evalfleet/evalfleet/eval"
)

// loadFolder makes an evaluation that compares every document of a folder with every other,
// in both orders. It is what loadEvaluation makes of documents: ["dir/*"], pairwise: {} and the
// judges, each a provider:model. Subfolders and hidden files are left out. Its error is of type
// Problems.
func loadFolder(dir string, judges []string, o Options) (*Submission, error) {
	name := filepath.Base(realPath(dir))
	s, err := newDraft("", dir, name, o)
	if err != nil {
		return nil, err
	}

	at := place{path: "--judge"}
	for _, target := range judges {
		var judge eval.Judge
		if s.setTarget(&judge, target, at) {
			s.asked.Judges = append(s.asked.Judges, judge)
			s.judgesAt = append(s.judgesAt, at)
		}
	}

	if len(judges) == 0 {
		s.refuse(at, "name one, for example --judge simulator:careful", "a folder needs a judge")
	}
	set := s.newDocumentSet()
	folder := place{file: dir}
	files, ok := set.match(folder, "*")
	for _, file := range files {
		set.addFile(file.path, foundDocument{id: file.name})
	}
	s.asked.Pairwise = allPairs()
	if ok && !set.comparable() && len(s.problems) == 0 {
		s.refuse(folder, "put at least two documents into it", "documents to compare in the folder: %d", len(s.asked.Documents))
	}
	return s.finish()
}
