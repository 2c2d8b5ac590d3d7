package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// asks is the model for listed runs that name none.
type asks struct {
	provider, model     string
	providerAt, modelAt place
}

// over returns a with missing parts taken from weaker. It takes no model of another provider,
// because a model belongs to its provider.
func (a asks) over(weaker asks) asks {
	if a.model == "" && (a.provider == "" || weaker.provider == "" || a.provider == weaker.provider) {
		a.model, a.modelAt = weaker.model, weaker.modelAt
	}
	if a.provider == "" {
		a.provider, a.providerAt = weaker.provider, weaker.providerAt
	}
	return a
}

// places returns where the parts of a were written.
func (a asks) places() []place {
	var all []place
	if a.provider != "" {
		all = append(all, a.providerAt)
	}
	if a.model != "" {
		all = append(all, a.modelAt)
	}
	return all
}

// asksKeys read provider and model.
func (y *yamlFile) asksKeys(a *asks) keys {
	return keys{
		"provider": func(v value) { a.provider, a.providerAt = catalog.Canonical(y.text(v)), v.place },
		"model":    func(v value) { a.model, a.modelAt = y.text(v), v.place },
	}
}

type writtenRun struct {
	asks
	id, fileA, fileB       string
	idAt, fileAAt, fileBAt place
	out                    string // a pattern; empty: none
	outAt                  place
	anywhere               bool // the answer may be written outside of the working folder
	overrides              map[string]any
	at                     place
}

// runs reads a list of runs.
func (y *yamlFile) runs(v value) []writtenRun {
	var all []writtenRun
	before := len(y.problems)
	y.list(v, func(v value) {
		if !isMapping(v.node) {
			y.mismatch(v, "a run, for example {model: gpt-5-mini, file_a: instructions.md, file_b: input.md}")
			return
		}
		r := y.run(v)
		if r.id == "" {
			r.id, r.idAt = fmt.Sprintf("run%d", len(all)+1), v.place
		}
		all = append(all, r)
	})
	if len(all) == 0 && len(y.problems) == before {
		y.refuse(v.place, "for example [{provider: openai, model: gpt-5-mini, file_a: instructions.md, file_b: input.md}]", "no runs are listed")
	}
	return all
}

// run reads one run of a list, or the block of a single run.
func (y *yamlFile) run(v value) writtenRun {
	r := writtenRun{at: v.place, fileAAt: v.place, fileBAt: v.place}
	known := keys{
		"id":        func(v value) { r.id, r.idAt = y.text(v), v.place },
		"overrides": func(v value) { r.overrides = y.overrides(v) },
	}
	maps.Copy(known, y.asksKeys(&r.asks))
	maps.Copy(known, y.filesKeys(&r))
	y.mapping(v, known)
	return r
}

func (y *yamlFile) filesKeys(r *writtenRun) keys {
	return keys{
		"file_a": func(v value) { r.fileA, r.fileAAt = y.text(v), v.place },
		"file_b": func(v value) { r.fileB, r.fileBAt = y.text(v), v.place },
		"out":    func(v value) { r.out, r.outAt = y.text(v), v.place },
	}
}

// singleRun reads the block of a single run, which asks the file's model.
func (y *yamlFile) singleRun(v value) writtenRun {
	r := writtenRun{id: "run1", idAt: v.place, at: v.place, fileAAt: v.place, fileBAt: v.place}
	y.mapping(v, y.filesKeys(&r))
	return r
}

// runList collects listed runs into an evaluation, with each model and file once.
type runList struct {
	draft *draft
	dir   string // paths of files are relative to it
	// byCommand means that the command line lists the runs, and so chooses the files.
	byCommand bool

	runs   *eval.Runs
	item   int
	ids    map[string]place
	models map[string]int // positions in runs.Models, by their names
	files  map[string]int // positions in runs.Files, by path
}

// listRuns adds written runs to the evaluation. The paths of their files are relative to dir, and
// must be below it unless the command line itself lists them.
func (s *draft) listRuns(written []writtenRun, dir string, byCommand bool) {
	l := runList{
		draft: s, dir: dir, byCommand: byCommand, runs: &eval.Runs{}, item: s.emptyItem(),
		ids: map[string]place{}, models: map[string]int{}, files: map[string]int{},
	}
	whole := make([]bool, len(written))
	for i, r := range written {
		before := len(s.problems)
		l.add(r)
		whole[i] = len(s.problems) == before
	}
	s.asked.Runs = l.runs
	s.outputs(written, whole, dir)
}

// emptyItem returns the position of the item without a name, to which the files of runs belong. It
// adds the item if needed.
func (s *draft) emptyItem() int {
	for i, item := range s.asked.Items {
		if item.ID == "" {
			return i
		}
	}
	s.asked.Items = append(s.asked.Items, eval.Item{})
	return len(s.asked.Items) - 1
}

// add adds one run; its problems are reported at their own places.
func (l *runList) add(r writtenRun) {
	s := l.draft
	r.asks = r.over(s.asks)
	switch before, twice := l.ids[r.id]; {
	case !nameable(r.id):
		s.unnameable(r.idAt, r.id, "cannot be a run's id")
	case twice:
		s.refuse(r.idAt, "give each run a unique id; a run without one is named after its position in the list",
			"a second run with the id %s, the first is in %s", r.id, before.origin())
	}
	l.ids[r.id] = r.idAt
	model, ok := l.model(r)
	fileA, okA := l.file(r, r.fileA, r.fileAAt, "file_a", "the instructions")
	fileB, okB := l.file(r, r.fileB, r.fileBAt, "file_b", "the input")
	if !ok || !okA || !okB {
		return
	}
	files := l.runs.Files
	if files[fileA].Bytes+files[fileB].Bytes == 0 {
		s.refuse(r.at, "put the instructions into file_a and the input into file_b", "both files are empty, so there is nothing to send")
	}
	l.runs.List = append(l.runs.List, eval.FileRun{ID: r.id, Model: model, FileA: fileA, FileB: fileB})
}

// model returns the position in runs.Models of the run's model and settings, and adds it if it is
// new. It reports a run without a provider or model, and returns false.
func (l *runList) model(r writtenRun) (int, bool) {
	s := l.draft
	for _, part := range []struct {
		name, value string
		at          place
	}{{"provider", r.provider, r.providerAt}, {"model", r.model, r.modelAt}} {
		switch {
		case part.value == "":
			fix := "add " + part.name + ", to the run or to the file for all its runs"
			if r.at.path == pairFlag {
				fix = "add --" + part.name
			}
			s.refuse(r.at, fix, "the run has no %s", part.name)
			return 0, false
		case !harmless.IsName(part.value):
			s.refuse(part.at, "", "%q does not name a %s", part.value, part.name)
			return 0, false
		}
	}

	m := eval.Judge{Provider: r.provider, Model: r.model, Overrides: r.overrides}
	m.Name = m.Target()
	if len(r.overrides) > 0 {
		settings, err := json.Marshal(r.overrides)
		if err != nil {
			panic(fmt.Sprintf("config: encode overrides: %v", err)) // cannot happen: they came from JSON
		}
		m.Name += " " + string(settings)
	}

	if i, ok := l.models[m.Name]; ok {
		return i, true
	}
	l.models[m.Name] = len(l.runs.Models)
	l.runs.Models = append(l.runs.Models, m)
	s.modelsAt = append(s.modelsAt, r.modelAt)
	return len(l.runs.Models) - 1, true
}

// file returns the position in runs.Files of one of the run's files, and reads it when it is first
// named. Two ways to write a path are one file. It returns false if the file cannot be used; the problem
// has been reported.
func (l *runList) file(r writtenRun, name string, at place, key, what string) (int, bool) {
	s := l.draft
	if name == "" {
		s.refuse(r.at, "add "+key+", the file of "+what, "the run has no %s", key)
		return 0, false
	}
	id := fileID(name)
	if !nameable(id) {
		s.unnameable(at, name, "cannot be a file's name here")
		return 0, false
	}
	path := inFolder(l.dir, id)
	if i, ok := l.files[path]; ok {
		return i, i >= 0
	}
	l.files[path] = -1 // until it is read, so that its errors are reported once
	if !l.byCommand && !s.mayRead(at, l.dir, path) {
		return 0, false
	}
	read, ok := s.textAt(at, path, maxText)
	if !ok {
		return 0, false
	}

	text := string(read)
	hash := eval.TextHash(text)
	s.texts[hash] = text
	l.files[path] = len(l.runs.Files)
	l.runs.Files = append(l.runs.Files, eval.Document{ID: id, Item: l.item, Candidate: id, Hash: hash, Bytes: len(text)})
	return len(l.runs.Files) - 1, true
}

// fileID returns the id of a run's file: its path as written, cleaned, with slashes.
func fileID(name string) string { return filepath.ToSlash(filepath.Clean(filepath.FromSlash(name))) }
