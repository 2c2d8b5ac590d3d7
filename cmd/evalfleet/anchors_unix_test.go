//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// anchorFiles writes n anchors whose texts are about equally good, and an evaluation of the documents that has them.
// It returns its path.
func (f *testFleet) anchorFiles(n int, more string) string {
	f.t.Helper()
	var rows strings.Builder
	for i := range n {
		fmt.Fprintf(&rows, `{"name": "a%02d", "question": "Question %d?", "text_a": "Answer %d is a house by the sea.", "text_b": "Answer %d is a road to the hills.", "winner": "a"}`+"\n",
			i, i, i, i)
	}
	f.write("anchors.jsonl", rows.String())
	return f.write("eval.yaml", `name: essays
documents: ["docs/*.md"]
judges: [simulator:careful, simulator:average]
pairwise: {pairs: all, order: both}
anchors: anchors.jsonl
`+more)
}

// Each evaluation asks its judges about all anchors, in both orders; what earlier ones asked answers only the rest. The same
// evaluation asks nothing again. Its id and its ranking are those without anchors.
func TestAnchorsAreAskedAtEachEvaluation(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.documents(4)
	file := f.anchorFiles(5, "")
	plain := f.write("plain.yaml", strings.Replace(f.read("eval.yaml"), "anchors: anchors.jsonl\n", "", 1))
	wantCalls := f.callsBetween()
	run := func(what string, want int, flags ...string) string {
		t.Helper()
		said := f.do(exitOK, append([]string{"run", "--config", "fleet.yaml"}, flags...)...)
		wantCalls(what, want)
		return said.stderr.String()
	}
	run("anchors and four essays", 20+24, file)
	run("the same once more", 0, file)
	ranking := f.read(f.only("evalfleet-out/essays-ev-*/ranking.csv"))
	run("without anchors", 0, plain)
	if got := f.read(f.only("evalfleet-out/essays-ev-*/ranking.csv")); got != ranking {
		t.Errorf("without anchors, the ranking is\n%s\nwith anchors\n%s", got, ranking)
	}

	f.write("docs/d04.md", "A fifth essay.\n")
	if said := run("a fifth essay", 20+16, file); !strings.Contains(said, "24 of 40 runs are known from ev-") {
		t.Errorf("a fifth essay says\n%s", said)
	}
	run("everything again", 20+40, file, "--again", "2")

	f.startWorkers(1)
	f.onFleet(exitUsage, "enqueue", file, "--config", "fleet.yaml")
	f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml", "--wait", "--again", "3", "--out-dir", "fleet")
	wantCalls("in a fleet", 20+40)
	if _, err := os.Stat(filepath.Join(f.dir, "fleet/anchors/pairwise_results.csv")); err != nil {
		t.Error(err)
	}
}

// An evaluation that is killed while it asks about anchors asks no recorded anchor again. Its budget bounds
// anchors and pairs together.
func TestAnchorsSurviveKill(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	f := newFleetWith(t, "--latency", "150ms")
	f.configure(f.provider, calm)
	f.documents(3)
	const price = "prices: {\"simulator:careful\": {input: 1000, output: 1000}, \"simulator:average\": {input: 1000, output: 1000}}\n"
	file := f.anchorFiles(8, "concurrency: {max_concurrency: 1}\n"+price)
	p := launch(t, f.dir, "run", file, "--config", "fleet.yaml", "--yes")
	testrun.Eventually(t, "some anchors are asked", func() bool { return f.stats().All.Arrived > 10 })
	p.signal(syscall.SIGKILL)
	p.wait()
	if said := f.do(exitUsage, "resume", filepath.Dir(filepath.Dir(f.only("evalfleet-out/essays-ev-*/anchors/resume.json")))).stderr.String(); !strings.Contains(
		said, "only anchors were asked; resume with the same `evalfleet run FILE") {
		t.Errorf("resume says\n%s", said)
	}
	f.do(exitOK, "run", file, "--config", "fleet.yaml", "--yes")
	if got, want := f.stats().All.Arrived, 32+12; got > want+4 {
		t.Errorf("%d calls arrived, want %d and at most those in flight and of the last 250 ms", got, want)
	}

	bounded := f.write("eval.yaml", f.read("eval.yaml")+"budget: {usd: 25}\n") // anchors cost 17, and a call may cost 6.7
	said := f.do(exitRunsFailed, "run", bounded, "--config", "fleet.yaml", "--again", "bounded").stderr.String()
	if !strings.Contains(said, "of 12 runs are recorded") {
		t.Errorf("with a small budget, it says\n%s", said)
	}
}

// read returns the text of a file in the test's folder.
func (f *testFleet) read(name string) string {
	f.t.Helper()
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.dir, name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// only returns the only file that a pattern matches.
func (f *testFleet) only(pattern string) string {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, pattern))
	if err != nil || len(files) != 1 {
		f.t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files[0]
}

// A model that is replaced under its name is warned of before the pairs are asked, and on the card, by the evaluations in the
// folders beside it.
func TestReplacedModelIsWarned(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.documents(3)
	file := f.anchorFiles(40, "")
	run := func(again string) (card, said string) {
		t.Helper()
		p := f.do(exitOK, "run", file, "--config", "fleet.yaml", "--again", again)
		return strings.Join(strings.Fields(p.stdout.String()), " "), strings.Join(strings.Fields(p.stderr.String()), " ")
	}
	for _, again := range []string{"1", "2"} {
		if card, said := run(again); !strings.Contains(card, "unknown whether 2 judges changed, by 40 anchors.") || strings.Contains(said, "has changed") {
			t.Errorf("evaluation %s says\n%s\n%s", again, card, said)
		}
	}
	if card, _ := run("3"); !strings.Contains(card, "2 judges as before, by 40 anchors.") {
		t.Errorf("evaluation 3 says\n%s", card)
	}

	f.simulator.signal(syscall.SIGTERM)
	f.simulator.wait()
	f.write("replaced.json", `{"models": {"careful": {"behaviour": {"serves": "careless"}}}}`)
	f.simulator = launch(t, f.dir, "simulate", "--listen", strings.TrimPrefix(f.provider, "http://"), "--settings", "replaced.json")
	f.simulator.line()
	card, said := run("4")
	for _, want := range []string{
		"“simulator:careful” has changed", "The provider of “simulator:careful” names another model than before: “careless” instead of “careful”.",
	} {
		if !strings.Contains(card, want) || !strings.Contains(said, "warning: "+want) {
			t.Errorf("it does not say %q:\n%s\n%s", want, card, said)
		}
	}
	if strings.Contains(card, "“simulator:average” has changed") {
		t.Errorf("the other judge is said to have changed:\n%s", card)
	}
}
