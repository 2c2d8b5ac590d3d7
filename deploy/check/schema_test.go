package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const valuesSchema = chartDir + "/values.schema.json"

// TestChartChecksFleet: the chart's schema has that of fleet files, so that Helm
// refuses a misspelt key below `fleet` instead of rolling out workers that do not start.
func TestChartChecksFleet(t *testing.T) {
	t.Parallel()
	var fleet map[string]any
	fromJSON(t, read(t, "docs/fleet.schema.json"), &fleet)
	delete(fleet, "$schema")
	delete(fleet, "$id")
	text, err := json.MarshalIndent(fleet, "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.ReplaceAll(string(text), `"#/definitions/`, `"#/definitions/fleetFile/definitions/`)
	got := read(t, valuesSchema)
	const begin = "\n    \"fleetFile\": "
	before, _, found := strings.Cut(got, begin)
	if !found {
		t.Fatalf("%s has no definition fleetFile", valuesSchema)
	}
	want := before + begin + moved + "\n  }\n}\n"
	if *update {
		if err := os.WriteFile(filepath.Join(root, valuesSchema), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if got != want {
		t.Errorf("%s does not have docs/fleet.schema.json as its last definition, fleetFile: run make schemas", valuesSchema)
	}
}
