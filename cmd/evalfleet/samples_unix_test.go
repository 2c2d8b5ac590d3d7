//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestACandidateIsNotComparedWithItself: by the simulator's count, two models with two answers each to three questions
// are compared with each other in 24 calls, and with themselves only if the file asks for that. The files are in the
// shape of arena-hard, and named on the command line or in an evaluation file.
func TestACandidateIsNotComparedWithItself(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	for _, model := range []string{"m1", "m2"} {
		var lines strings.Builder
		for question := range 3 {
			fmt.Fprintf(&lines, `{"question_id":"q%[1]d","answer_id":"a","model_id":%[2]q,"choices":[{"index":0,"turns":[{"content":"%[2]s one %[1]d"}]},{"index":1,"turns":[{"content":"%[2]s two %[1]d"}]}],"tstamp":1.5}`+"\n", question, model)
		}
		f.write(model+".jsonl", lines.String())
	}
	arrived := 0
	wantCalls := func(what string, want int) {
		t.Helper()
		all := f.stats().All.Arrived
		if all-arrived != want {
			t.Errorf("%s: %d calls arrived, want %d", what, all-arrived, want)
		}
		arrived = all
	}

	looked := f.do(exitOK, "validate", "m1.jsonl", "m2.jsonl").stdout.String()
	for _, want := range []string{"looks like 2 files of arena-hard answers: 12 answers of 2 candidates to 3 items", "run with: evalfleet run m1.jsonl m2.jsonl --judge "} {
		if !strings.Contains(strings.Join(strings.Fields(looked), " "), want) {
			t.Errorf("validate says\n%s\nwant %s", looked, want)
		}
	}
	wantCalls("validate", 0)

	ran := f.do(exitOK, "run", "m1.jsonl", "m2.jsonl", "--judge", "simulator:careful", "--config", "fleet.yaml", "--out-dir", "out-files")
	wantCalls("two files", 24)
	for _, want := range []string{"read 2 files of arena-hard answers: 12 answers of 2 candidates to 3 items", "6 documents are further answers of a candidate to an item"} {
		if said := strings.Join(strings.Fields(ran.stderr.String()), " "); !strings.Contains(said, want) {
			t.Errorf("run says\n%s\nwant %s", ran.stderr.String(), want)
		}
	}

	for name, c := range map[string]struct {
		pairwise string
		calls    int
	}{"own": {"same_candidate: true", 36}, "some": {"pairs: sample:0.5", 12}} {
		file := f.write(name+".yaml", "documents: {answers: ['m*.jsonl']}\njudges: [simulator:careful]\npairwise: {"+c.pairwise+"}\n")
		f.do(exitOK, "run", file, "--config", "fleet.yaml", "--out-dir", "out-"+name)
		wantCalls(c.pairwise, c.calls)
	}
}
