package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// hostedAt is a fleet's file in which every provider that has an address is at
// another one, each in a path of its own name where named says so; and the keys
// that they want, by their variables.
func hostedAt(t *testing.T, address string, named bool) (fleetFile string, all []catalog.Entry, keys map[string]string) {
	t.Helper()
	known, err := config.LoadFleet("")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("providers:\n")
	keys = map[string]string{}
	for name, e := range known.Providers {
		if e.Dialect == catalog.Test {
			continue
		}
		at := address
		if named {
			at += "/" + name
		}
		switch e.Dialect {
		case catalog.Chat, catalog.Responses, catalog.Simulator:
			at += "/v1" // a part of the base_url in these dialects, of the path in others
		}
		if e.KeyEnv == "" {
			e.KeyEnv = "KEY_OF_" + strings.ToUpper(name)
			fmt.Fprintf(&text, "  %s: {base_url: %q, api_key_env: %s}\n", name, at, e.KeyEnv)
		} else {
			fmt.Fprintf(&text, "  %s: {base_url: %q}\n", name, at)
		}
		keys[e.KeyEnv] = "planted-" + strings.ToLower(e.KeyEnv)
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b catalog.Entry) int { return strings.Compare(a.Name, b.Name) })
	return text.String(), all, keys
}

// An evaluation file written for one provider runs on each of the others by
// changing the judge's name alone, and comes to the same verdicts: the simulator
// judges the same conversation in the same way whatever dialect it is held in.
func TestOneFileRunsOnEveryProvider(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	fleetFile, all, keys := hostedAt(t, server.URL, false)
	// Deep research judges in jobs of its own, which are asked for every few seconds:
	// TestDeepResearch has them.
	all = slices.DeleteFunc(all, func(e catalog.Entry) bool { return e.Name == "openaidp" })
	essays, err := filepath.Abs("../../examples/essays/docs")
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(`name: portable
documents: [%q]
judges:
  - {name: judge, model: "PROVIDER:average", overrides: {max_completion_tokens: 2000, temperature: 0}}
single: {criteria: [style, factuality]}
pairwise: {ties: true}
`, filepath.Join(essays, "marsh-*.md"))

	results := map[string][]map[string]string{}
	for _, e := range all {
		dir := tree(t, map[string]string{"fleet.yaml": fleetFile, "eval.yaml": strings.ReplaceAll(file, "PROVIDER", e.Name)})
		out := filepath.Join(dir, "out")
		code, _, stderr := evalfleet(t, keys, "run", filepath.Join(dir, "eval.yaml"), "--allow-outside", "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", out)
		if code != 0 {
			t.Errorf("%s: run ended with %d:\n%s", e.Name, code, stderr)
			continue
		}
		if _, key := server.LastKey(); key != keys[e.KeyEnv] {
			t.Errorf("%s was asked with the key %q, want %q", e.Name, key, keys[e.KeyEnv])
		}
		for _, name := range []string{"pairwise_results.csv", "single_doc_results.csv"} {
			for _, row := range readCSV(t, filepath.Join(out, name)) {
				if got := row["model"]; got != e.Name+":average" {
					t.Errorf("%s answered as %s", e.Name, got)
				}
				for _, differs := range []string{"model", "answered_by", "timestamp", "evaluation", "id"} {
					delete(row, differs)
				}
				results[e.Name] = append(results[e.Name], row)
			}
		}
		slices.SortFunc(results[e.Name], func(a, b map[string]string) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	want := results["simulator"]
	if len(want) != 4*3+4*2 {
		t.Fatalf("%d results of the simulator, want 12 pairs and 8 scores", len(want))
	}
	for _, e := range all {
		if diff := cmp.Diff(want, results[e.Name]); diff != "" {
			t.Errorf("%s judges otherwise than the simulator (-simulator +%s):\n%s", e.Name, e.Name, diff)
		}
	}
}

// The submitter is told of judges that no worker can call; another's offer is
// enough.
func TestEnqueueWarnsOfJudgesThatNobodyCanCall(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.",
		"eval.yaml": "documents: [docs/*.md]\njudges: [openai:m, simulator:careful, {name: again, model: \"openai:m\"}]\npairwise: {}\n",
	})
	const warning = "no live worker can call "
	for _, step := range []struct {
		offered []string
		until   time.Duration
		want    string
	}{
		{nil, 0, warning + "openai or simulator: runs wait"},
		{[]string{"openai", "simulator"}, -time.Minute, warning + "openai or simulator: "},
		{[]string{"simulator", "google"}, time.Hour, warning + "openai: runs wait"},
		{[]string{"openai"}, time.Hour, ""},
	} {
		if len(step.offered) > 0 {
			if err := store.New(redis.Client(), "").Offer(t.Context(), step.offered, step.until); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := evalfleet(t, nil, "enqueue", filepath.Join(dir, "eval.yaml"), "--redis", redis.URL(), "--out-dir", filepath.Join(dir, "out"))
		if code != 0 || !strings.Contains(stderr, step.want) || step.want == "" && strings.Contains(stderr, warning) {
			t.Errorf("offered %q: ended with %d, want %q:\n%s", step.offered, code, step.want, stderr)
		}
	}
}
