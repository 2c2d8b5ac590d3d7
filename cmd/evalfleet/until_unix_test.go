//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

const untilRuns = 4 * 3 / 2 * 2 * 30 // pairs of four candidates in both orders, of 30 items

// untilTop writes an evaluation of four candidates; one is clearly the best.
func untilTop(f *testFleet, until string) {
	f.t.Helper()
	slips := []string{"", " the the", " the the on on", " the the on on a a"}
	answers := ""
	for item := range 30 {
		for k, name := range []string{"best", "second", "third", "last"} {
			answers += fmt.Sprintf("{\"id\": \"q%d-%s\", \"item\": \"q%d\", \"candidate\": %q, \"text\": \"Answer %d by %s says that tides follow the moon%s twice each day.\"}\n",
				item, name, item, name, item, name, slips[k])
		}
	}
	f.write("answers.jsonl", answers)
	f.configure(f.provider, calm)
	f.write("until.yaml", `documents: {jsonl: answers.jsonl}
judges: ["simulator:careful"]
pairwise: {pairs: sample:1}
concurrency: {max_concurrency: 4}
`+until)
}

// stopNote is why the evaluation in a folder stopped, by its manifest.
func stopNote(t *testing.T, dir string) *results.Stop {
	t.Helper()
	var manifest struct{ Stopped *results.Stop }
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Stopped
}

// TestUntilTheBestIsKnown: an evaluation ends by itself, as a success, once its best candidate is
// known: in a run with its own Redis, while a command waits for a fleet, and under a
// controller when no command waits.
func TestUntilTheBestIsKnown(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	want := func(f *testFleet, why *results.Stop) {
		f.t.Helper()
		if why == nil || why.Known == nil || strings.Join(why.Known.Best, " ") != "best" || why.Known.Pairs >= untilRuns/2 || why.Known.Confidence != 0.95 {
			f.t.Errorf("it stopped because of %+v", why)
		}
		if got := f.stats().All.Answered; got >= untilRuns || got < 2*12 {
			f.t.Errorf("%d calls were made of %d", got, untilRuns)
		}
	}
	newFleet := func(t *testing.T) *testFleet {
		f := newFleetWith(t, "--latency", "1s")
		untilTop(f, "until: {top: 1}\n")
		return f
	}
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		p := f.do(exitOK, "run", "until.yaml", "--config", "fleet.yaml", "--out-dir", "out")
		want(f, stopNote(t, filepath.Join(f.dir, "out")))
		if said := p.stderr.String() + p.stdout.String(); !strings.Contains(said, "the best of 4 candidates is known at 95 % confidence after") {
			t.Errorf("it does not say why it ended:\n%s", said)
		}
		// What is known needs no further call.
		before := f.stats().All.Answered
		f.do(exitOK, "run", "until.yaml", "--config", "fleet.yaml", "--out-dir", "out")
		if calls := f.stats().All.Answered - before; calls > 0 {
			t.Errorf("the same run again made %d calls", calls)
		}
	})
	t.Run("enqueue --wait", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		f.startWorkers(1)
		f.onFleet(exitOK, "enqueue", "until.yaml", "--wait", "--config", "fleet.yaml", "--out-dir", "out")
		want(f, stopNote(t, filepath.Join(f.dir, "out")))
	})
	t.Run("controller", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		f.add("fleet.yaml", fmt.Sprintf("sink: \"sqlite:%s\"\n", filepath.Join(f.dir, "all.db")))
		f.startWorkers(1)
		launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0")
		f.onFleet(exitOK, "enqueue", "until.yaml", "--config", "fleet.yaml")
		f.until("the evaluation has stopped", func(seen) bool { return f.standing().Status == view.StatusStopped })
		testrun.Eventually(t, "the reason is stored", func() bool { s := f.standing().Stopped; return s != nil && s.Known != nil })
		want(f, f.standing().Stopped)
	})
	t.Run("at most so many pairs", func(t *testing.T) {
		t.Parallel()
		f := newFleetWith(t)
		untilTop(f, "until: {top: 1, confidence: 0.9999, max_pairs: 20}\n")
		f.do(exitOK, "run", "until.yaml", "--config", "fleet.yaml", "--out-dir", "out")
		if got := f.stats().All.Answered; got != 40 {
			t.Errorf("%d calls, want 40 for 20 pairs in both orders", got)
		}
	})
}
