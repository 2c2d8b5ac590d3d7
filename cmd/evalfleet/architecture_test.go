package main

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	modulePath = "github.com/evalfleet/evalfleet/"
	boxIn      = regexp.MustCompile(`(?m)^\s*(\w+)\["([\w/]+)`)
	arrowIn    = regexp.MustCompile(`(?m)^\s*(\w+) --> ([\w &]+)$`)
	// families are packages that are drawn with those below them.
	families = []string{"eval", "providers", "view", "worker"}
	// forTests are packages that only tests import, or that are only tests.
	forTests = []string{"internal/faults", "internal/pgtest", "internal/redistest", "internal/testproxy", "internal/testrun", "internal/providertest"}
)

// The picture in docs/architecture.md has a box for every package, those of a family
// together, and the arrows from which all imports follow, and no other.
func TestArchitecturePicture(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(page), "```mermaid\n")
	picture, _, _ = strings.Cut(picture, "```")
	boxes, drawn := map[string]string{}, map[string][]string{}
	for _, m := range boxIn.FindAllStringSubmatch(picture, -1) {
		boxes[m[1]] = m[2]
		drawn[m[2]] = nil
	}
	for _, m := range arrowIn.FindAllStringSubmatch(picture, -1) {
		for to := range strings.SplitSeq(m[2], " & ") {
			drawn[boxes[m[1]]] = append(drawn[boxes[m[1]]], boxes[to])
		}
		slices.Sort(drawn[boxes[m[1]]])
	}
	if diff := cmp.Diff(withoutWhatFollows(imports(t)), drawn); diff != "" {
		t.Errorf("imports against the picture (-code +picture):\n%s", diff)
	}
}

// Packages below internal are helpers of the public ones: of ours they import only each other
// and the lowest of those.
func TestInternalPackagesImportNothingAbove(t *testing.T) {
	t.Parallel()
	for from, direct := range imports(t) {
		if !strings.HasPrefix(from, "internal/") {
			continue
		}
		for to := range direct {
			if !strings.HasPrefix(to, "internal/") && !slices.Contains([]string{"eval", "providers", "ratelimit", "record", "store"}, to) {
				t.Errorf("%s imports %s, which is above it", from, to)
			}
		}
	}
}

var fileIn = regexp.MustCompile("`([\\w./]+\\.(?:go|lua))`")

// Files that docs/architecture.md and CONTRIBUTING.md name are there.
func TestPagesNameFiles(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]int{"docs/architecture.md": 30, "CONTRIBUTING.md": 25} {
		page, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		named := fileIn.FindAllStringSubmatch(string(page), -1)
		if len(named) < least {
			t.Errorf("%s names %d files, want at least %d", path, len(named), least)
		}
		for _, m := range named {
			if _, err := os.Stat("../../" + m[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// imports returns what each package of the program imports of ours. The packages of a
// family count as one.
func imports(t *testing.T) map[string]map[string]bool {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../../...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	box := func(path string) string {
		path = strings.TrimPrefix(path, modulePath)
		if first, _, nested := strings.Cut(path, "/"); nested && slices.Contains(families, first) {
			return first
		}
		return path
	}
	graph := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		if slices.Contains(forTests, strings.TrimPrefix(paths[0], modulePath)) {
			continue
		}
		from := box(paths[0])
		if graph[from] == nil {
			graph[from] = map[string]bool{}
		}
		for _, path := range paths[1:] {
			if strings.HasPrefix(path, modulePath) && box(path) != from {
				graph[from][box(path)] = true
			}
		}
	}
	return graph
}

// withoutWhatFollows leaves an arrow out where another way leads to the same place.
func withoutWhatFollows(graph map[string]map[string]bool) map[string][]string {
	var reach func(from string, seen map[string]bool)
	reach = func(from string, seen map[string]bool) {
		for to := range graph[from] {
			if !seen[to] {
				seen[to] = true
				reach(to, seen)
			}
		}
	}
	least := map[string][]string{}
	for from, direct := range graph {
		least[from] = nil
		follows := map[string]bool{}
		for to := range direct {
			reach(to, follows)
		}
		for _, to := range slices.Sorted(maps.Keys(direct)) {
			if !follows[to] {
				least[from] = append(least[from], to)
			}
		}
	}
	return least
}
