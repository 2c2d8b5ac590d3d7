package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// panelManifest is what these tests read of manifest.json.
type panelManifest struct {
	Totals struct {
		Calls     int `json:"calls"`
		Succeeded int `json:"succeeded"`
	} `json:"totals"`
	Errors []struct{ Judge, Dimension, Class string } `json:"errors"`
}

func readPanelManifest(t *testing.T, dir string) (m panelManifest) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestExampleOfAPanel runs the example in both ways: each dimension in a call of its
// own, and all of them in one.
func TestExampleOfAPanel(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/panel")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		env   string
		calls int
	}{
		"singly":   {"", 24},
		"together": {"BATCHING_ENABLED=true\n", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(tt.env), 0o600); err != nil {
				t.Fatal(err)
			}
			p := launch(t, dir, "run", filepath.Join(example, "evaluation.yaml"), "--out-dir", "out")
			if code := p.wait(); code != 0 {
				t.Fatalf("run ended with %d", code)
			}
			rows := readCSV(t, filepath.Join(dir, "out", "panel_results.csv"))
			seen := map[string]bool{}
			for _, row := range rows {
				if row["score"] == "" || row["argument"] == "" {
					t.Errorf("a row without score or argument: %v", row)
				}
				seen[row["doc_id"]+" "+row["agent"]+" "+row["criterion_id"]] = true
			}
			if len(rows) != 24 || len(seen) != 24 {
				t.Errorf("%d rows of %d, want 24", len(seen), len(rows))
			}
			if m := readPanelManifest(t, filepath.Join(dir, "out")); m.Totals.Calls != tt.calls || len(m.Errors) != 0 {
				t.Errorf("%d calls and the errors %v, want %d and none", m.Totals.Calls, m.Errors, tt.calls)
			}
		})
	}
}

// ownPanel runs three agents on ten dimensions of one document, at most five calls
// in flight, against a provider of that behaviour, and returns the provider's own
// count, the output folder and the events.
func ownPanel(t *testing.T, behaviour simulator.Behaviour, env ...string) (simulator.Stats, string, []observe.Event) {
	t.Helper()
	return panelAt(t, behaviour, func(url string) string { return url }, env...)
}

// panelAt is ownPanel whose calls go to the URL that a function of the simulator's URL returns.
func panelAt(
	t *testing.T, behaviour simulator.Behaviour, at func(url string) string, env ...string,
) (simulator.Stats, string, []observe.Event) {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{
		Seed: 9, Models: map[string]simulator.Model{"careful": {}}, Behaviour: behaviour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	var dims strings.Builder
	for i := range 10 {
		fmt.Fprintf(&dims, "- {id: d%d, name: Dimension %d}\n", i, i)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "It rained. The sun came out again.", "dims.yaml": dims.String(),
		"p.md": "You are a prosecutor.", "d.md": "You are a defender.",
		".env": "MAX_CONCURRENT_LLM_CALLS=5\n" + strings.Join(env, "\n"),
		"evaluation.yaml": fmt.Sprintf(`
documents: [a.md]
panel:
  agents: [{name: prosecutor, model: "local:careful", prompt: p.md}, {name: defender, model: "local:careful", prompt: d.md}, {name: clerk, model: "local:careful"}]
  dimensions: dims.yaml
concurrency: {lease: 2m}
providers: {local: {base_url: "%s/v1"}}
`, at(server.URL)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code := launch(t, dir, "run", "evaluation.yaml", "--out-dir", "out", "--fail-on", "never").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	out := filepath.Join(dir, "out")
	return server.Stats(), out, eventsOf(t, out)
}

func eventsOf(t *testing.T, dir string) []observe.Event {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var events []observe.Event
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e observe.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Agent == "" || e.Dimension == "" {
			t.Errorf("an event without agent or dimension: %s", lines.Bytes())
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b observe.Event) int { return a.Time.Compare(b.Time) })
	return events
}

// wantNeverOver wants at most five calls in flight, by the provider's count and by
// the events'.
func wantNeverOver(t *testing.T, stats simulator.Stats, events []observe.Event) {
	t.Helper()
	if most := stats.All.MaxInFlight; most > 5 || *fullFleet && most < 5 {
		t.Errorf("%d calls in flight at most, want 5", most)
	}
	active := 0
	for _, e := range events {
		switch e.Event {
		case observe.EventAcquired:
			active++
		case observe.EventReleased:
			active--
		}
		if active > 5 {
			t.Fatalf("acquired without released: %d at %s, want at most 5", active, e.Time)
		}
	}
}

// TestPanelKeepsItsLimitAndUsesIt: five calls are in flight, and never more; with
// -full-fleet, until no more than five are left.
func TestPanelKeepsItsLimitAndUsesIt(t *testing.T) {
	t.Parallel()
	latency := 200 * time.Millisecond
	behaviour := simulator.Behaviour{Latency: simulator.Span{Min: latency, Max: 3 * latency / 2}}
	stats, out, events := panelAt(t, behaviour, func(url string) string {
		if *fullFleet {
			return url
		}
		calls := newTurnstile(t, url)
		go func() { // on a slow machine, too, a sixth call follows the first that ends
			defer calls.open()
			calls.await(t.Context(), 5)
			calls.allow(1)
			calls.await(t.Context(), 6)
		}()
		return calls.URL
	})
	wantNeverOver(t, stats, events)
	if m := readPanelManifest(t, out); m.Totals.Succeeded != 30 || stats.All.Answered != 30 {
		t.Errorf("%d runs succeeded with %d answers, want 30 each", m.Totals.Succeeded, stats.All.Answered)
	}

	// From each release to when five are active again, until the last run has begun.
	var gaps []time.Duration
	var released time.Time
	active, begun := 0, 0
	for _, e := range events {
		switch e.Event {
		case observe.EventAcquired:
			active, begun = active+1, begun+1
			if active == 5 && !released.IsZero() {
				gaps = append(gaps, e.Time.Sub(released))
				released = time.Time{}
			}
		case observe.EventReleased:
			if active--; released.IsZero() && begun < 30 {
				released = e.Time
			}
		}
	}

	if len(gaps) == 0 {
		t.Fatal("five calls were never active again")
	}
	slices.Sort(gaps)
	t.Logf("back at five after %s in the middle, %s at most, %d times", gaps[len(gaps)/2], gaps[len(gaps)-1], len(gaps))
	if median := gaps[len(gaps)/2]; *fullFleet && median > 50*time.Millisecond {
		t.Errorf("back at five calls after %s in the middle, want at most 50ms", median)
	}
}

// TestPanelAnswersAllInSpiteOfFailures: refused, failed and hung calls are retried until all 30
// dimensions are answered.
func TestPanelAnswersAllInSpiteOfFailures(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	stats, out, events := ownPanel(t, simulator.Behaviour{
		Latency: simulator.Span{Min: 50 * time.Millisecond, Max: 100 * time.Millisecond},
		// The seed makes at least one call of each kind.
		ThrottleEvery: 9, FailEvery: 8, FailStatus: 503, HangRate: 0.06, RetryAfter: simulator.Span{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond},
	}, "LLM_CALL_TIMEOUT=1", "RETRY_INITIAL_DELAY=0.05", "RETRY_MAX_ATTEMPTS=100")
	wantNeverOver(t, stats, events)

	rows := readCSV(t, filepath.Join(out, "panel_results.csv"))
	for _, row := range rows {
		if row["score"] == "" {
			t.Errorf("a dimension without a score: %v", row)
		}
	}

	var timeouts int64 // of calls that hung, and on a busy machine of calls that were late or never arrived
	for _, e := range events {
		if e.Event == observe.EventTimeout {
			timeouts++
		}
	}
	got, want := stats.All.Answered+stats.All.Abandoned, 30+timeouts
	if len(rows) != 30 || stats.All.Answered < 30 || got > want {
		t.Errorf("%d dimensions, %d calls answered or hung; want 30, at most %d", len(rows), got, want)
	}
	if stats.All.Rejected == 0 || stats.All.Failed == 0 || stats.All.Abandoned == 0 {
		t.Fatalf("nothing to be made again: %+v", stats.All)
	}

	ended, refused := map[string]string{}, map[string]bool{}
	for _, e := range events {
		switch {
		case e.Event == observe.EventRetry && *e.StatusCode == 429:
			refused[e.RunID] = true
		case e.Event == observe.EventSucceeded || e.Event == observe.EventFailed:
			ended[e.RunID] = e.Event
		}
	}
	for id := range refused {
		if ended[id] != observe.EventSucceeded {
			t.Errorf("run %s met a 429 and ended with %q", id, ended[id])
		}
	}
	t.Logf("%d refused, %d failed, %d hung, at most %d in flight", stats.All.Rejected, stats.All.Failed, stats.All.Abandoned, stats.All.MaxInFlight)
}

// TestBatchedPanelKeepsWhatIsRight: of each agent's answer to ten dimensions three are
// missing and one is corrupt; six are kept, and four are asked for by themselves.
func TestBatchedPanelKeepsWhatIsRight(t *testing.T) {
	t.Parallel()
	stats, out, _ := ownPanel(t, simulator.Behaviour{OmitEntries: 3, CorruptEntries: 1}, "BATCHING_ENABLED=true")
	if stats.All.Answered != 3*(1+4) || stats.All.Arrived != 3*(1+4) {
		t.Errorf("%d answers to %d calls, want one and four of each agent", stats.All.Answered, stats.All.Arrived)
	}
	rows := readCSV(t, filepath.Join(out, "panel_results.csv"))
	for _, row := range rows {
		if row["score"] == "" {
			t.Errorf("a dimension without a score: %v", row)
		}
	}
	if m := readPanelManifest(t, out); len(rows) != 30 || m.Totals.Calls != 15 {
		t.Errorf("%d rows of %d calls, want 30 of 15", len(rows), m.Totals.Calls)
	}
}
