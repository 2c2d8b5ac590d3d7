package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

var update = flag.Bool("update", false, "write docs/api.schema.json")

const (
	apiSchemaFile = "../../docs/api.schema.json"
	apiSchemaURL  = "https://raw.githubusercontent.com/evalfleet/evalfleet/main/docs/api.schema.json"
)

// apiAnswers are the answers of the API, by the name of their definition.
var apiAnswers = map[string]any{
	"evaluations": Overview{}, "evaluation": Detail{}, "limits": Limits{}, "workers": Workers{}, "results": Results{}, "pairs": Pairs{}, "pair": Reading{},
	"run": Run{}, "files": Files{}, "queues": Queues{}, "tasks": Tasks{}, "receipt": Receipt{}, "refusal": refusal{},
}

// apiSchema is the JSON Schema of all answers.
func apiSchema(t *testing.T) []byte {
	t.Helper()
	definitions := jsonschema.Definitions{}
	for name, of := range apiAnswers {
		reflector := jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true, Namer: func(of reflect.Type) string {
			if of.Name() == "" {
				return ""
			}
			return path.Base(of.PkgPath()) + "." + of.Name() // packages have types of the same name
		}}
		schema := reflector.Reflect(of)
		for inner, definition := range schema.Definitions {
			definitions[inner] = definition
		}
		definitions[name] = &jsonschema.Schema{Ref: schema.Ref}
	}
	text, err := json.MarshalIndent(&jsonschema.Schema{
		Version: jsonschema.Version, ID: apiSchemaURL, Title: "Answers of evalfleet's pages under /api",
		Description: "Each answer has a definition: evaluations, evaluation, limits, workers, queues, tasks, results, pairs, pair, run, files; receipt and refusal for submissions. New fields may be added.",
		Definitions: definitions,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// The schema of the API is that of the code, and the answers of a fleet keep to it.
func TestAPISchema(t *testing.T) {
	t.Parallel()
	want := apiSchema(t)
	if *update {
		if err := os.WriteFile(apiSchemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(apiSchemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not the schema of the code, %v: run make schemas", apiSchemaFile, err)
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource(apiSchemaURL, document); err != nil {
		t.Fatal(err)
	}
	keeps := func(definition, what, body string) {
		t.Helper()
		schema, err := compiler.Compile(apiSchemaURL + "#/$defs/" + definition)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := validator.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, body)
		}
		if err := schema.Validate(answer); err != nil {
			t.Errorf("%s: %v\n%s", what, err, body)
		}
	}
	answers := func(s *site, definitions map[string]string) {
		t.Helper()
		for path, definition := range definitions {
			answer, body := s.ask(http.MethodGet, path)
			if answer.code != http.StatusOK {
				t.Errorf("%s answers %d: %s", path, answer.code, body)
				continue
			}
			keeps(definition, path, body)
		}
	}
	fleet := newSite(t, nil)
	answers(fleet, map[string]string{
		"/api/evaluations": "evaluations", "/api/evaluations/" + string(fleet.idle): "evaluation", "/api/limits": "limits", "/api/workers": "workers",
		"/api/queues": "queues", "/api/queues/p/pending": "tasks", "/api/queues/p/active": "tasks", "/api/queues/p/archived": "tasks", "/api/queues/p/completed": "tasks",
	})
	e, texts, entries := compared()
	recorded := explored(t, storeKinds["sqlite"](t), e, texts, entries)
	of := "/api/evaluations/" + string(recorded.done)
	answers(recorded, map[string]string{of: "evaluation", of + "/results": "results", of + "/pairs": "pairs", of + "/runs/0.0": "run", of + "/files": "files"})
	submit := func(fail error) string {
		accept := func(context.Context, Received) (Receipt, error) {
			return Receipt{ID: "ev-1", Queues: []string{"p"}, Warnings: []string{}}, fail
		}
		return post(New(Config{Actions: &acts{}, MaxUpload: 1000, Submit: accept}), "file=a", upload.JSON, aSubmission).Body.String()
	}
	keeps("receipt", "a submission", submit(nil))
	keeps("refusal", "a wrong submission", submit(&InvalidError{Problems: []Problem{{File: "a", Line: 1, Message: "unknown key"}}}))
}
