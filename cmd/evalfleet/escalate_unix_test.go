//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// escalates writes an evaluation of four candidates on some items, which two judges compare and a third one completes.
func (f *testFleet) escalates(items int, more string) {
	f.t.Helper()
	slips := []string{"", " the the", " the the on on", " the the on on a a"}
	answers := ""
	for item := range items {
		for k, name := range []string{"best", "second", "third", "last"} {
			answers += fmt.Sprintf("{\"id\": \"q%d-%s\", \"item\": \"q%d\", \"candidate\": %q, \"text\": \"Answer %d by %s says that tides follow the moon%s twice each day.\"}\n",
				item, name, item, name, item, name, slips[k])
		}
	}
	f.write("answers.jsonl", answers)
	f.configure(f.provider, calm)
	f.write("escalate.yaml", `documents: {jsonl: answers.jsonl}
judges: ["simulator:average", "simulator:careless"]
escalate: {to: {name: strong, model: "simulator:careful"}, when: [disagree, flip], share: 30 %}
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 4}
`+more)
}

// escalationOf returns what report.json says of the escalation of an evaluation.
func (f *testFleet) escalationOf(args ...string) (e struct {
	Pairs, Contested, Sampled, Runs int
	Seen                            int `json:"seen_contested"`
	SeenSampled                     int `json:"seen_sampled"`
	Corrected                       bool
}, notes string) {
	f.t.Helper()
	p := f.do(exitOK, append([]string{"report", "--format", "json"}, args...)...)
	var form struct {
		Escalation json.RawMessage
		Notes      []string
	}
	err := json.Unmarshal([]byte(p.stdout.String()), &form)
	if err == nil {
		err = json.Unmarshal(form.Escalation, &e)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return e, strings.Join(form.Notes, "\n")
}

// TestEscalationInAFleet: under a controller, the strong judge is asked once the others have judged all pairs, exactly about
// the chosen ones; and the same evaluation on one machine asks the same.
func TestEscalationInAFleet(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const items, pairs = 12, 72
	f := newFleetWith(t)
	f.escalates(items, "")
	alone, err := os.ReadFile(filepath.Join(f.dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("alone.yaml", string(alone)) // without the fleet's results store
	f.add("fleet.yaml", fmt.Sprintf("sink: \"sqlite:%s\"\n", filepath.Join(f.dir, "all", "results.db")))
	if err := os.Mkdir(filepath.Join(f.dir, "all"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.startWorkers(1)
	launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0")
	f.onFleet(exitOK, "enqueue", "escalate.yaml", "--config", "fleet.yaml")
	f.until("the evaluation is done", func(seen) bool { return f.standing().Status == record.StatusDone })
	phases := f.standing().Phases
	if len(phases) != 2 || phases[1].Strong != "strong" || phases[1].Open || phases[1].Succeeded != phases[1].Runs || phases[1].Runs >= 2*pairs {
		t.Errorf("phases %+v", phases)
	}
	if got, want := f.stats().All.Answered, 4*pairs+phases[1].Runs; got != want {
		t.Errorf("%d calls, want %d", got, want)
	}

	f.do(exitOK, "run", "escalate.yaml", "--config", "alone.yaml", "--out-dir", "out")
	e, _ := f.escalationOf("out")
	if e.Pairs != pairs || e.Runs != phases[1].Runs || e.Contested+e.Sampled != e.Runs/2 || !e.Corrected || e.SeenSampled != e.Sampled {
		t.Errorf("on one machine %+v, in the fleet %d runs", e, phases[1].Runs)
	}
	choice := `SELECT choice FROM phases WHERE phase = 1`
	if one, fleet := rowsOf(t, filepath.Join(f.dir, "out"), choice), rowsOf(t, filepath.Join(f.dir, "all"), choice); !slices.Equal(one, fleet) {
		t.Errorf("pairs on one machine %s, in the fleet %s", one, fleet)
	}
}

// TestEscalationEndsWithItsBudget: if the budget ends while the strong judge is asked, the ranking is its own, the report says
// what is missing, and a higher budget continues without asking anything twice.
func TestEscalationEndsWithItsBudget(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const pairs = 72
	f := newFleetWith(t)
	price := "prices: {\"simulator:average\": {input: 0, output: 0}, \"simulator:careless\": {input: 0, output: 0}, \"simulator:careful\": {input: 100, output: 100}}\n"
	f.escalates(12, price+"budget: {usd: 1.2}\n")
	f.do(exitRunsFailed, "run", "escalate.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	e, notes := f.escalationOf("out")
	if seen := e.Seen + e.SeenSampled; seen == 0 || seen >= e.Contested+e.Sampled {
		t.Fatalf("%+v: the strong judge was not interrupted", e)
	}
	if !strings.Contains(notes, "the others are taken to be like these") || !strings.Contains(notes, "budget") {
		t.Errorf("notes:\n%s", notes)
	}

	f.escalates(12, price+"budget: {usd: 100}\n")
	f.do(exitOK, "run", "escalate.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	again, _ := f.escalationOf("out")
	if again.Seen+again.SeenSampled != again.Contested+again.Sampled || again.Contested != e.Contested || !again.Corrected {
		t.Errorf("with a higher budget %+v, before %+v", again, e)
	}
	if got, want := f.stats().All.Answered, 4*pairs+again.Runs; got != want {
		t.Errorf("%d calls, want %d", got, want)
	}
}
