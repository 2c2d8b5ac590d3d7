package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Problem is one problem of the input: its place, the value found, and a valid value.
type Problem struct {
	File    string // empty: not in a file
	Line    int    // from 1; 0: the file as a whole
	Column  int    // from 1; 0: the line as a whole
	Path    string // the key ("judges[1].model"), flag or variable; may be empty
	Message string // the value found
	Fix     string // how to correct it; may be empty

	more   int  // further problems of the file, which are counted but not listed
	listed bool // list it, however many others the file has
}

// String returns the problem as one line: place, key, value found, valid value.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		for _, n := range []int{p.Line, p.Column} {
			if n == 0 {
				break
			}
			b.WriteString(":" + strconv.Itoa(n))
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return oneLine.Replace(b.String())
}

var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// Problems lists all problems of the input. It is the error of every function of this package that
// reads settings.
type Problems []Problem

// maxListed bounds how many problems of one file are listed, and maxLines how many in all: a file
// in another format, or a folder of such files, has thousands.
const (
	maxListed = 20
	maxLines  = 100
)

// Error returns one line per problem, at most 20 of each file and 100 in all. The last line says
// how many more there are.
func (p Problems) Error() string { return strings.Join(p.Listed("problem"), "\n") }

// Listed returns the lines of Error with another word for "problem", such as "warning".
func (p Problems) Listed(what string) []string {
	var lines []string
	listed, more, rest := map[string]int{}, 0, 0
	for i, problem := range p {
		switch listed[problem.File]++; {
		case problem.more > 0:
			more += problem.more
		case len(lines) >= maxLines:
			rest++
		case problem.listed || listed[problem.File] <= maxListed:
			lines = append(lines, problem.String())
		default:
			more++
		}
		if last := i+1 == len(p) || p[i+1].File != problem.File; last && more > 0 {
			lines = append(lines, Problem{File: problem.File, Message: "and " + wording.Counted(more, "more "+what)}.String())
			more = 0
		}
	}
	if rest > 0 {
		lines = append(lines, "and "+wording.Counted(rest, "more "+what)+" elsewhere")
	}
	return lines
}

// place is where something was written.
type place struct {
	file         string
	line, column int
	path         string
}

// String returns the place without its key, for example "answers.jsonl:17".
func (p place) String() string {
	s := p.file
	if p.line > 0 {
		s += ":" + strconv.Itoa(p.line)
	}
	return s
}

type findings struct {
	problems Problems
	warnings Problems
	opened   func(path string) // like Options.Opened; may be nil
	now      time.Time         // like Options.Now
}

// clock returns the time at which the files are read.
func (f *findings) clock() time.Time {
	if f.now.IsZero() {
		return time.Now()
	}
	return f.now
}

func (f *findings) refuse(at place, fix, format string, args ...any) {
	f.problems = append(f.problems, at.problem(fix, format, args...))
}

func (f *findings) warn(at place, fix, format string, args ...any) {
	f.warnings = append(f.warnings, at.problem(fix, format, args...))
}

func (p place) problem(fix, format string, args ...any) Problem {
	return Problem{File: p.file, Line: p.line, Column: p.column, Path: p.path,
		Message: fmt.Sprintf(format, args...), Fix: fix}
}

// err returns the problems as an error of type Problems, nil if there are none. They are sorted by
// file, and each file's from top to bottom.
func (f *findings) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	files := map[string]int{}
	for _, p := range f.problems {
		if _, ok := files[p.File]; !ok {
			files[p.File] = len(files)
		}
	}
	slices.SortStableFunc(f.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	f.problems = slices.Compact(f.problems) // an alias repeats the problem of its anchor
	return f.problems
}

// didYouMean returns a fix that proposes the nearest known word, or lists known words if none is
// near.
func didYouMean(word string, known []string) string {
	if near := wording.Nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	const most = 20
	known = slices.Sorted(slices.Values(known))
	if len(known) > most {
		known = append(known[:most:most], "…")
	}
	return "known: " + strings.Join(known, ", ")
}
