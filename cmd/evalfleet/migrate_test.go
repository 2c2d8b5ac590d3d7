package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, outdir.ResultsFile)
	db, err := results.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, argument := range []string{path, dir} {
		code, stdout, stderr := evalfleet(t, nil, "migrate", argument)
		if code != 0 || stdout != path+" already has version 13\n" || stderr != "" {
			t.Errorf("migrate %s: got %d, %q, %q", argument, code, stdout, stderr)
		}
	}
	missing := filepath.Join(t.TempDir(), outdir.ResultsFile)
	code, _, stderr := evalfleet(t, nil, "migrate", missing)
	if _, err := os.Stat(missing); code != 2 || !strings.Contains(stderr, "there is no such file") || err == nil {
		t.Errorf("migrate of nothing: got %d, %q, and the file: %v", code, stderr, err)
	}
}
