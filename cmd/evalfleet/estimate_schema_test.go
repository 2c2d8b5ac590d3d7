package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evalfleet/evalfleet/internal/estimate"
)

const (
	estimateSchemaFile = "../../docs/estimate.schema.json"
	estimateSchemaURL  = "https://raw.githubusercontent.com/evalfleet/evalfleet/main/docs/estimate.schema.json"
)

// docs/estimate.schema.json is the schema of the code, and what estimate --json prints keeps to
// it: with and without a price, and where no call is needed.
func TestEstimateSchema(t *testing.T) {
	t.Parallel()
	reflector := jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true}
	schema := reflector.Reflect(estimate.Estimate{})
	schema.ID, schema.Title = estimateSchemaURL, "What evalfleet estimate --json prints"
	schema.Description = "Of each evaluation one object. New fields may be added."
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(estimateSchemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(estimateSchemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not the schema of the code, %v: run make schemas", estimateSchemaFile, err)
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource(estimateSchemaURL, document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(estimateSchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	const head = "documents: [docs/*.md]\npairwise: {}\n"
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "same/a.md": "Alpha.", "same/b.md": "Alpha.",
		"priced.yaml":   head + "judges: [openai:gpt-5-mini]\n",
		"unpriced.yaml": head + "judges: [local:m]\nproviders: {local: {base_url: \"http://127.0.0.1:1/v1\"}}\n",
		"none.yaml":     "documents: [same/*.md]\npairwise: {}\njudges: [simulator:careful]\n",
	})
	for _, name := range []string{"priced.yaml", "unpriced.yaml", "none.yaml"} {
		code, stdout, stderr := evalfleet(t, nil, "estimate", "--json", filepath.Join(dir, name))
		if code != int(exitOK) {
			t.Fatalf("%s: estimate ended with %d: %s", name, code, stderr)
		}
		printed, err := validator.UnmarshalJSON(strings.NewReader(stdout))
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, stdout)
		}
		if err := compiled.Validate(printed); err != nil {
			t.Errorf("%s: %v\n%s", name, err, stdout)
		}
	}
}
