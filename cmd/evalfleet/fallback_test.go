package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/simulator"
)

// statisticsIn returns the numbers of runs in the manifest of an output folder.
func statisticsIn(t *testing.T, out string) results.Statistics {
	t.Helper()
	var manifest struct {
		Statistics results.Statistics `json:"statistics"`
	}
	raw, err := os.ReadFile(filepath.Join(out, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Statistics
}

// A judge that always fails is answered for by the next model, and everything that
// a person can read says so.
func TestFallbackIsSaidEverywhere(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
		"broken": {Behaviour: &simulator.Behaviour{FailRate: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir := tree(t, map[string]string{
		"docs/a.md": "A text.", "docs/b.md": "A longer text.", "docs/c.md": "Another text, and the longest.",
		"fleet.yaml": fmt.Sprintf("providers: {simulator: {base_url: \"%s/v1\"}}\n", server.URL),
		"eval.yaml": "documents: [docs/*.md]\njudges: [simulator:broken]\npairwise: {}\n" +
			"fallback: {models: [simulator:careful]}\n",
	})
	out := filepath.Join(dir, "out")
	code, stdout, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", out, "--details")
	if code != 0 {
		t.Fatalf("run ended with %d:\n%s", code, stderr)
	}
	const runs = 6
	want := results.Statistics{Total: runs, Fallback: runs}
	if diff := cmp.Diff(want, statisticsIn(t, out)); diff != "" {
		t.Errorf("manifest.json (-want +got):\n%s", diff)
	}
	const advice = "100 % of the runs were answered by fallback models, more than 10 %: most of them after errors"
	if !strings.Contains(strings.Join(strings.Fields(stdout), " "), advice) {
		t.Errorf("the report does not say %q:\n%s", advice, stdout)
	}

	_, status, stderr := evalfleet(t, nil, "status", out, "--json")
	var list []struct {
		Statistics results.Statistics `json:"statistics"`
		Advice     []string           `json:"advice"`
	}
	if err := json.Unmarshal([]byte(status), &list); err != nil {
		t.Fatalf("status: %v\n%s%s", err, status, stderr)
	}
	if len(list) != 1 || cmp.Diff(want, list[0].Statistics) != "" || len(list[0].Advice) != 1 || !strings.HasPrefix(list[0].Advice[0], advice) {
		t.Errorf("status says %+v, want %+v and the advice", list, want)
	}

	events := 0
	raw, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e["event"] != "rate_limit_fallback" {
			continue
		}
		events++
		for key, want := range map[string]any{
			"original_model": "simulator:broken", "fallback_model": "simulator:careful", "reason": "rate_limit_or_error", "class": "transient",
			"wait_time_exceeded": 0.0, "max_wait_seconds": 300.0, "retry_count": 0.0, "provider": "simulator", "model": "broken",
		} {
			if e[key] != want {
				t.Errorf("event: %s is %v, want %v", key, e[key], want)
			}
		}
	}
	if events != runs {
		t.Errorf("%d fallbacks in the event log, want %d", events, runs)
	}

	for _, flags := range [][]string{nil, {"--fallbacks"}} {
		if code, _, stderr := evalfleet(t, nil, append([]string{"report", out}, flags...)...); code != 0 {
			t.Fatalf("report ended with %d:\n%s", code, stderr)
		}
		_, err := os.Stat(filepath.Join(out, "ranking.csv"))
		if ranked := err == nil; ranked != (len(flags) > 0) {
			t.Errorf("report %v: ranked: %t, want a ranking only where fallbacks count", flags, ranked)
		}
	}
	if n := server.Stats().Models["broken"].Arrived; n != runs {
		t.Errorf("the judge was asked %d times, want %d", n, runs)
	}
}
