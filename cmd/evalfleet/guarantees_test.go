package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	guaranteeRow = regexp.MustCompile("(?m)^\\| (.+) \\| (`Test.+`) \\| `make ([a-z]+)` \\|$")
	fleetTests   = regexp.MustCompile(`-run "([^"]+)" \./cmd/evalfleet -full-fleet`)
)

// TestGuaranteesNameTheirTests checks that each promise in docs/guarantees.md names tests
// that exist, and the target that runs them.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	fleet := fleetTests.FindSubmatch(makefile)
	if fleet == nil {
		t.Fatal("the Makefile's target fleet selects no tests of cmd/evalfleet")
	}
	inFleet := regexp.MustCompile(string(fleet[1]))
	tests := declaredTests(t, root)
	rows := guaranteeRow.FindAllStringSubmatch(string(page), -1)
	if promises := strings.Count(string(page), "\n| ") - 1; len(rows) != promises || promises == 0 {
		t.Errorf("%d of %d promises name their tests and target", len(rows), promises)
	}
	for _, row := range rows {
		promise, target := row[1], row[3]
		for quoted := range strings.SplitSeq(row[2], ", ") {
			name := strings.Trim(quoted, "`")
			slow, exists := tests[name]
			switch {
			case !exists:
				t.Errorf("%s: no test is named %s", promise, name)
			case target == "test" && slow:
				t.Errorf("%s: make test skips %s, which calls testrun.Slow", promise, name)
			case target == "check" && !slow:
				t.Errorf("%s: make test runs %s already", promise, name)
			case target == "fleet" && !inFleet.MatchString(name):
				t.Errorf("%s: make fleet does not select %s", promise, name)
			case target == "chaos" && !strings.Contains(string(makefile), "-run '^"+name+"$$'"):
				t.Errorf("%s: make chaos does not run %s", promise, name)
			case target != "test" && target != "check" && target != "fleet" && target != "chaos":
				t.Errorf("%s: make %s is not a target that proves promises", promise, target)
			}
		}
	}
}

// TestSecurityPromisesNameTheirTests checks that each promise in docs/security.md names
// tests that exist.
func TestSecurityPromisesNameTheirTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, promised, found := strings.Cut(string(page), "\n| promise | test |\n|---|---|\n")
	promised, _, ended := strings.Cut(promised, "\n\n")
	if !found || !ended {
		t.Fatal("docs/security.md has no table of promises and tests")
	}
	tests := declaredTests(t, root)
	for row := range strings.Lines(promised + "\n") {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 2 {
			t.Errorf("%swant a promise and its tests", row)
			continue
		}
		for quoted := range strings.SplitSeq(cells[1], ", ") {
			if _, exists := tests[strings.Trim(quoted, "`")]; !exists {
				t.Errorf("%s: no test is named %s", cells[0], quoted)
			}
		}
	}
}

// declaredTests returns the names of all tests below root, and whether each is slow: the
// test calls testrun.Slow itself.
func declaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = tests[f.Name.Name] || callsSlow(f)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func callsSlow(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := selector.X.(*ast.Ident)
		found = found || ok && of.Name == "testrun" && selector.Sel.Name == "Slow"
		return true
	})
	return found
}
