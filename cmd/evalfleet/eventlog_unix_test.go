//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// After a kill and a resumption, every line of events.jsonl is an event, and acquired less
// released is the number of calls in flight.
func TestEventsCountAfterAKill(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
		"slow": {Behaviour: &simulator.Behaviour{Latency: simulator.Span{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	runs := "provider: simulator\nmodel: slow\ngrounding: off\nreasoning: off\nconcurrency: {max_concurrency: 2}\nruns:\n"
	for i := range 6 {
		runs += fmt.Sprintf("- {id: r%d, file_a: a.md, file_b: b.md}\n", i)
	}

	calls := newTurnstile(t, server.URL)
	settings := fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", calls.URL+"/v1")
	dir := tree(t, runFiles("fleet.yaml", settings+calm, "eval.yaml", runs))
	path := filepath.Join(dir, "out", outdir.EventsFile)
	p := launch(t, dir, "run", "eval.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	testrun.EventuallyGot(t, "two calls are in flight", func() (string, bool) {
		text, err := os.ReadFile(path)
		return fmt.Sprintf("%s%v", text, err), strings.Count(string(text), `"acquired"`)-strings.Count(string(text), `"released"`) == 2
	})

	p.signal(syscall.SIGKILL)
	p.wait()
	calls.open()

	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"time":"2026-01-01T00:00:00Z","event":"acq`); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	_ = file.Close()
	if code := launch(t, dir, "resume", "out", "--config", "fleet.yaml").wait(); code != 0 {
		t.Fatalf("resume ended with %d", code)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inFlight, wrong, killed := 0, 0, 0
	for line := range strings.Lines(string(text)) {
		var e observe.Event
		switch err := json.Unmarshal([]byte(line), &e); {
		case err != nil:
			wrong++
		case e.Event == observe.EventAcquired:
			inFlight++
		case e.Event == observe.EventReleased:
			inFlight--
			if e.Message != "" {
				killed++
			}
		}
		if inFlight < 0 || inFlight > 2 {
			t.Fatalf("%d calls in flight after %s, want at most 2", inFlight, line)
		}
	}
	if inFlight != 0 || wrong != 1 || killed < 1 {
		t.Errorf("%d calls in flight at the end, %d lines that are no event, %d released after the kill; want 0, 1 (cut off) and at least 1:\n%s", inFlight, wrong, killed, text)
	}
}
