package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Packages outside internal are usable from outside: what they export mentions no internal
// package.
func TestPublicPackagesExportNoInternalTypes(t *testing.T) {
	t.Parallel()
	read := 0
	err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch name := entry.Name(); {
			case name == "internal", name == "cmd", name == "bench", name == "deploy", name == "tools", len(name) > 2 && name[0] == '.':
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		read++
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, found := range exportedInternals(parsed) {
			t.Errorf("%s exports %s.%s", positions.Position(found.Pos()), found.X, found.Sel)
		}
		return nil
	})
	if err != nil || read < 190 {
		t.Errorf("read %d files: %v", read, err)
	}
}

// Packages whose errors pages and other programs show, too, name no flags: cmd does (hint).
func TestPackagesWithoutACommandLineNameNoFlags(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"../../internal/fleet", "../../internal/fleet/dashboard", "../../internal/fleet/remote", "../../internal/outdir"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			positions := token.NewFileSet()
			parsed, err := parser.ParseFile(positions, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && flagIn.MatchString(text.Value) {
					t.Errorf("%s: %s", positions.Position(text.Pos()), text.Value)
				}
				return true
			})
		}
	}
}

var flagIn = regexp.MustCompile(`--[a-z]`)

func TestExportedInternalsAreFound(t *testing.T) {
	t.Parallel()
	const source = `package p
import "example.org/m/internal/hidden"
type Field struct{ A []*hidden.A; b hidden.No }
type Embeds struct{ hidden.B }
type Method interface{ M(hidden.C); m(hidden.No) }
type own struct{ A hidden.No }
type Named map[string]hidden.D
func F() (func(hidden.E), error) { var _ hidden.No; return nil, nil }
func (Field) G(hidden.F) {}
func (own) G(hidden.No) {}
func h(hidden.No) {}
var V hidden.G
var V2 = hidden.H
`
	parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, found := range exportedInternals(parsed) {
		got += found.Sel.Name
	}
	if got != "ABCDEFGH" {
		t.Errorf("found %q, want ABCDEFGH", got)
	}
}

// exportedInternals finds what is of an internal package in the exported declarations of a file.
func exportedInternals(file *ast.File) (all []*ast.SelectorExpr) {
	internals := map[string]bool{}
	for _, spec := range file.Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		internals[name] = strings.Contains(from, "/internal/")
	}
	look := func(in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit, *ast.BlockStmt:
				return false
			case *ast.Field:
				return len(n.Names) == 0 || n.Names[0].IsExported() || !isMember(in, n)
			case *ast.SelectorExpr:
				if from, ok := n.X.(*ast.Ident); ok && internals[from.Name] {
					all = append(all, n)
				}
			}
			return true
		})
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						look(s)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() {
							look(s)
							break
						}
					}
				}
			}
		}
	}
	return all
}

// isMember reports whether a field is one of a struct or interface in a declaration, not a
// parameter or result.
func isMember(in ast.Node, field *ast.Field) (found bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		var fields *ast.FieldList
		switch n := n.(type) {
		case *ast.StructType:
			fields = n.Fields
		case *ast.InterfaceType:
			fields = n.Methods
		default:
			return !found
		}
		for _, f := range fields.List {
			found = found || f == field
		}
		return !found
	})
	return found
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}
