package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

// A judge asks in a tier without any capacity, and falls back to its own model in the standard tier: every run has
// a verdict of the judge, and another judge of the same model is never held back.
func TestFallbackToAnotherTier(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Tiers: map[string]int{"flex": 0}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir := tree(t, map[string]string{
		"docs/a.md": "A text.", "docs/b.md": "A longer text.", "docs/c.md": "Another text, and the longest.",
		"fleet.yaml": fmt.Sprintf("providers: {simulator: {base_url: \"%s/v1\"}}\nprices: {\"simulator:careful\": {input: 1, output: 1, tiers: {flex: 0.5}}}\n", server.URL),
		"eval.yaml": `documents: [docs/*.md]
judges:
  - {name: cheap, model: "simulator:careful", overrides: {service_tier: flex}}
  - {name: full, model: "simulator:careful"}
pairwise: {}
fallback:
  models: [{model: "simulator:careful", overrides: {service_tier: default}}]
  max_retries: 0
  after_429_seconds: 300
`,
	})
	out := filepath.Join(dir, "out")
	code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", out)
	if code != 0 {
		t.Fatalf("run ended with %d:\n%s", code, stderr)
	}

	const runs = 12
	if got := statisticsIn(t, out); got.Total != runs || got.Primary != runs || got.Fallback != 0 {
		t.Errorf("manifest.json: %+v; want %d runs, all answered by the judge's own model", got, runs)
	}
	stats := server.Stats()
	if flex := stats.Tiers["flex"]; flex.Answered != 0 || flex.Rejected == 0 || stats.All.Answered != runs {
		t.Errorf("%d answers in all, and in flex: %+v; want %d, none of them in flex, and refusals there", stats.All.Answered, flex, runs)
	}
}
