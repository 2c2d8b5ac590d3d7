package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	longFunction = 25  // lines of a function that needs paragraphs, at least
	longestLine  = 140 // columns, a tab being one
)

// Long functions have paragraphs. Comments say what a function does, not what it is. Go files have fewer
// than 500 lines, of at most 140 columns.
func TestCodeIsReadable(t *testing.T) {
	t.Parallel()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules") {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		wantReadable(t, path, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wantReadable(t *testing.T, path string, text []byte) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) > 500 {
		t.Errorf("%s has %d lines, want fewer than 500", path, len(lines)-1)
	}
	for i, line := range lines {
		if columns := utf8.RuneCountInString(line); columns > longestLine && !ast.IsGenerated(file) {
			t.Errorf("%s:%d: the line has %d columns, want at most %d", path, i+1, columns, longestLine)
		}
	}

	for _, declared := range file.Decls {
		function, is := declared.(*ast.FuncDecl)
		if !is || function.Body == nil {
			continue
		}
		name, first, last := function.Name.Name, set.Position(function.Pos()).Line, set.Position(function.End()).Line
		if last-first+1 >= longFunction && !slices.ContainsFunc(lines[first-1:last], isBlank) {
			t.Errorf("%s:%d: %s has %d lines and no paragraphs: separate its steps by blank lines", path, first, name, last-first+1)
		}
		words := strings.Fields(function.Doc.Text())
		if len(words) > 1 && words[0] == name && slices.Contains([]string{"is", "are", "was", "were", "has", "have"}, words[1]) {
			t.Errorf("%s:%d: the comment begins with %q: say what %s does", path, first, strings.Join(words[:2], " "), name)
		}
	}
}

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }
