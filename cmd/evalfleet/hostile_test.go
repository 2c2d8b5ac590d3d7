package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unchanged fails unless files of a folder have what they had.
func unchanged(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
}

// A folder that somebody else made names answer files in the working folder of who
// reports on it. They are written into the received folder instead.
func TestReportOnAReceivedFolderWritesNothingElsewhere(t *testing.T) {
	t.Parallel()
	mine := map[string]string{".git/config": "[core]", "Makefile": "all:", "data/kept.txt": "kept"}
	dir := tree(t, mine)
	received := filepath.Join(dir, "received")
	if err := os.Mkdir(received, 0o755); err != nil {
		t.Fatal(err)
	}
	sink, _ := listedRuns(t, filepath.Join(received, sinkFile), map[string]string{
		"a/b": ".git/config", "a_b": "Makefile", "r3": "new.md",
	}, "a/b", "a_b", "r3", "r4", "fails")
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	report := launch(t, dir, "report", "received")
	if code := report.wait(); code != int(exitOK) {
		t.Fatalf("report ended with %d", code)
	}
	unchanged(t, dir, mine)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("the working folder has %v, %v; want nothing new", left, err)
	}
	for file, answer := range map[string]string{
		"input.m.a_b.fpf.response.md": "Answer of a/b", "input.m.a_b.1.fpf.response.md": "Answer of a_b", "input.m.r3.fpf.response.md": "Answer of r3",
	} {
		unchanged(t, received, map[string]string{file: answer})
		if !strings.Contains(report.stdout.String(), filepath.Join("received", file)) {
			t.Errorf("the report does not name %s", file)
		}
	}
}
