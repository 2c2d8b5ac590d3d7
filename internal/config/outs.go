package config

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/promptforge"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// outputs checks and stores the paths of listed runs' answers: no two runs write one file, and
// none overwrites a file read here. Paths that differ only in case are the same, as in some
// file systems. For a run with other errors, only the pattern is checked.
func (s *draft) outputs(runs []writtenRun, whole []bool, dir string) {
	o := outputs{
		draft: s, named: s.namedRuns(runs), working: realPath("."),
		read: map[string]string{}, writers: map[written]string{}, folders: map[string]string{},
	}

	for _, file := range s.asked.Runs.Files {
		o.read[realPath(inFolder(dir, file.ID))] = file.ID
	}
	if s.top.file != "" {
		o.read[realPath(s.top.file)] = s.top.file
	}
	for i, r := range runs {
		if r.out == "" {
			if whole[i] {
				o.claim(r, r.idAt, ofOutDir, promptforge.Name(o.named, "", i))
			}
			continue
		}
		name, ok := o.name(r, i)
		if !ok || !whole[i] || !o.free(r, name) || !o.claim(r, r.outAt, here, name) {
			continue
		}
		if r.anywhere {
			s.out = name
			continue
		}
		if s.settings.Outs == nil {
			s.settings.Outs = map[string]string{}
		}
		s.settings.Outs[r.id] = r.out
	}
}

// namedRuns returns the runs with the names that patterns of outputs refer to. They have the same
// positions as written.
func (s *draft) namedRuns(written []writtenRun) *eval.Runs {
	runs := &eval.Runs{}
	for i, r := range written {
		asked := r.over(s.asks)
		runs.Models = append(runs.Models, eval.Judge{Provider: asked.provider, Model: asked.model})
		runs.Files = append(runs.Files, eval.Document{ID: fileID(r.fileA)}, eval.Document{ID: fileID(r.fileB)})
		runs.List = append(runs.List, eval.FileRun{ID: r.id, Model: i, FileA: 2 * i, FileB: 2*i + 1})
	}
	return runs
}

// outputs are the files that runs write.
type outputs struct {
	draft   *draft
	named   *eval.Runs
	working string             // the real path of the working folder
	read    map[string]string  // files that are read, as written, by their real paths
	writers map[written]string // ids of runs by output path
	folders map[string]string  // ids of runs by the folders that they write to, in lower case
}

// written is the path of an output file, in lower case because some file systems ignore case, and the
// folder to which it is relative.
type written struct {
	in   base
	path string
}

// base is the folder to which the path of an output is relative.
type base int

const (
	here     base = iota // the working folder
	ofOutDir             // the output folder
)

// claim records that a run writes to a path, and refuses it if another run does already.
func (o *outputs) claim(r writtenRun, at place, in base, path string) bool {
	const fix = "end it with <run_id>, and give runs ids that differ in more than case and in characters that file names cannot contain"
	key := written{in, strings.ToLower(path)}
	if other, taken := o.writers[key]; taken {
		o.draft.refuse(at, fix, "the run would write %s, like run %s", filepath.ToSlash(path), other)
		return false
	}
	o.writers[key] = r.id
	if in == here {
		for above := range foldersOf(path) {
			o.folders[strings.ToLower(above)] = r.id
		}
	}
	return true
}

// foldersOf yields the folders above a path, from the nearest.
func foldersOf(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for above := filepath.Dir(path); above != "." && above != filepath.Dir(above); above = filepath.Dir(above) {
			if !yield(above) {
				return
			}
		}
	}
}

// name returns the path of a run's answer, made from its pattern. It reports a path that is invalid
// or leads outside the working folder; ok is false then.
func (o *outputs) name(r writtenRun, i int) (name string, ok bool) {
	s := o.draft
	for _, unknown := range promptforge.Unknown(r.out) {
		s.refuse(r.outAt, didYouMean(unknown, promptforge.Placeholders()), "no placeholder %s", unknown)
		return "", false
	}

	name = filepath.Clean(filepath.FromSlash(promptforge.Name(o.named, r.out, i)))
	if r.anywhere {
		if absolute, err := filepath.Abs(name); err == nil {
			name = absolute
		}
	}

	switch {
	case !harmless.IsName(r.out):
		s.refuse(r.outAt, "use printable characters", "%.60q cannot be a path", r.out)
	case strings.HasSuffix(r.out, "/") || name == ".":
		s.refuse(r.outAt, "name a file in it: "+r.out+"<run_id>.md", "%s is a folder", r.out)
	case !r.anywhere && slices.ContainsFunc(strings.Split(filepath.ToSlash(name), "/"), eval.IsDevice):
		s.refuse(r.outAt, "choose another path; --out of a single pair may be anywhere",
			"%s contains the name of a device on Windows", filepath.ToSlash(name))
	case !r.anywhere && !filepath.IsLocal(name):
		s.refuse(r.outAt, "want a path below it; --out of a single pair may be anywhere",
			"%s is outside the working folder", r.out)
	case !r.anywhere && hidden(name):
		s.refuse(r.outAt, "choose another path; --out of a single pair may be anywhere",
			"%s contains a name that starts with a dot, which is not allowed for answers", filepath.ToSlash(name))
	case !r.anywhere && !isBelow(o.working, realPath(filepath.Dir(name))):
		s.refuse(r.outAt, "choose another path; --out of a single pair may be anywhere",
			"%s leads outside the working folder through a symbolic link", filepath.ToSlash(name))
	default:
		return name, true
	}

	return "", false
}

// hidden reports whether a part of a path begins with a dot.
func hidden(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}

// free reports whether a file can be written to a path without harm.
func (o *outputs) free(r writtenRun, name string) bool {
	s := o.draft
	if input, ok := o.read[realPath(name)]; ok {
		s.refuse(r.outAt, "choose another path", "the answer would overwrite %s", input)
		return false
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		s.refuse(r.outAt, "name a file in it", "%s is a folder", name)
		return false
	}
	if other, ok := o.folders[strings.ToLower(name)]; ok {
		s.refuse(r.outAt, "choose another path", "%s is a folder, because run %s writes into it", name, other)
		return false
	}

	for above := range foldersOf(name) {
		other, taken := o.writers[written{here, strings.ToLower(above)}]
		info, err := os.Stat(above)
		switch {
		case taken:
			s.refuse(r.outAt, "choose another path", "%s is not a folder, because run %s writes that file", above, other)
			return false
		case err == nil && !info.IsDir():
			s.refuse(r.outAt, "choose another path", "%s is not a folder", above)
			return false
		}
	}

	if replaceable := s.options.Replaceable; replaceable != nil && !r.anywhere {
		if err := replaceable(name); err != nil {
			s.refuse(r.outAt, "", "cannot write %s: %v", filepath.ToSlash(name), err)
			return false
		}
	}

	return true
}

// inFolder returns path, which is relative to dir unless it is absolute, with the separators of
// this system.
func inFolder(dir, path string) string {
	path = filepath.FromSlash(path)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
