package config

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// globs reads the files that match patterns; a file's id is its base name. It
// returns the patterns as written.
func (set *documentSet) globs(y *yamlFile, patterns []value) []string {
	seen := map[string]bool{}
	var written []string
	var all []match
	for _, v := range patterns {
		pattern := y.text(v)
		if pattern == "" {
			continue
		}
		written = append(written, pattern)
		files, ok := set.match(v.place, pattern)
		if !ok {
			continue
		}
		if len(files) == 0 && len(patterns) > 1 {
			y.warn(v.place, "", "no file matches %s", pattern)
		}
		for _, file := range files {
			id := path.Base(file.name)
			if key := realPath(file.path) + "\x00" + id; !seen[key] {
				seen[key] = true
				all = append(all, match{path: file.path, name: id})
			}
		}
	}

	set.addFiles(all)
	return written
}

// addFiles adds files. A file of answers has a document in each row, any other is a document, whose id is its name.
func (set *documentSet) addFiles(files []match) {
	a := set.newAnswerFiles()
	for _, file := range files {
		if !isText(file.path) && answersAt(file.path) != nil {
			a.file(place{file: file.path}, file.path)
			continue
		}
		set.addFile(file.path, foundDocument{id: file.name})
	}
	a.finish()
}

// realPath returns the absolute path of a file without symbolic links, so that two ways to write a
// path are equal. The file, and folders of its path, need not exist.
func realPath(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if above := filepath.Dir(path); above != path {
		return filepath.Join(realPath(above), filepath.Base(path))
	}
	return path
}

// match is a file that matches a pattern: its path, and its name in the form that the pattern uses.
type match struct{ path, name string }

// match lists the files that match a pattern, sorted. "**" matches any number of folders. A hidden
// file matches only if the pattern contains its dot.
func (set *documentSet) match(at place, pattern string) ([]match, bool) {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	folder := filepath.FromSlash(base)
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(set.draft.dir, folder)
	}
	if !set.draft.mayRead(at, set.draft.dir, folder) {
		return nil, false
	}
	names, err := doublestar.Glob(os.DirFS(folder), rest,
		doublestar.WithNoHidden(), doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if err != nil {
		set.draft.refuse(at, "", "%s: %v", pattern, cause(err))
		return nil, false
	}

	slices.Sort(names)
	var files []match
	for _, name := range names {
		file := match{path: filepath.Join(folder, filepath.FromSlash(name)), name: path.Join(base, name)}
		info, err := os.Stat(file.path)
		switch {
		case err != nil:
			set.draft.refuse(place{file: file.path}, "", "%v", cause(err))
		case !info.IsDir() && !set.draft.mayRead(at, set.draft.dir, file.path):
			return nil, false
		case !info.IsDir():
			files = append(files, file)
		case rest == name:
			set.draft.refuse(at, "list its files: "+strings.TrimSuffix(pattern, "/")+"/*", "%s is a folder", pattern)
			return nil, false
		}
	}

	return files, true
}

func (set *documentSet) addFile(file string, doc foundDocument) {
	if isImage(file) {
		set.addImage(file, doc)
		return
	}
	text, ok := set.draft.readText(file, maxText)
	if !ok {
		return
	}
	doc.at, doc.text = place{file: file}, string(text)
	set.add(doc)
}

var placeholder = regexp.MustCompile(`<(\w*)>`)

// files reads the form {files: "essays/<item>/<candidate>.md"}: the two names are taken from
// the path, each within one folder's or file's name. All other characters are literal. It
// returns the pattern as written.
func (set *documentSet) files(y *yamlFile, v value) (pattern string) {
	at := v.place
	y.mapping(v, keys{"files": func(v value) { pattern, at = y.text(v), v.place }})
	if pattern == "" {
		return ""
	}
	pattern = path.Clean(filepath.ToSlash(pattern))
	var glob, extract strings.Builder
	extract.WriteString("^")
	seen := map[string]bool{}
	end := 0
	literal := func(s string) {
		glob.WriteString(escapeGlob.Replace(s))
		extract.WriteString(regexp.QuoteMeta(s))
	}

	for _, m := range placeholder.FindAllStringSubmatchIndex(pattern, -1) {
		literal(pattern[end:m[0]])
		name := pattern[m[2]:m[3]]
		if seen[name] || name != "item" && name != "candidate" {
			y.refuse(at, "use <item> and <candidate>, each once", "<%s> is not allowed here", name)
			return pattern
		}
		seen[name] = true
		glob.WriteString("*")
		extract.WriteString("(?P<" + name + ">[^/]+?)")
		end = m[1]
	}

	literal(pattern[end:])
	extract.WriteString("$")
	if !seen["candidate"] {
		y.refuse(at, `for example {files: "essays/<item>/<candidate>.md"}`, "the pattern has no <candidate>")
		return pattern
	}
	matches, ok := set.match(at, glob.String())
	if !ok {
		return pattern
	}

	names := regexp.MustCompile(extract.String())
	for _, file := range matches {
		m := names.FindStringSubmatch(file.name)
		if m == nil {
			continue // a name must not be empty
		}
		doc := foundDocument{candidate: m[names.SubexpIndex("candidate")]}
		if i := names.SubexpIndex("item"); i > 0 {
			doc.item = m[i]
		}
		doc.id = answerID(doc.item, doc.candidate)
		set.addFile(file.path, doc)
	}

	return pattern
}

var escapeGlob = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `\`, `\\`)

// answerID returns the id of a document for which only its item and candidate are known.
func answerID(item, candidate string) string {
	if item == "" {
		return candidate
	}
	return item + "/" + candidate
}
