// Package promptforge names the files of FilePromptForge's format: the answers of listed runs, by
// patterns with placeholders.
//
// It opens no files: config reads the lists of runs and checks the patterns, results writes the
// answers.
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

// placeholders are what a pattern may name, each with its value in a run.
var placeholders = map[string]func(*eval.Runs, eval.FileRun) string{
	"<file_a_stem>": func(r *eval.Runs, run eval.FileRun) string { return stem(r.Files[run.FileA].ID) },
	"<file_b_stem>": func(r *eval.Runs, run eval.FileRun) string { return stem(r.Files[run.FileB].ID) },
	"<model_name>":  func(r *eval.Runs, run eval.FileRun) string { return r.Models[run.Model].Model },
	"<provider>":    func(r *eval.Runs, run eval.FileRun) string { return r.Models[run.Model].Provider },
	"<run_id>":      func(_ *eval.Runs, run eval.FileRun) string { return run.ID },
}

var placeholder = regexp.MustCompile(`<[A-Za-z0-9_]+>`)

// Name returns the file of the i-th run's answer: pattern (the default if it is
// empty) with each placeholder replaced by the run's value, which is made a safe
// piece of one file name. The pattern's own text is left as it is, its slashes
// divide folders; whether the path stays where it should is for the caller to check.
// A name that values make a device's on Windows gets an underscore in front, and one
// that they make too long for a file loses its middle to a hash of the whole.
//
// Different runs may get one name, from a pattern without <run_id>, from ids that
// differ in unsafe characters only, or, where file systems take them for the same,
// in upper and lower case.
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

// Placeholders are those that Name replaces, sorted.
func Placeholders() []string { return slices.Sorted(maps.Keys(placeholders)) }

// Unknown are those of a pattern that Name does not replace.
func Unknown(pattern string) []string {
	var unknown []string
	for _, found := range placeholder.FindAllString(pattern, -1) {
		if _, known := placeholders[found]; !known {
			unknown = append(unknown, found)
		}
	}
	return unknown
}

// Names returns the file of each run by a pattern with <run_id>. Where file systems take two names
// for the same, the later has its position in the list behind the run's id.
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

// stem is a file's name without its folder and its last ending. A name that is
// nothing but an ending (.env) is kept.
func stem(file string) string {
	name := path.Base(strings.ReplaceAll(file, `\`, "/"))
	if bare := strings.TrimSuffix(name, path.Ext(name)); bare != "" {
		return bare
	}
	return name
}
