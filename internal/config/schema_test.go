package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a parsed JSON Schema, and what its references refer to.
type schema struct {
	t    *testing.T
	kind string
	root map[string]any
}

func schemaOf(t *testing.T, kind string) schema {
	t.Helper()
	text, err := Schema(kind)
	if err != nil {
		t.Fatal(err)
	}
	s := schema{t: t, kind: kind}
	if err := json.Unmarshal(text, &s.root); err != nil {
		t.Fatal(err)
	}
	return s
}

// resolved is a subschema with what it refers to below its own keywords.
func (s schema) resolved(part any) map[string]any {
	own, _ := part.(map[string]any)
	name, ok := strings.CutPrefix(fmt.Sprint(own["$ref"]), refPrefix)
	if !ok {
		return own
	}
	all := maps.Clone(s.resolved(s.root["definitions"].(map[string]any)[name]))
	maps.Copy(all, own)
	return all
}

// sample is a value that a subschema allows.
func (s schema) sample(part any) any {
	of := s.resolved(part)
	first := func(keyword string) (any, bool) {
		list, _ := of[keyword].([]any)
		if len(list) == 0 {
			return nil, false
		}
		return list[0], true
	}
	if value, ok := first("examples"); ok {
		return value
	}
	if value, ok := first("enum"); ok {
		return value
	}
	if value, ok := of["const"]; ok {
		return value
	}
	for _, alternatives := range []string{"anyOf", "oneOf"} {
		if alternative, ok := first(alternatives); ok {
			return s.sample(alternative)
		}
	}
	kind := of["type"]
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch kind {
	case "object":
		all := map[string]any{}
		required, _ := of["required"].([]any)
		for _, key := range required {
			all[key.(string)] = s.sample(of["properties"].(map[string]any)[key.(string)])
		}
		return all
	case "array":
		return []any{s.sample(of["items"])}
	case "boolean":
		return true
	case "string":
		return "sample"
	case "integer", "number":
		least, _ := of["minimum"].(float64)
		return max(1, least)
	}
	s.t.Fatalf("no sample of %v", of)
	return nil
}

// freeKeys are keys to try where any are allowed, by the key above them.
var freeKeys = map[string]string{"per_provider": "simulator", "prices": "simulator:careful", "providers": "own"}

// objects calls visit with each object of known keys that a subschema allows, with the
// path at which it is found, and a function that makes a file in which the object has a
// key.
func (s schema) objects(part any, path string, into func(any) any, visit func(path string, of map[string]any, with func(key string, value any) any)) {
	of := s.resolved(part)
	for _, alternatives := range []string{"anyOf", "oneOf"} {
		list, _ := of[alternatives].([]any)
		for _, alternative := range list {
			s.objects(alternative, path, into, visit)
		}
	}
	if items, ok := of["items"]; ok {
		s.objects(items, path+"[0]", func(v any) any { return into([]any{v}) }, visit)
	}
	if free, ok := of["additionalProperties"].(map[string]any); ok {
		key := freeKeys[path]
		if key == "" {
			key = "sample"
		}
		if above := path[strings.LastIndex(path, ".")+1:]; freeKeys[above] != "" {
			key = freeKeys[above]
		}
		s.objects(free, join(path, key), func(v any) any { return into(map[string]any{key: v}) }, visit)
	}
	properties, ok := of["properties"].(map[string]any)
	if !ok {
		return
	}
	required := s.sample(map[string]any{"type": "object", "required": of["required"], "properties": properties}).(map[string]any)
	with := func(key string, value any) any {
		all := maps.Clone(required)
		all[key] = value
		return into(all)
	}
	if of["additionalProperties"] == false {
		visit(path, of, with)
	}
	for key, child := range properties {
		s.objects(child, join(path, key), func(v any) any { return with(key, v) }, visit)
	}
}

// load reads a value as a file of the schema's kind, and returns what is wrong with
// its keys and values by their paths.
func (s schema) load(value any) map[string]string {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	var found error
	if s.kind == "fleet" {
		_, found = LoadFleet(file)
	} else {
		_, found = loadEvaluation(file, Options{RunsCommands: true})
	}
	var problems Problems
	errors.As(found, &problems)
	wrong := map[string]string{}
	for _, p := range problems {
		wrong[p.Path] = p.String()
	}
	return wrong
}

// TestSchemaAgreesWithTheParser: wherever the schema has an object of known keys, the
// parser knows each of them, takes the schema's sample for it, and refuses any other
// key.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	// What the parser refuses for another reason than the value's shape.
	elsewhere := []string{
		"no such file", "no documents found", "did you mean", "known:", "unknown provider", "is missing", "has no file_b", "has no file_a", "there are none", "add single",
		"no pairs are compared",
	}
	for _, kind := range SchemaKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, tried := schemaOf(t, kind), 0
			s.objects(s.root, "", func(v any) any { return v }, func(path string, of map[string]any, with func(key string, value any) any) {
				const unknown = "no_such_key"
				if problem := s.load(with(unknown, 1))[join(path, unknown)]; !strings.Contains(problem, "unknown key") {
					t.Errorf("%s: the parser takes a key that the schema refuses: %q", join(path, unknown), problem)
				}
				for key, child := range of["properties"].(map[string]any) {
					tried++
					at := join(path, key)
					value := s.sample(child)
					wrong := s.load(with(key, value))[at]
					if strings.Contains(wrong, "unknown key") || wrong != "" && !slices.ContainsFunc(elsewhere, func(text string) bool { return strings.Contains(wrong, text) }) {
						t.Errorf("%s: %v: the parser says %q", at, value, wrong)
					}
				}
			})
			if tried < 40 {
				t.Errorf("%d keys were tried, want the whole schema's", tried)
			}
		})
	}
}

// TestSchemaHasEveryKey: each key that the parser's code reads is in one of the schemas.
func TestSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, kind := range SchemaKinds {
		s := schemaOf(t, kind)
		s.objects(s.root, "", func(v any) any { return v }, func(_ string, of map[string]any, _ func(string, any) any) {
			for key := range of["properties"].(map[string]any) {
				known[key] = true
			}
		})
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || fmt.Sprint(literal.Type) != "keys" {
				return true
			}
			for _, element := range literal.Elts {
				word, ok := element.(*ast.KeyValueExpr).Key.(*ast.BasicLit)
				if !ok {
					t.Fatalf("%s: a key that is no literal", name)
				}
				key, err := strconv.Unquote(word.Value)
				if read++; err != nil || !known[key] {
					t.Errorf("%s reads the key %s, which schema.yaml does not have", name, word.Value)
				}
			}
			return true
		})
	}
	if read < 100 {
		t.Errorf("%d keys were found in the code, want all", read)
	}
}

// comment is a line of a starter file that holds a setting to take.
var comment = regexp.MustCompile(`(?m)^( *)#([^ #!].*)$`)

// TestSchemaTakesShippedFiles: no example, starter file or block of the documentation
// that loads is marked as wrong by an editor.
func TestSchemaTakesShippedFiles(t *testing.T) {
	t.Parallel()
	compiled := map[string]*jsonschema.Schema{}
	for _, kind := range SchemaKinds {
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(kind, schemaOf(t, kind).root); err != nil {
			t.Fatal(err)
		}
		var err error
		if compiled[kind], err = compiler.Compile(kind); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, kind string, text []byte) {
		t.Helper()
		asJSON, err := yaml.YAMLToJSON(comment.ReplaceAll(text, []byte("$1$2")))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled[kind].Validate(value); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	checked := 0
	for _, pattern := range []string{"../../examples/*/evaluation.yaml", "../../cmd/evalfleet/starter/*.yaml", "../../deploy/compose/fleet.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kind := "evaluation"
			if filepath.Base(file) == "fleet.yaml" {
				kind = "fleet"
			}
			check(file, kind, text)
			checked++
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			file := filepath.Join(t.TempDir(), "block.yaml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			kind := "fleet"
			if _, err := LoadFleet(file); err != nil {
				kind = "evaluation"
				if _, err := loadEvaluation(file, Options{}); strings.Contains(fmt.Sprint(err), "unknown key") {
					continue // a file of another program
				}
			}
			check(fmt.Sprintf("%s, block %d", page, i+1), kind, []byte(block))
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("%d files and blocks were checked, want at least 10", checked)
	}
}

// TestPublishedSchemas: the schemas at the addresses that init writes into files are
// those of this code.
func TestPublishedSchemas(t *testing.T) {
	t.Parallel()
	for _, kind := range SchemaKinds {
		want, err := Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join("docs", path.Base(SchemaURL(kind)))
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what internal/config/schema.yaml makes (%v): run make schemas", name, err)
		}
		starter, err := os.ReadFile(filepath.Join("../../cmd/evalfleet/starter", kind+".yaml"))
		if err != nil || !bytes.HasPrefix(starter, []byte("# yaml-language-server: $schema="+SchemaURL(kind)+"\n")) {
			t.Errorf("the %s file that init writes does not name its schema (%v)", kind, err)
		}
	}
}
