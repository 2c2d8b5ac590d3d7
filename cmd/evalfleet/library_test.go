package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The code in docs/library.md is that of examples, which the tests run.
func TestLibraryPageShowsExamples(t *testing.T) {
	t.Parallel()
	const path = "../../docs/library.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for marker, file := range map[string]string{
		"ratelimit": "../../ratelimit/example_test.go", "worker": "../../worker/example_test.go", "rank": "../../eval/rank/example_test.go",
	} {
		line := "<!-- " + marker + " Example -->\n"
		before, after, found := strings.Cut(want, line)
		if !found {
			t.Fatalf("the page lacks %q", line)
		}
		if rest, has := strings.CutPrefix(after, "\n```go\n"); has {
			_, after, _ = strings.Cut(rest, "```\n")
		}
		want = before + line + "\n```go\n" + exampleBody(t, file) + "```\n" + after
	}

	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("write the page anew: go test ./cmd/evalfleet -run TestLibraryPageShowsExamples -update\n(-examples +page):\n%s", diff)
	}
}

// exampleBody returns what the function Example of a file does, as the file has it but for one tab.
func exampleBody(t *testing.T, file string) string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range parsed.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Name.Name == "Example" {
			body := source[positions.Position(f.Body.Lbrace).Offset+2 : positions.Position(f.Body.Rbrace).Offset]
			return strings.TrimPrefix(string(bytes.ReplaceAll(body, []byte("\n\t"), []byte("\n"))), "\t")
		}
	}
	t.Fatalf("%s has no Example", file)
	return ""
}
