package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultOutput names the answer of a run that says nothing about it.
const DefaultOutput = "<file_b_stem>.<model_name>.<run_id>.fpf.response.md"

// longestName is the maximum length of one name in a path, in bytes: the 255 of common file
// systems, with room for a suffix while the file is written.
const longestName = 200

// placeholders are what a pattern may name, each with its value in a run.
var placeholders = map[string]func(*Runs, FileRun) string{
	"<file_a_stem>": func(r *Runs, run FileRun) string { return stem(r.Files[run.FileA].ID) },
	"<file_b_stem>": func(r *Runs, run FileRun) string { return stem(r.Files[run.FileB].ID) },
	"<model_name>":  func(r *Runs, run FileRun) string { return r.Models[run.Model].Model },
	"<provider>":    func(r *Runs, run FileRun) string { return r.Models[run.Model].Provider },
	"<run_id>":      func(_ *Runs, run FileRun) string { return run.ID },
}

var placeholder = regexp.MustCompile(`<[A-Za-z0-9_]+>`)

// Output names the file of the i-th run's answer: pattern (DefaultOutput where it is
// empty) with each placeholder replaced by the run's value, which is made a safe
// piece of one file name. The pattern's own text is left as it is, its slashes
// divide folders; whether the path stays where it should is for the caller to check.
// A name that values make a device's on Windows gets an underscore in front, and one
// that they make too long for a file loses its middle to a hash of the whole.
//
// Different runs may get one name, from a pattern without <run_id>, from ids that
// differ in unsafe characters only, or, where file systems take them for the same,
// in upper and lower case.
func (r *Runs) Output(pattern string, i int) string {
	if pattern == "" {
		pattern = DefaultOutput
	}
	names := strings.Split(pattern, "/")
	for n, name := range names {
		filled := placeholder.ReplaceAllStringFunc(name, func(found string) string {
			if value, known := placeholders[found]; known {
				return safeName(value(r, r.List[i]))
			}
			return found
		})
		if filled != name {
			names[n] = noDevice(filled)
		}
	}
	return strings.Join(names, "/")
}

// Placeholders are those that Output replaces, sorted.
func Placeholders() []string { return slices.Sorted(maps.Keys(placeholders)) }

// UnknownPlaceholders are those of a pattern that Output does not replace.
func UnknownPlaceholders(pattern string) []string {
	var unknown []string
	for _, found := range placeholder.FindAllString(pattern, -1) {
		if _, known := placeholders[found]; !known {
			unknown = append(unknown, found)
		}
	}
	return unknown
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

// safeName makes a value part of one file name on any system: path separators, characters that
// some system forbids, and invisible ones (control characters, marks that change the direction
// of writing) become _, as does a value that is empty or made of dots.
func safeName(value string) string {
	if strings.Trim(value, ".") == "" {
		return strings.Repeat("_", max(len(value), 1))
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || strings.ContainsRune(`/\<>:"|?*`, r) || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, value)
}

var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|:|$)`)

// IsDevice reports whether Windows takes a name in a path for a device, in every folder
// and with every extension. Such names are avoided everywhere, so that a file means the
// same on all systems.
func IsDevice(name string) bool { return devices.MatchString(name) }

// FileName returns a name that files of any system can have, in which nothing is hidden: that
// of an evaluation, for example, which may come from another person.
func FileName(name string) string { return noDevice(safeName(name)) }

// noDevice is a name, shortened, which no system takes for a device.
func noDevice(name string) string {
	if IsDevice(name) {
		name = "_" + name
	}
	return shortened(name)
}

// shortened is name, or its beginning, a hash of it and its end where it is too long
// for a file's name.
func shortened(name string) string {
	if len(name) <= longestName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	middle := "_" + hex.EncodeToString(hash[:6]) + "_"
	const end = 40
	head := strings.ToValidUTF8(name[:longestName-len(middle)-end], "")
	return head + middle + strings.ToValidUTF8(name[len(name)-end:], "")
}
