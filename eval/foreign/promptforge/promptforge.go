// Package promptforge names the files of FilePromptForge's format: the answers of listed runs, by patterns with
// placeholders.
//
// It opens no files. Package config reads the lists of runs and checks the patterns; results writes the answers.
package promptforge

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// defaultName is the pattern of an answer if none is given.
const defaultName = "<file_b_stem>.<model_name>.<run_id>.fpf.response.md"

// placeholders maps the placeholders of a pattern to functions that return their values for a run.
var placeholders = map[string]func(*eval.Runs, eval.FileRun) string{
	"<file_a_stem>": func(r *eval.Runs, run eval.FileRun) string { return stem(r.Files[run.FileA].ID) },
	"<file_b_stem>": func(r *eval.Runs, run eval.FileRun) string { return stem(r.Files[run.FileB].ID) },
	"<model_name>":  func(r *eval.Runs, run eval.FileRun) string { return r.Models[run.Model].Model },
	"<provider>":    func(r *eval.Runs, run eval.FileRun) string { return r.Models[run.Model].Provider },
	"<run_id>":      func(_ *eval.Runs, run eval.FileRun) string { return run.ID },
}

var placeholder = regexp.MustCompile(`<[A-Za-z0-9_]+>`)

// Name returns the file name of the i-th run's answer. It is the pattern (the default one if empty) with each
// placeholder replaced by the run's value, which is made safe for a file name. The pattern's own text is kept, and
// its slashes separate folders. The caller must check that the path stays inside its folder. A name that values turn
// into a Windows device is prefixed with an underscore. If values make a name too long, a hash of the whole replaces
// its middle.
//
// Different runs may get the same name. This happens with a pattern without <run_id>, and if ids differ only in
// unsafe characters or, on some file systems, in case.
func Name(r *eval.Runs, pattern string, i int) string {
	if pattern == "" {
		pattern = defaultName
	}
	names := strings.Split(pattern, "/")
	for n, name := range names {
		filled := placeholder.ReplaceAllStringFunc(name, func(found string) string {
			if value, known := placeholders[found]; known {
				return eval.NamePart(value(r, r.List[i]))
			}
			return found
		})
		if filled != name {
			names[n] = eval.WholeName(filled)
		}
	}
	return strings.Join(names, "/")
}

// Placeholders returns the placeholders that Name replaces, sorted.
func Placeholders() []string { return slices.Sorted(maps.Keys(placeholders)) }

// Unknown returns the placeholders of a pattern that Name does not replace.
func Unknown(pattern string) []string {
	var unknown []string
	for _, found := range placeholder.FindAllString(pattern, -1) {
		if _, known := placeholders[found]; !known {
			unknown = append(unknown, found)
		}
	}
	return unknown
}

// Names returns the file name of each run, for a pattern with <run_id>. If two names differ at most in case, the
// later one gets its position in the list after the run's id.
func Names(r *eval.Runs, pattern string) []string {
	if pattern == "" {
		pattern = defaultName
	}
	taken := map[string]bool{}
	names := make([]string, len(r.List))
	for i := range r.List {
		name := Name(r, pattern, i)
		if taken[strings.ToLower(name)] {
			name = Name(r, strings.Replace(pattern, "<run_id>", fmt.Sprintf("<run_id>.%d", i), 1), i)
		}
		taken[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}

// stem returns a file's name without its folder and its last extension. A name that is only an extension (.env) is
// kept.
func stem(file string) string {
	name := path.Base(strings.ReplaceAll(file, `\`, "/"))
	if bare := strings.TrimSuffix(name, path.Ext(name)); bare != "" {
		return bare
	}
	return name
}
