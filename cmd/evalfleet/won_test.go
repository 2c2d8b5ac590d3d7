package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// twoOutputs runs two evaluations of the same texts and returns the folder of their output folders.
func twoOutputs(t *testing.T) (root string) {
	t.Helper()
	dir := tree(t, threeEssays())
	root = filepath.Join(dir, "out")
	for _, name := range []string{"one", "two"} {
		code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "essays"), "--judge", "simulator:careful",
			"--again", name, "--out-dir", filepath.Join(root, name))
		if code != 0 {
			t.Fatalf("run ended with %d: %s", code, stderr)
		}
	}
	return root
}

// The status of an output folder says who won, how far to trust that, what it cost and how old it is; that of a folder of
// output folders lists them all.
func TestStatusOfFoldersSaysWhoWon(t *testing.T) {
	t.Parallel()
	root := twoOutputs(t)
	for dir, evaluations := range map[string]int{filepath.Join(root, "one"): 1, root: 2} {
		code, stdout, stderr := evalfleet(t, nil, "status", dir)
		if code != 0 {
			t.Fatalf("status %s ended with %d: %s", dir, code, stderr)
		}
		for _, want := range []string{"“a.md” is", "get the same verdict in both orders", "$0", "submitted"} {
			if got := strings.Count(strings.Join(strings.Fields(stdout), " "), want); got < evaluations {
				t.Errorf("status %s has %q %d times, want %d:\n%s", dir, want, got, evaluations, stdout)
			}
		}
	}
}
