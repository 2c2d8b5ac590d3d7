//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnswersAreFoundInTheStore: by the simulator's count, an evaluation of another
// name that asks the same makes no call in a run with the same results store, and none by
// workers that are told of the results store; failed runs are asked again.
func TestAnswersAreFoundInTheStore(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.add("fleet.yaml", "prices: {\"simulator:*\": {input: 1, output: 1}}\n")
	f.documents(4)
	write := func(name, judge string) string {
		return f.write(name+".yaml", fmt.Sprintf(`name: %s
documents: ["docs/*.md"]
judges: [%s]
pairwise: {pairs: all, order: both}
cache: true
reuse: false
retry: {max_attempts: 1}
`, name, judge))
	}
	wantCalls := f.callsBetween()
	run := func(code exit, name, judge string) {
		t.Helper()
		f.do(code, "run", write(name, judge), "--config", "fleet.yaml", "--sink", "sqlite:shared.db", "--out-dir", "out-"+name)
	}
	run(exitOK, "first", "simulator:careful")
	wantCalls("the first", 12)
	run(exitOK, "second", "simulator:careful")
	wantCalls("the same under another name", 0)
	run(exitOK, "third", "{model: simulator:careful, overrides: {temperature: 0.25}}")
	wantCalls("at another temperature", 12)

	var manifest struct {
		Totals struct {
			Calls   int     `json:"calls"`
			Before  int     `json:"answered_before"`
			Output  int     `json:"output_tokens"`
			CostUSD float64 `json:"cost_usd"`
		} `json:"totals"`
	}
	raw, err := os.ReadFile(filepath.Join(f.dir, "out-second", "manifest.json"))
	if err == nil {
		err = json.Unmarshal(raw, &manifest)
	}
	if got := manifest.Totals; err != nil || got.Calls != 0 || got.Before != 12 || got.Output != 0 || got.CostUSD != 0 {
		t.Errorf("manifest of what was answered before: %+v, %v; want 12 answers and nothing used", got, err)
	}

	f.workers = append(f.workers, launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--metrics-addr", "off", "--cache", "sqlite:shared.db"))
	f.do(exitOK, "enqueue", write("fourth", "simulator:careful"), "--wait", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--out-dir", "out-fourth")
	wantCalls("the same by a worker that knows the results store", 0)
	if shown := f.do(exitOK, "show", "0.0", "out-fourth").stdout.String(); !strings.Contains(shown, "not made: an identical call was answered before") {
		t.Errorf("show says\n%s", shown)
	}
}

// TestFailedCallsAreAskedAgain: what failed is no answer, for the run that failed
// and for others.
func TestFailedCallsAreAskedAgain(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--fail-rate", "1", "--fail-status", "400")
	f.writeCalm(fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", f.provider+"/v1"))
	f.documents(3)
	for i, name := range []string{"one", "two"} {
		file := f.write(name+".yaml", "name: "+name+"\ndocuments: [\"docs/*.md\"]\njudges: [simulator:careful]\npairwise: {pairs: all, order: both}\ncache: true\n")
		f.do(exitRunsFailed, "run", file, "--config", "fleet.yaml", "--sink", "sqlite:shared.db", "--out-dir", name)
		if got, want := f.stats().All.Arrived, 6*(i+1); got != want {
			t.Errorf("%d calls arrived after %s, want %d", got, name, want)
		}
	}
	f.do(exitRunsFailed, "retry", "two")
	if got := f.stats().All.Arrived; got != 18 {
		t.Errorf("%d calls arrived after the retry, want 18", got)
	}
}
