package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// pack contains what go list prints about a package.
type pack struct {
	ImportPath  string
	Dir         string
	Export      string // file with its exported declarations
	GoFiles     []string
	TestGoFiles []string
}

// packs contains packages by folder, and what imports everything that they and their tests import.
type packs struct {
	in       map[string]pack
	files    *token.FileSet
	importer types.Importer
}

// listed returns the packages in some folders.
func listed(t *testing.T, folders []string) packs {
	t.Helper()
	list := exec.CommandContext(testrun.Context(t), "go", "list", "-deps", "-test", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,TestGoFiles")
	for _, folder := range folders {
		list.Args = append(list.Args, "./"+folder)
	}
	list.Dir = root
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}

	exports := map[string]string{}
	all := packs{in: map[string]pack{}, files: token.NewFileSet()}
	all.importer = importer.ForCompiler(all.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pack
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if !strings.Contains(p.ImportPath, " [") && !strings.HasSuffix(p.ImportPath, ".test") { // made for a test
			all.in[p.Dir] = p
		}
	}
}

// compile returns why a package does not compile while a file of it has this text.
func (p packs) compile(file string, text []byte) error {
	path, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		return err
	}
	of := p.in[filepath.Dir(path)]
	names := of.GoFiles
	if strings.HasSuffix(file, "_test.go") {
		names = slices.Concat(names, of.TestGoFiles)
	}

	var parsed []*ast.File
	for _, name := range names {
		var source any // nil: what is in the file
		if name == filepath.Base(file) {
			source = text
		}
		f, err := parser.ParseFile(p.files, filepath.Join(of.Dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}

	config := types.Config{Importer: p.importer}
	_, err = config.Check(of.ImportPath, p.files, parsed, nil)
	return err
}

// compileLua returns why Redis does not compile a script, or a part of one, with this text.
func compileLua(ctx context.Context, client *redis.Client, text []byte) error {
	const compile = "local compiled, err = loadstring(ARGV[1]) return compiled and '' or err"
	problem, err := client.Eval(ctx, compile, nil, text).Text()
	if err == nil && problem != "" {
		err = errors.New(problem)
	}
	return err
}

// TestFaultsCompile checks that what is planted compiles: a test whose package does not compile shows nothing.
func TestFaultsCompile(t *testing.T) {
	testrun.Slow(t) // compiles all packages
	t.Parallel()
	var folders []string
	for _, f := range faults(t) {
		if filepath.Ext(f.File) == ".go" {
			folders = append(folders, filepath.Dir(f.File))
		}
	}
	slices.Sort(folders)
	packages := listed(t, slices.Compact(folders))
	client := redistest.New(t).Client()

	for _, f := range faults(t) {
		text := f.planted(t, root)
		var err error
		switch filepath.Ext(f.File) {
		case ".go":
			err = packages.compile(f.File, text)
		case ".lua":
			err = compileLua(t.Context(), client, text)
		}
		if err != nil {
			t.Error(fmt.Errorf("%s: %s with %q: %w", f.Test, f.File, f.With, err))
		}
	}
}
