package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed schema.yaml
var schemaFile []byte

// SchemaKinds lists the kinds of files that Schema describes.
var SchemaKinds = []string{"evaluation", "fleet"}

// schemaURL is where editors find the schema of a kind of file.
const schemaURL = "https://raw.githubusercontent.com/evalfleet/evalfleet/main/docs/%s.schema.json"

// SchemaURL returns the address of the schema of a kind of file, for the comment by which editors
// find it.
func SchemaURL(kind string) string { return fmt.Sprintf(schemaURL, kind) }

const refPrefix = "#/definitions/"

// Schema returns the JSON Schema (draft 7) of a kind of file, one of SchemaKinds, indented and with
// only the definitions that it uses. It describes types, keys and words. Only the loaders check
// what depends on other keys, on other files or on the models that are asked.
func Schema(kind string) ([]byte, error) {
	var file struct {
		Definitions map[string]map[string]any `yaml:"definitions"`
	}
	if err := yaml.Unmarshal(schemaFile, &file); err != nil {
		return nil, err
	}
	if !slices.Contains(SchemaKinds, kind) {
		return nil, fmt.Errorf("no schema for %q: want %s", kind, strings.Join(SchemaKinds, " or "))
	}

	schema := maps.Clone(file.Definitions[kind])
	used := map[string]any{}
	var follow func(any)
	follow = func(part any) {
		switch part := part.(type) {
		case []any:
			for _, element := range part {
				follow(element)
			}
		case map[string]any:
			for _, value := range part {
				follow(value)
			}
			name, ok := strings.CutPrefix(fmt.Sprint(part["$ref"]), refPrefix)
			if _, known := used[name]; ok && !known {
				used[name] = file.Definitions[name]
				follow(file.Definitions[name])
			}
		}
	}
	follow(schema)
	schema["$schema"], schema["$id"], schema["definitions"] = "http://json-schema.org/draft-07/schema#", SchemaURL(kind), used
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}
