package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/outdir"
)

// TestInitWorksAtOnce goes the way that init advises.
func TestInitWorksAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := launch(t, dir, "init")
	if code := start.wait(); code != 0 {
		t.Fatalf("init ended with %d", code)
	}
	for _, step := range regexp.MustCompile(`(?m)^  evalfleet (.*?)(  .*)?$`).FindAllStringSubmatch(start.stderr.String(), -1) {
		p := launch(t, dir, strings.Fields(step[1])...)
		if code := p.wait(); code != 0 || strings.Contains(p.stderr.String(), "warning") {
			t.Errorf("%s ended with %d: %s", step[1], code, p.stderr.String())
		}
		if strings.Contains(p.stdout.String(), separated) {
			t.Errorf("%s: the samples are told apart perfectly:\n%s", step[1], p.stdout.String())
		}
	}
	if reports, err := filepath.Glob(filepath.Join(dir, outdir.Root, "drafts-*", outdir.ReportFile)); err != nil || len(reports) != 1 {
		t.Errorf("reports: got %q, %v, want one", reports, err)
	}
	ranking := readCSV(t, mustGlob(t, filepath.Join(dir, outdir.Root, "drafts-*", "ranking.csv")))
	if len(ranking) != 5 || ranking[0]["candidate"] != "first.md" || ranking[4]["candidate"] != "fifth.md" {
		t.Errorf("ranking: got %v, want five documents from first.md to fifth.md", ranking)
	}
}

// TestInitBesideDocuments: documents that are there are ranked, without samples among them.
func TestInitBesideDocuments(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/mine.md": "Plain words.", "docs/first.md": "Other plain words.", "docs/notes.txt": "Not ranked."})
	start := launch(t, dir, "init")
	if code := start.wait(); code != 0 || !strings.Contains(start.stderr.String(), "docs/*.md (2 files)") {
		t.Fatalf("init ended with %d: %s", code, start.stderr.String())
	}
	if p := launch(t, dir, "run", "evaluation.yaml"); p.wait() != 0 {
		t.Fatalf("run: %s", p.stderr.String())
	}
	var ranked []string
	for _, row := range readCSV(t, mustGlob(t, filepath.Join(dir, outdir.Root, "drafts-*", "ranking.csv"))) {
		ranked = append(ranked, row["candidate"])
	}
	slices.Sort(ranked)
	if diff := cmp.Diff([]string{"first.md", "mine.md"}, ranked); diff != "" {
		t.Errorf("ranked (-want +got):\n%s", diff)
	}
}

func mustGlob(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %q, %v, want one", pattern, found, err)
	}
	return found[0]
}

// commentedOut is a setting behind a # without a space.
var commentedOut = regexp.MustCompile(`(?m)^( *)#(\S)`)

// starterYAML is one of the starter's YAML files with every setting taken.
func starterYAML(t *testing.T, name string) string {
	t.Helper()
	text, err := starter.ReadFile("starter/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return commentedOut.ReplaceAllString(string(text), "$1$2")
}

// Every setting of the files may be taken at once, without a warning.
func TestStarterSettingsAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, stderr := evalfleet(t, nil, "init", dir); code != int(exitOK) {
		t.Fatalf("init ended with %d: %s", code, stderr)
	}
	for _, kind := range []eval.Kind{eval.KindPairwise, eval.KindSingle, eval.KindPanel} {
		text, err := os.ReadFile(filepath.Join(dir, "templates", string(kind)+".md"))
		if err != nil || string(text) != prompt.DefaultTemplate(kind) {
			t.Errorf("templates/%s.md: %v, %q; want the built-in template", kind, err, text)
		}
	}
	for _, name := range []string{"evaluation.yaml", "fleet.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(starterYAML(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	votes := "item,candidate_a,candidate_b,winner,annotator\n,first.md,second.md,a,somebody\n"
	if err := os.WriteFile(filepath.Join(dir, "votes.csv"), []byte(votes), 0o600); err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(filepath.Join(dir, ".env.sample"))
	if err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(dir, "all.env")
	if err := os.WriteFile(env, commentedOut.ReplaceAll(sample, []byte("$1$2")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := evalfleet(t, nil, "validate", filepath.Join(dir, "evaluation.yaml"), "--env-file", env)
	if code != int(exitOK) || stderr != "" {
		t.Errorf("evaluation.yaml: validate ended with %d: %s", code, stderr)
	}
	fleet, err := config.LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if err != nil || len(fleet.Warnings) > 0 || len(fleet.Limits) == 0 {
		t.Errorf("fleet.yaml: %v, warnings %v, %d limits", err, fleet.Warnings, len(fleet.Limits))
	}
}

// Whatever is in the way, every file is named that is, and none is written.
func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, there := range [][]string{
		{"evaluation.yaml"}, {"templates/panel.md", ".env.sample"}, {"templates/single.md/folder"}, {"docs"},
	} {
		t.Run(fmt.Sprint(there), func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"mine.txt": "mine"}
			for _, name := range there {
				files[name] = "mine"
			}
			dir := tree(t, files)
			before := listing(t, dir)
			code, stdout, stderr := evalfleet(t, nil, "init", dir)
			if code != int(exitUsage) || stdout != "" || !strings.Contains(stderr, "nothing was written") {
				t.Errorf("ended with %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			for _, name := range there {
				if !strings.Contains(stderr, filepath.Join(dir, strings.TrimSuffix(name, "/folder"))) {
					t.Errorf("%s is not named: %s", name, stderr)
				}
			}
			if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// A folder that cannot be written is left as it was found, also when a file
// comes to be there after init has looked.
func TestInitLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"mine": "mine"})
	before := listing(t, dir)
	target := filepath.Join(dir, "new", "deeper")
	err := writeStarter(target, []starterFile{{"a/one", "1"}, {"two", "2"}, {"a/one/three", "3"}})
	if err == nil {
		t.Error("a file below a file: no error")
	}
	if err := writeStarter(dir, []starterFile{{"one", "1"}, {"mine", "theirs"}}); err == nil {
		t.Error("a file that already exists: no error")
	}
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	if mine, err := os.ReadFile(filepath.Join(dir, "mine")); string(mine) != "mine" {
		t.Errorf("my file holds %q, %v", mine, err)
	}
}

func TestStarterIsNarrow(t *testing.T) {
	t.Parallel()
	files, err := starterFiles(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.path, "templates/") {
			continue // prompts: paragraphs are one line
		}
		for line := range strings.Lines(f.content) {
			if strings.Contains(line, "$schema=https://") {
				continue // an address cannot be broken into two lines
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > commandline.HelpWidth {
				t.Errorf("%s: %d columns: %s", f.path, n, line)
			}
		}
	}
}
