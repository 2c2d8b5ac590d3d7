package providers

import (
	"encoding/json"
	"testing"
)

func TestSchemaToSend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, schema, want string }{
		{"no bounds", `{"type":"string"}`, `{"type":"string"}`},
		{
			"bounds within a list, properties in their order",
			`{"type":"object","properties":{"z":{"type":"array","items":{"type":"integer","minimum":1,"maximum":5}},"a":{"type":"string","enum":["<b>"]}},"required":["z"]}`,
			`{"type":"object","properties":{"z":{"type":"array","items":{"type":"integer","description":"at least 1, at most 5"}},"a":{"type":"string","enum":["<b>"]}},"required":["z"]}`,
		},
		{
			"a description that already exists, and one of several",
			`{"anyOf":[{"description":"how well","type":"number","minimum":-0.5}]}`,
			`{"anyOf":[{"description":"how well (at least -0.5)","type":"number"}]}`,
		},
		{
			"properties of these names",
			`{"properties":{"minimum":{"type":"integer","maximum":3},"maximum":{"type":"string"}}}`,
			`{"properties":{"minimum":{"type":"integer","description":"at most 3"},"maximum":{"type":"string"}}}`,
		},
		{"not JSON", `{"minimum":1`, `{"minimum":1`},
	} {
		schema := &Schema{Schema: json.RawMessage(test.schema)}
		if got := (Capabilities{}).SchemaToSend(schema); string(got) != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		if got := (Capabilities{SchemaBounds: true}).SchemaToSend(schema); string(got) != test.schema {
			t.Errorf("%s, bounds taken: got %s, want it unchanged", test.name, got)
		}
	}
}
