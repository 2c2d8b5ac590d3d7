package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redistest"
)

// status lists the newest evaluation last, where a scrolling terminal shows it.
func TestStatusListsTheNewestLast(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	files := map[string]string{"docs/a.md": "A.", "docs/b.md": "B."}
	names := []string{"zebra", "ant", "mole"} // ids are in another order, too
	for _, name := range names {
		files[name+".yaml"] = strings.Replace(goodFile, "name: good", "name: "+name, 1)
	}
	dir := tree(t, files)
	for _, name := range names {
		if code, _, stderr := evalfleet(t, nil, "enqueue", filepath.Join(dir, name+".yaml"), "--redis", redis.URL()); code != 0 {
			t.Fatalf("enqueue ended with %d: %s", code, stderr)
		}
	}
	_, stdout, stderr := evalfleet(t, nil, "status", "--redis", redis.URL())
	var listed []string
	for line := range strings.Lines(stdout) {
		if name, _, ok := strings.Cut(line, "  ev-"); ok {
			listed = append(listed, name)
		}
	}
	if !slices.Equal(listed, names) {
		t.Errorf("listed %v, want %v, as submitted: %s", listed, names, stderr)
	}
}
