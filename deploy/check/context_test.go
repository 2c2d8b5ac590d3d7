package check

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// ignored returns what .dockerignore keeps out of the build.
func ignored() (*patternmatcher.PatternMatcher, error) {
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

// copyContext copies the files of the repository that .dockerignore lets into the build.
func copyContext(to string) error {
	kept, err := ignored()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		without, err := kept.MatchesOrParentMatches(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && without && !strings.Contains(name, "/"): // no pattern lets a part of such a folder in
			return fs.SkipDir
		case without || !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}

// The build gets what the program is made of and nothing that people keep in a clone.
func TestBuildContext(t *testing.T) {
	t.Parallel()
	kept, err := ignored()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		".env", "keys.env", ".git/config", ".secrets/redis", "mine/evaluation.yaml", "drafts/a.md", "answers.jsonl", "results/essays/results.db",
		"evalfleet-out/essays/results.db", "cmd/evalfleet/evalfleet-out/essays/results.db", "cmd/evalfleet/.env", "internal/web/keys.env",
		"cmd/evalfleet/main_test.go", "eval/rank/testdata/battles.csv", "deploy/compose/fleet.yaml", "docs/fleet.md",
	} {
		if without, err := kept.MatchesOrParentMatches(path); err != nil || !without {
			t.Errorf("%s is in the build: %v", path, err)
		}
	}

	// Without Go's cache of the files' names: what the program embeds is in no list of packages.
	listed := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}\n{{end}}"+
		"{{range .EmbedFiles}}{{$dir}}/{{.}}\n{{end}}{{end}}", "./cmd/evalfleet")
	listed.Dir = root
	out, err := listed.Output()
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for file := range strings.FieldsSeq(string(out)) {
		name, ours := strings.CutPrefix(file, here+"/")
		if !ours {
			continue // of a module
		}
		files++
		if without, err := kept.MatchesOrParentMatches(name); err != nil || without {
			t.Errorf("the program is made of %s, which .dockerignore keeps out: %v", name, err)
		}
	}
	if files < 500 {
		t.Errorf("the program is made of %d files, want more than 500: this test looks at too few", files)
	}
}
