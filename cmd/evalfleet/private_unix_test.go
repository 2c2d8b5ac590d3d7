//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Results can contain what others must not read: only their owner may, whatever the umask
// allows.
func TestResultsAreForTheirOwner(t *testing.T) {
	t.Parallel()
	dir := tree(t, runFiles("docs/a.md", "Alpha.", "docs/b.md", "Beta.", "good.yaml", goodFile,
		"listed.yaml", "name: listed\nprovider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{id: r1, file_a: a.md, file_b: b.md, out: answers/deep/r1.md}]\n"))
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("sh", append([]string{"-c", `umask 0; exec "$0" "$@"`, must(binary())}, args...)...)
		if p := start(t, dir, cmd); p.wait() != 0 {
			t.Fatalf("%v failed", args)
		}
	}
	run("run", "good.yaml", "--out-dir", "results/first", "--events", "results.jsonl")
	run("run", "listed.yaml", "--out-dir", "results/second")
	run("report", "results/first", "results/first", "--out-dir", "compared")
	checked := 0
	for _, made := range []string{"results", "results.jsonl", "answers", "compared"} {
		err := filepath.WalkDir(filepath.Join(dir, made), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			if checked++; info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the rights %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if checked < 12 {
		t.Errorf("%d files and folders were made, want more", checked)
	}
}
