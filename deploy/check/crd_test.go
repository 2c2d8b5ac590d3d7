package check

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	strict "sigs.k8s.io/yaml"
)

func fromJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// scaledObjects is the schema of KEDA's ScaledObject, in which a field that it does not
// know is an error. It is read from KEDA's own definition (testdata), because KEDA's Go
// types come with its webhooks and all that these import.
func scaledObjects(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := strict.YAMLToJSON([]byte(read(t, "deploy/check/testdata/keda.sh_scaledobjects.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	fromJSON(t, string(text), &definition)
	if len(definition.Spec.Versions) != 1 || definition.Spec.Versions[0].Name != "v1alpha1" {
		t.Fatalf("KEDA defines the versions %+v, want v1alpha1", definition.Spec.Versions)
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	closed(schema)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scaledobject.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("scaledobject.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// closed turns a definition's schema into one of JSON Schema that takes no field it
// does not name.
func closed(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if s["x-kubernetes-int-or-string"] == true {
			s["type"] = []any{"integer", "string"}
		}
		if _, ok := s["properties"].(map[string]any); ok && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
			s["additionalProperties"] = false
		}
		for _, of := range s {
			closed(of)
		}
	case []any:
		for _, of := range s {
			closed(of)
		}
	}
}

// What KEDA would drop or refuse is found.
func TestScaledObjectSchema(t *testing.T) {
	t.Parallel()
	schema := scaledObjects(t)
	for text, want := range map[string]string{
		`{"spec": {"scaleTargetRef": {"name": "w"}, "triggers": [{"type": "metrics-api", "metadata": {"targetValue": "1"}}]}}`:                                                       "",
		`{"spec": {"scaleTargetRef": {"name": "w"}, "triggers": [{"type": "metrics-api", "metadata": {"targetValue": 1}}]}}`:                                                         "targetValue",
		`{"spec": {"scaleTargetRef": {"name": "w"}, "coolDownPeriod": 3, "triggers": [{"type": "metrics-api", "metadata": {}}]}}`:                                                    "coolDownPeriod",
		`{"spec": {"scaleTargetRef": {"name": "w"}, "fallback": {"failureThreshold": 3}, "triggers": [{"type": "metrics-api", "metadata": {}}]}}`:                                    "replicas",
		`{"spec": {"scaleTargetRef": {"name": "w"}, "fallback": {"failureThreshold": 3, "replicas": 1, "behavior": "keep"}, "triggers": [{"type": "metrics-api", "metadata": {}}]}}`: "behavior",
	} {
		var object any
		fromJSON(t, text, &object)
		err := schema.Validate(object)
		if got := errorText(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
