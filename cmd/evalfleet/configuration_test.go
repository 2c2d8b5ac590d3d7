package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/config"
)

var update = flag.Bool("update", false, "write the commands and flags of docs/commands.md, and testdata/look, anew")

const (
	keysPage      = "../../docs/files.md"
	commandsPage  = "../../docs/commands.md"
	writtenByTest = "<!-- Written by: go test ./cmd/evalfleet -run TestConfigurationPages -update -->\n"
)

// TestConfigurationPages compares docs/files.md and docs/commands.md with the code: it fails
// when a key, a variable or a flag is added or dropped.
func TestConfigurationPages(t *testing.T) {
	t.Parallel()
	keys, err := os.ReadFile(keysPage)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	written, flags, ok := strings.Cut(string(raw), writtenByTest)
	if !ok {
		t.Fatalf("the page lacks the line %s", writtenByTest)
	}
	page := tablesOf(string(keys) + written)
	code := readConfigSource(t)

	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		var names []string
		for _, path := range page.keys {
			names = append(names, path[strings.LastIndexAny(path, ".")+1:])
		}
		differ(t, "keys", code.known, names)
	})
	t.Run("paths", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"evaluation.yaml", "fleet.yaml"} {
			for _, path := range starterPaths(t, name) {
				if !slices.Contains(page.keys, path) {
					t.Errorf("%s of the starter's %s has no row on the page", path, name)
				}
			}
		}
	})
	t.Run("defaults", func(t *testing.T) {
		t.Parallel()
		for key, want := range map[string]any{
			"retry.max_attempts": record.DefaultRetry.MaxAttempts, "retry.initial_delay": record.DefaultRetry.InitialDelay,
			"retry.max_delay": record.DefaultRetry.MaxDelay, "retry.jitter": record.DefaultRetry.Jitter,
			"fallback.max_wait_seconds": record.DefaultFallback.MaxWait.Seconds(), "fallback.max_retries": record.DefaultFallback.MaxRetries,
			"fallback.backoff_base": record.DefaultFallback.Base, "fallback.auto_wait": record.DefaultFallback.AutoWait,
			"fallback.after_429_seconds":  record.DefaultFallback.After429.Seconds(),
			"concurrency.timeout_seconds": record.DefaultTimeout.Seconds(), "concurrency.lease": config.DefaultLease,
		} {
			if got := page.defaults[key]; got != fmt.Sprint(want) {
				t.Errorf("default of %s: the page says %q, the code %v", key, got, want)
			}
		}
	})
	t.Run("variables", func(t *testing.T) {
		t.Parallel()
		differ(t, "environment variables", code.variables, page.variables)
	})
	t.Run("flags", func(t *testing.T) {
		t.Parallel()
		want := flagTables()
		if *update {
			if err := os.WriteFile(commandsPage, []byte(written+writtenByTest+want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(want, flags); diff != "" {
			t.Errorf("write the page's flags anew: go test ./cmd/evalfleet -run TestConfigurationPages -update\n(-code +page):\n%s", diff)
		}
	})
}

// differ compares two lists as sets.
func differ(t *testing.T, what string, code, page []string) {
	t.Helper()
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	if diff := cmp.Diff(set(code), set(page)); diff != "" {
		t.Errorf("%s (-code +page):\n%s", what, diff)
	}
}

// configPage is what the tables of both pages name.
type configPage struct {
	keys      []string // paths; of limits relative to their provider, model or group
	variables []string
	defaults  map[string]string // of keys
}

var pageRow = regexp.MustCompile("^\\| `([^`]+)` \\|([^|]*)\\|")

func tablesOf(text string) configPage {
	p := configPage{defaults: map[string]string{}}
	variables := false
	for line := range strings.Lines(text) {
		switch m := pageRow.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "## "):
			variables = strings.Contains(line, "Environment")
		case m == nil:
		case variables:
			p.variables = append(p.variables, m[1])
		default:
			p.keys = append(p.keys, m[1])
			p.defaults[m[1]] = strings.Trim(m[2], "` ")
		}
	}
	return p
}

// configSource is what the code says about files and environment.
type configSource struct {
	known     []string // keys by their last name
	variables []string
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)

// readConfigSource reads the keys out of package config's own source: the maps
// from which it reads files, and the names of variables in it, in the catalog of
// providers and here.
func readConfigSource(t *testing.T) configSource {
	t.Helper()
	known := map[string]bool{}
	variables := map[string]bool{}
	for _, pattern := range []string{"../../internal/config/*.go", "../../internal/outdir/*.go", "../../internal/fleet/remote/*.go", "../../providers/catalog/*.go", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					for _, key := range keysOf(n) {
						known[key] = true
					}
				case *ast.BasicLit:
					if word, err := strconv.Unquote(n.Value); err == nil && variableName.MatchString(word) {
						variables[word] = true
					}
				}
				return true
			})
		}
	}
	return configSource{slices.Collect(maps.Keys(known)), slices.Collect(maps.Keys(variables))}
}

// keysOf names the entries of a map of type keys, or of one by which overrides
// are read.
func keysOf(literal *ast.CompositeLit) []string {
	switch kind := literal.Type.(type) {
	case *ast.Ident:
		if kind.Name != "keys" {
			return nil
		}
	case *ast.MapType:
		if _, reads := kind.Value.(*ast.FuncType); !reads {
			return nil
		}
	default:
		return nil
	}
	var names []string
	for _, e := range literal.Elts {
		entry, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := entry.Key.(*ast.BasicLit); ok {
			if name, err := strconv.Unquote(key.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

var (
	limitPath    = regexp.MustCompile(`^concurrency\.per_provider\.[^.]+\.(models\.[^.]+\.)?`)
	namedPath    = regexp.MustCompile(`^(concurrency\.per_provider|providers|prices|(providers\.<name>\.)?models)\.[^.]+$`)
	pricePath    = regexp.MustCompile(`^prices\.[^.]+\.`)
	providerPath = regexp.MustCompile(`^providers\.[^.]+\.(models\.[^.]+\.)?`)
)

// starterPaths are the keys that a starter file uses, written as on the page.
func starterPaths(t *testing.T, name string) []string {
	t.Helper()
	var root any
	if err := yaml.Unmarshal([]byte(starterYAML(t, name)), &root); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for key, child := range node {
				walk(strings.TrimPrefix(path+"."+key, "."), child)
			}
		case []any:
			for _, child := range node {
				if _, isMap := child.(map[string]any); isMap {
					walk(path+"[]", child)
				}
			}
		}
		path = providerPath.ReplaceAllStringFunc(limitPath.ReplaceAllString(path, ""), func(of string) string {
			if strings.Contains(of, ".models.") {
				return "providers.<name>.models.<model>."
			}
			return "providers.<name>."
		})
		path = pricePath.ReplaceAllString(path, "prices.<model>.")
		if path != "" && !strings.HasSuffix(path, "[]") && !namedPath.MatchString(path) {
			paths = append(paths, path)
		}
	}
	walk("", root)
	return paths
}

// flagTables is the page's last section: every command with its flags.
func flagTables() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n### Every command\n\n%s", flagTable(commonFlags()))
	for _, command := range commands(&process{}) {
		fmt.Fprintf(&text, "\n### %s\n\n%s: %s.\n", command.Name, strings.TrimSpace("`evalfleet "+command.Name+" "+command.ArgsUsage)+"`", command.Usage)
		if len(command.Flags) > 0 {
			fmt.Fprintf(&text, "\n%s", flagTable(command.Flags))
		}
	}
	return text.String()
}

// inCell keeps a text from ending its cell, or being taken for a tag.
var inCell = strings.NewReplacer("|", `\|`, "<", `\<`)

func flagTable(flags []cli.Flag) string {
	text := "| flag | variable | default | meaning |\n|---|---|---|---|\n"
	for _, f := range flags {
		_, usage := commandline.SplitUsage(f)
		value := ""
		if d, ok := f.(cli.DocGenerationFlag); ok && commandline.TakesValue(f) {
			if v := d.GetValue(); v != "" && v != "0" && v != "0s" {
				value = "`" + strings.ReplaceAll(v, `"`, "") + "`"
			}
		}
		text += fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", commandline.Names(f), commandline.Variables(f.Names()[0])[0], value, inCell.Replace(usage))
	}
	return text
}
