package check

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// tracked is a file that git tracks, at its path in the repository.
type tracked string

func (f tracked) Path() string                 { return string(f) }
func (f tracked) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, string(f))) }
func (f tracked) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, string(f))) }

func trackedFiles(t *testing.T) []modzip.File {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []modzip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		files = append(files, tracked(name))
	}
	return files
}

var goInstall = regexp.MustCompile(`go install ([\w./-]+)@latest`)

// TestGoInstall: the program can be installed with go install as docs/quickstart.md says. The
// module's archive, as a module proxy makes it, has every file that the program embeds, and go.mod
// has nothing for which go install refuses a module.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	file, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(file.Replace) + len(file.Exclude); n > 0 {
		t.Errorf("go.mod has %d lines of replace and exclude, with which go install refuses the module", n)
	}
	named := goInstall.FindStringSubmatch(read(t, "docs/quickstart.md"))
	if named == nil {
		t.Fatal("docs/quickstart.md shows no go install")
	}

	m := module.Version{Path: file.Module.Mod.Path, Version: "v1.0.0"}
	archive, err := os.Create(filepath.Join(t.TempDir(), "module.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if exists(root, ".git") {
		err = modzip.Create(archive, m, trackedFiles(t))
	} else { // an export of a commit has no other files
		err = modzip.CreateFromDir(archive, m, root)
	}
	if err != nil {
		t.Fatalf("the files make no archive of a module: %v", err)
	}
	dir := t.TempDir()
	if err := modzip.Unzip(dir, m, archive.Name()); err != nil {
		t.Fatal(err)
	}
	if !exists(dir, "LICENSE") {
		t.Error("the archive has no LICENSE")
	}
	packages := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Name}}{{end}}", named[1])
	packages.Dir = dir
	var problems bytes.Buffer
	packages.Stderr = &problems
	listed, err := packages.Output()
	if err != nil || !strings.HasSuffix(string(listed), "\n"+named[1]+" main\n") {
		t.Errorf("go list in the archive finds no program %s: %v, %s", named[1], err, problems.Bytes())
	}
}
