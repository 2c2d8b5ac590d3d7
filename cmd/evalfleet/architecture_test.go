package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
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
	families = []string{"eval", "providers", "internal/view", "worker"}
	// forTests are folders of packages that only tests and developers use.
	forTests = []string{"internal/testing", "tools"}
	// helpers are the folders of the group that the picture draws apart, but for what is above it.
	helpers = []string{
		"internal/backoff", "internal/cli", "internal/estimate", "internal/failure", "internal/machine", "internal/queue",
		"internal/redisx", "internal/simulator",
		"internal/telemetry/lossy", "internal/telemetry/notify", "internal/text", "internal/web/moment", "internal/web/upload",
	}
)

// Few packages reach the types of go-redis' connections. The compiler repeats some 1,700 of its methods in each that does,
// which takes about 1.5 s of a processor. Others hold a redis.Cmdable (see store.Store.Client).
func TestFewPackagesReachConnections(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export",
		"-f", `{{if .Module}}{{if .Module.Main}}{{.ImportPath}} {{.Export}}{{end}}{{end}}`, ".")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var reach []string
	for line := range strings.Lines(string(out)) {
		name, archive, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(compiled, []byte("struct { *github.com/redis/go-redis/v9.baseClient; ")) {
			reach = append(reach, strings.TrimPrefix(name, modulePath))
		}
	}
	if len(reach) > mostReach {
		t.Errorf("%d packages reach go-redis' connections, want at most %d:\n%s", len(reach), mostReach, strings.Join(reach, "\n"))
	}
}

// mostReach is how many packages may reach go-redis' connections: those that open them, that have asynq's clients,
// inspector and server, and that subscribe.
const mostReach = 10

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

// Helpers import only each other and the lowest of the public packages.
func TestHelpersImportNothingAbove(t *testing.T) {
	t.Parallel()
	for from, direct := range imports(t) {
		if !within(from, helpers) {
			continue
		}
		for to := range direct {
			if !within(to, helpers) && !within(to, []string{"eval", "providers", "ratelimit", "enqueue/record", "enqueue/store"}) {
				t.Errorf("%s imports %s, which is above it", from, to)
			}
		}
	}
}

// within reports whether a package is one of some folders, or below one.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") })
}

var (
	fileIn = regexp.MustCompile("`([\\w./]+\\.(?:go|lua))`")
	// placedIn matches names with the files that declare them: `A.B`, `c` in `x/y.go`, or `A.B` (`x/y.go`).
	placedIn = regexp.MustCompile("((?:`[\\w.:]+`(?:,| and) )*`[\\w.:]+`) (?:in |\\()(`[\\w./]+\\.(?:go|lua)`(?:, `[\\w./]+\\.go`)*)")
	quotedIn = regexp.MustCompile("`([^`]+)`")
	luaFunc  = regexp.MustCompile(`(?m)^(?:local )?function ([\w:]+)`)
)

// Files that docs/architecture.md and CONTRIBUTING.md name are there, and declare the functions
// and types that the pages place in them.
func TestPagesNameFiles(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]struct{ files, names int }{"docs/architecture.md": {30, 18}, "CONTRIBUTING.md": {25, 20}} {
		page, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		named := fileIn.FindAllStringSubmatch(string(page), -1)
		if len(named) < least.files {
			t.Errorf("%s names %d files, want at least %d", path, len(named), least.files)
		}
		for _, m := range named {
			if _, err := os.Stat("../../" + m[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		names := 0
		for _, m := range placedIn.FindAllStringSubmatch(string(page), -1) {
			declared := map[string]bool{}
			for _, file := range quotedIn.FindAllStringSubmatch(m[2], -1) {
				maps.Copy(declared, declarations(t, "../../"+file[1]))
			}
			for _, name := range quotedIn.FindAllStringSubmatch(m[1], -1) {
				names++
				if !declared[name[1]] {
					t.Errorf("%s: %s is not declared in %s", path, name[1], m[2])
				}
			}
		}
		if names < least.names {
			t.Errorf("%s places %d names in files, want at least %d", path, names, least.names)
		}
	}
}

// declarations returns the functions, Type.methods, types, constants and variables that a file
// declares.
func declarations(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	if strings.HasSuffix(path, ".lua") {
		for _, m := range luaFunc.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return names
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
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
		for _, family := range families {
			if within(path, []string{family}) {
				return family
			}
		}
		return path
	}
	graph := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		if within(strings.TrimPrefix(paths[0], modulePath), forTests) {
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
