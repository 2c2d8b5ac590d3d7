package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/config"
)

func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	for _, kind := range config.SchemaKinds {
		code, stdout, stderr := evalfleet(t, nil, "schema", kind)
		var schema map[string]any
		if err := json.Unmarshal([]byte(stdout), &schema); code != int(exitOK) || err != nil || schema["$id"] != config.SchemaURL(kind) {
			t.Errorf("%s: exit code %d, %v, %q; %s", kind, code, err, schema["$id"], stderr)
		}
	}
	for _, args := range [][]string{{"schema"}, {"schema", "flet"}, {"schema", "fleet", "evaluation"}} {
		if code, stdout, stderr := evalfleet(t, nil, args...); code != int(exitUsage) || stdout != "" || !strings.Contains(stderr, "evaluation or fleet") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want the two kinds named", args, code, stdout, stderr)
		}
	}
}
