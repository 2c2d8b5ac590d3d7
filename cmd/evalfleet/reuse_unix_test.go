//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A folder of essays that grows: by the provider's count, each run asks only about what is new, unless --no-reuse asks
// everything, the address of the model has changed, or the texts have.
func TestGrownFolderPaysForWhatIsNew(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.documents(4)
	wantCalls := f.callsBetween()
	run := func(what string, want int, says string, flags ...string) {
		t.Helper()
		said := f.do(exitOK, append([]string{"run", "docs", "--judge", "simulator:careful", "--config", "fleet.yaml"}, flags...)...)
		wantCalls(what, want)
		if got := said.stderr.String(); strings.Contains(got, "not asked again") != (says != "") || !strings.Contains(got, says) {
			t.Errorf("%s: said\n%s\nwant %q", what, got, says)
		}
	}
	run("four essays", 12, "")
	f.write("docs/d04.md", "A fifth essay.\n")
	if said := f.do(exitOK, "validate", "docs", "--judge", "simulator:careful", "--config", "fleet.yaml").stderr.String(); !strings.Contains(
		said, "12 of 20 runs are known from ev-") {
		t.Errorf("validate says\n%s", said)
	}
	run("a fifth", 8, "12 of 20 runs are known from ev-")
	run("the same once more", 0, "")
	f.write("docs/d05.md", "A sixth essay.\n")
	run("a sixth, and everything is asked", 30, "", "--no-reuse")
	f.write("docs/d05.md", "A sixth essay, mended.\n")
	run("the sixth is another text", 10, "20 of 30 runs are known from ev-")

	if err := os.Remove(f.dir + "/docs/d00.md"); err != nil {
		t.Fatal(err)
	}
	run("one less", 0, "20 of 20 runs are known from ev-")
	f.write("docs/d06.md", "A seventh essay.\n")
	f.unseal()
	run("the answers are of another user", 30, "")
	f.write("docs/d06.md", "A seventh essay, mended.\n")
	f.configure(strings.Replace(f.provider, "127.0.0.1", "localhost", 1), calm)
	run("the model is at another address", 30, "")
}

// unseal makes all output folders in evalfleet-out look as if runs of another user had written them.
func (f *testFleet) unseal() {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, "evalfleet-out", "*", "resume.json"))
	if err != nil || len(files) == 0 {
		f.t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.t.Fatal(err)
		}
		other := regexp.MustCompile(`"seal": "[0-9a-f]+"`).ReplaceAll(text, []byte(`"seal": "`+strings.Repeat("0", 64)+`"`))
		if bytes.Equal(other, text) {
			f.t.Fatalf("%s has no seal:\n%s", path, text)
		}
		if err := os.WriteFile(path, other, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Evaluations in one results store know what the others asked, also in a fleet; a file can refuse that.
func TestOneStoreKnowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.documents(4)
	write := func(name, more string) string {
		return f.write(name+".yaml", fmt.Sprintf(`name: %s
documents: ["docs/*.md"]
judges: [simulator:careful]
pairwise: {pairs: all, order: both}
%s`, name, more))
	}
	wantCalls := f.callsBetween()
	f.do(exitOK, "run", write("first", ""), "--config", "fleet.yaml", "--sink", "sqlite:shared.db", "--out-dir", "first")
	wantCalls("the first", 12)
	f.do(exitOK, "run", write("refuses", "reuse: false\n"), "--config", "fleet.yaml", "--sink", "sqlite:shared.db", "--out-dir", "refuses")
	wantCalls("a file that refuses", 12)

	f.write("docs/d04.md", "A fifth essay.\n")
	f.startWorkers(1)
	said := f.do(exitOK, "enqueue", write("grown", ""), "--wait", "--redis", f.redis.URL(), "--config", "fleet.yaml",
		"--sink", "sqlite:shared.db", "--out-dir", "grown").stderr.String()
	wantCalls("a fifth, in a fleet", 8)
	if !strings.Contains(said, "12 of 20 runs are known from ev-") {
		t.Errorf("enqueue says\n%s", said)
	}
}

// A model more in a file with prompts: only its answers are asked for, and judges compare only pairs with one of them.
func TestGrownPromptsPayForWhatIsNew(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.write("items.jsonl", `{"id": "q1", "topic": "tea"}`+"\n"+`{"id": "q2", "topic": "coffee"}`+"\n")
	run := func(models string) {
		t.Helper()
		f.do(exitOK, "run", f.write("grown.yaml", fmt.Sprintf(`prompts: {short: "Write a line about {{topic}}."}
models: [%s]
items: items.jsonl
judges: [simulator:careful]
pairwise: {pairs: all, order: both}
`, models)), "--config", "fleet.yaml")
	}
	run("simulator:average, simulator:careless")
	before := f.stats().All.Arrived
	if before != 2*2+2*2 {
		t.Fatalf("%d calls arrived, want 2 answers of each of two models and 2 verdicts on each of two pairs", before)
	}
	run("simulator:average, simulator:careless, simulator:careful")
	if more := f.stats().All.Arrived - before; more < 2+4 || more > 2+2*2*2 { // fewer if models give equal answers
		t.Errorf("%d calls arrived for a third model, want 2 answers, and at most 2 verdicts on each of 4 pairs", more)
	}
	for _, name := range []string{"average", "careless"} {
		if model := f.counts().Models[name]; model.PromptsRetaken > 0 || model.Answered != 2 {
			t.Errorf("%s: %+v, want that it answered two prompts once", name, model)
		}
	}
}
