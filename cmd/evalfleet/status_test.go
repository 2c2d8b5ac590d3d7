package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/view"
)

// status lists the newest evaluation last, where a scrolling terminal shows it.
func TestStatusListsTheNewestLast(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	files := map[string]string{"docs/a.md": "A.", "docs/b.md": "B."}
	names := []string{"zebra", "ant", "mole"} // ids are in another order, too
	for _, name := range names {
		files[name+".yaml"] = strings.Replace(goodFile, "name: good", "name: "+name, 1)
	}
	dir := tree(t, files)
	for _, name := range names {
		if code, _, stderr := evalfleet(t, nil, "enqueue", filepath.Join(dir, name+".yaml"), "--redis", redis.URL()); code != 0 {
			t.Fatalf("enqueue ended with %d: %s", code, stderr)
		}
	}
	_, stdout, stderr := evalfleet(t, nil, "status", "--redis", redis.URL())
	var listed []string
	for line := range strings.Lines(stdout) {
		if name, _, ok := strings.Cut(line, "  ev-"); ok {
			listed = append(listed, name)
		}
	}
	if !slices.Equal(listed, names) {
		t.Errorf("listed %v, want %v, as submitted: %s", listed, names, stderr)
	}
}

// status says of an evaluation that has ended who won, and whether the judges can be relied on,
// as text and as JSON.
func TestStatusShowsTheLineOfTrust(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	dir := tree(t, map[string]string{"docs/a.md": "A.", "docs/b.md": "B.", "good.yaml": goodFile})
	code, stdout, stderr := evalfleet(t, nil, "enqueue", filepath.Join(dir, "good.yaml"), "--redis", redis.URL())
	if code != 0 {
		t.Fatalf("enqueue ended with %d: %s", code, stderr)
	}
	id, s := eval.ID(strings.TrimSpace(stdout)), store.New(redis.Client(), "")
	const headline, trust = "“a.md” is first.", "Judges agree on 72 % of pairs (kappa 0.49, moderate). They match people on 18 % (kappa −0.14): do not rely on this ranking."
	if _, err := s.Pause(t.Context(), id, record.StoppedByUntil); err != nil {
		t.Fatal(err)
	}
	if err := s.Conclude(t.Context(), id, record.Result{Headline: headline, Reliance: &record.Reliance{Level: string(report.Unsound), Text: trust}}); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr = evalfleet(t, nil, "status", string(id), "--redis", redis.URL())
	if text := strings.Join(strings.Fields(stdout), " "); !strings.Contains(text, headline) || !strings.Contains(text, headline+" Unsound. "+trust) {
		t.Errorf("status prints\n%s%swant who won, and %q", stdout, stderr, trust)
	}
	var list []view.Evaluation
	_, stdout, _ = evalfleet(t, nil, "status", string(id), "--json", "--redis", redis.URL())
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list) != 1 || list[0].Result == nil ||
		!cmp.Equal(list[0].Result.Reliance, &record.Reliance{Level: "unsound", Text: trust}) {
		t.Errorf("status --json prints %s, %v; want the line of trust with its level", stdout, err)
	}
}
