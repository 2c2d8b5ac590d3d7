package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// coined are words that readers would have to translate; the glossary has what the field says instead.
	coined = regexp.MustCompile(`(?i)\b(abilit(y|ies)|(un)?pinned|(held|hold|holds|holding) back|bound by|binds|binding (limit|rate)s?|` +
		`(an?|the|its|this|that|each|another|into|in) sinks?)\b`)
	bareHead = regexp.MustCompile(`(?i)<th[^>]*>(longer|first|retrying|ability|sink)</th>|data-h="(longer|first|retrying)"`)

	codeSpan      = regexp.MustCompile("`[^`\n]*`")
	templateParts = regexp.MustCompile(`(?s)\{\{.*?\}\}|<!--.*?-->|\b(id|class|href|for|name|data-[a-gi-z][a-z-]*)="[^"]*"`)
	yamlSays      = regexp.MustCompile(`(?m)(?:^|\s)#.*$|description: "[^"]*"`)
	jsonSays      = regexp.MustCompile(`"(?:title|description|legendFormat)": "(?:[^"\\]|\\.)*"`)
	statement     = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|ALTER|CREATE|FROM)\b`)

	// keysIn are names of columns and keys.
	keysIn = map[string]bool{"tables.go: ability": true, "criteriatable.go: ability": true, "json.go: ability": true, "everyeval.go: ability": true}
)

// TestWords: pages, reports, help, messages, documentation, charts and dashboards use the field's words. Names in files,
// JSON, flags and Redis keep theirs, and the glossary explains those that a reader meets.
func TestWords(t *testing.T) {
	t.Parallel()
	const root = "../.."
	read := map[string]int{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, kind := entry.Name(), filepath.Ext(path)
		switch {
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || name == "CHANGELOG.md" || name == "faults.yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		said, ok := saidIn(t, path, string(text))
		if !ok {
			return nil
		}
		read[kind]++
		for _, one := range said {
			if word := coined.FindString(one); word != "" {
				t.Errorf("%s says %q: use what docs/glossary.md says. It is in: %s", path, word, strings.TrimSpace(one))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{".go", ".md", ".html", ".yaml", ".json"} {
		if read[kind] < 3 {
			t.Errorf("%d files of %s read, want all", read[kind], kind)
		}
	}
}

// saidIn returns the parts of a file that people read; ok is false if it has none.
func saidIn(t *testing.T, path, text string) (said []string, ok bool) {
	t.Helper()
	switch filepath.Ext(path) {
	case ".md":
		text = codeSpan.ReplaceAllString(codeBlocks.ReplaceAllString(text, ""), "")
		return strings.Split(linkIn.ReplaceAllString(text, "]"), "\n"), true
	case ".html":
		for _, head := range bareHead.FindAllString(text, -1) {
			t.Errorf("%s: %s is a bare head: say what is meant", path, head)
		}
		return strings.Split(templateParts.ReplaceAllString(text, ""), "\n"), true
	case ".yaml", ".yml":
		for _, one := range yamlSays.FindAllString(text, -1) {
			said = append(said, codeSpan.ReplaceAllString(one, ""))
		}
		return said, true
	case ".json":
		return jsonSays.FindAllString(text, -1), true
	case ".go":
		return literals(t, path, text), true
	}
	return nil, false
}

// literals returns the strings of a Go file, but for statements of SQL and the tags of fields.
func literals(t *testing.T, path, text string) (said []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			value, err := strconv.Unquote(n.Value)
			if err == nil && !statement.MatchString(value) && !keysIn[filepath.Base(path)+": "+value] {
				said = append(said, codeSpan.ReplaceAllString(value, ""))
			}
		}
		return true
	})
	return said
}

// The glossary explains the words that remain, beside what the field calls them.
func TestGlossary(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range []string{
		"run", "item", "limit", "limited by", "in force for", "`sink`", "strength", "wins against the average", "win rate", "picks first, picks longer",
	} {
		if !strings.Contains(string(text), "\n| "+term+" |") {
			t.Errorf("the glossary does not explain %s", term)
		}
	}
	for _, key := range []string{"`ability`", "`bound_by`", "`binds`", "`pinned_by`"} {
		if !strings.Contains(string(text), key) {
			t.Errorf("the glossary does not say what %s is in files", key)
		}
	}
}
