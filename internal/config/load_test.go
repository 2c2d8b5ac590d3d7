package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder writes files, named by their paths below a new folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// env is an environment of fixed variables.
func env(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// two is the least that pairwise needs.
var two = map[string]string{"docs/a.md": "Alpha.", "docs/b.md": "Beta."}

// with adds files to others.
func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[name] = text
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

const minimal = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n"

func load(t testing.TB, files map[string]string, o Options) *Submission {
	t.Helper()
	dir := folder(t, files)
	s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), o)
	if err != nil {
		t.Fatalf("load:\n%v\nwant no problem", err)
	}
	return s
}

// problemsOf loads what must not load, and returns the problems with the
// folder's name taken out.
func problemsOf(t testing.TB, files map[string]string, o Options) (Problems, string) {
	t.Helper()
	dir := folder(t, files)
	s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), o)
	if err == nil {
		t.Fatalf("load: no problem, got %+v", s.Evaluation)
	}
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("load: error of type %T: %v, want Problems", err, err)
	}
	return problems, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
}
