// Package faults checks the tests: it plants a fault for each of several promises and expects
// the test of that promise to fail.
package faults

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

var (
	full = flag.Bool("full", false, "plant the faults (minutes)")
	only = flag.String("only", "", "plant only the faults of tests whose name matches this regular expression")
)

const root = "../.."

type fault struct {
	Breaks  string // the promise
	File    string
	Replace string // occurs once in File
	With    string
	Package string // folder of Test
	Test    string
}

func faults(t *testing.T) []fault {
	t.Helper()
	text, err := os.ReadFile("faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []fault
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return all
}

// planted returns the file's text with the fault in it.
func (f fault) planted(t *testing.T, folder string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, f.File))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(f.Replace)); n != 1 {
		t.Fatalf("faults.yaml: %s has %q %d times, want once", f.File, f.Replace, n)
	}
	return bytes.Replace(text, []byte(f.Replace), []byte(f.With), 1)
}

// TestFaultsCanBePlanted checks that each fault still fits its file, and that its test exists.
func TestFaultsCanBePlanted(t *testing.T) {
	t.Parallel()
	for _, f := range faults(t) {
		t.Run(f.Test, func(t *testing.T) {
			t.Parallel()
			f.planted(t, root)
			files, err := filepath.Glob(filepath.Join(root, f.Package, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(text, []byte("\nfunc "+f.Test+"(")) {
					return
				}
			}
			t.Errorf("%s has no test %s", f.Package, f.Test)
		})
	}
}

// TestFaultsTurnTestsRed plants one fault after the other in a copy of the tree. A test that
// fails counts; one that does not compile, or that hangs until its timeout, does not.
func TestFaultsTurnTestsRed(t *testing.T) {
	if !*full {
		t.Skip("make faults plants them")
	}
	tree := filepath.Join(t.TempDir(), "tree")
	copyTree(t, tree)
	chosen := regexp.MustCompile(*only)
	for _, f := range faults(t) {
		if !chosen.MatchString(f.Test) {
			continue
		}
		t.Run(f.Test, func(t *testing.T) {
			file := filepath.Join(tree, f.File)
			sound, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, f.planted(t, tree), 0o600); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.WriteFile(file, sound, 0o600); err != nil {
					t.Fatal(err)
				}
			}()
			target, output := f.run(t, tree)
			if !strings.Contains(output, "--- FAIL: "+f.Test) || strings.Contains(output, "panic: test timed out") {
				t.Fatalf("%s: want %s to fail, got:\n%s", f.Breaks, f.Test, output)
			}
			t.Logf("%s: %s of %s\n%s", f.Breaks, f.Test, target, strings.Join(said.FindAllString(output, 3), "\n"))
		})
	}
}

// said is what a test logged; the line of a test that was skipped does not count.
var said = regexp.MustCompile(`(?m)^ *\w+_test\.go:\d+: (?:[^s]|s[^l]).*`)

// run runs the test as make test does, or as make check does if make test skips it.
func (f fault) run(t *testing.T, tree string) (target, output string) {
	t.Helper()
	if output = f.test(t, tree, "-short"); strings.Contains(output, "\n--- SKIP: "+f.Test) {
		return "make check", f.test(t, tree)
	}
	return "make test", output
}

func (f fault) test(t *testing.T, tree string, flags ...string) string {
	t.Helper()
	flags = append([]string{"test", "-vet=off", "-count=1", "-v", "-timeout", "5m", "-run", "^" + f.Test + "$"}, flags...)
	test := exec.CommandContext(testrun.Context(t), "go", flags...)
	test.Dir = filepath.Join(tree, f.Package)
	out, err := test.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// copyTree copies the module without what was built or downloaded.
func copyTree(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && name != "." && (name == "bin" || strings.HasPrefix(name, ".") && name != ".github"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm()|0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
