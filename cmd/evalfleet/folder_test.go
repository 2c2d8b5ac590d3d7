package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
)

// The default output folder of an evaluation with a long name is one that a file system can
// have, and ends with the evaluation's id.
func TestDefaultFolderOfALongName(t *testing.T) {
	t.Parallel()
	const settings = "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"
	for what, files := range map[string][2]string{
		"name": {"eval.yaml", "name: " + strings.Repeat("prüfung ", 50) + "\n"},
		"file": {strings.Repeat("f", 245) + ".yaml", ""},
	} {
		dir := tree(t, runFiles(files[0], files[1]+settings))
		for range 2 { // the second run finds the folder of the first
			p := launch(t, dir, "run", files[0])
			if code := p.wait(); code != int(exitOK) {
				t.Fatalf("%s: run ended with %d: %s", what, code, tail(p.stderr.String()))
			}
		}
		if found, err := os.ReadDir(filepath.Join(dir, outdir.Root)); err != nil || len(found) != 1 || !strings.Contains(found[0].Name(), "-ev-") {
			t.Errorf("%s: the output folders are %v, %v; want one that has the evaluation's id", what, found, err)
		}
	}
	if got, want := outdir.Default("a name", "ev-0123456789ab"), filepath.Join(outdir.Root, "a_name-ev-0123456789ab"); got != want {
		t.Errorf("a short name: got %s, want %s", got, want)
	}
	one, other := outdir.Default(strings.Repeat("x", 300), eval.ID("ev-0123456789ab")), outdir.Default(strings.Repeat("x", 301), eval.ID("ev-0123456789ab"))
	if one == other {
		t.Errorf("two names have one folder, %s", one)
	}
}
