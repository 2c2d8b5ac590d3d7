package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/results"
)

// A look at an evaluation that goes on stays quick, however many calls were made for
// it: what takes seconds is added up for those who ask.
func TestManyResultsAreSummedForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	const id = eval.ID("ev-many")
	dir := t.TempDir()
	sink, err := results.Open(t.Context(), filepath.Join(dir, sinkFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.PutEvaluation(t.Context(), results.Evaluation{ID: id, Plan: new(eval.Evaluation)}, func(func(string, string) bool) {}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		status record.Status
		ended  int
		sums   bool
		summed bool
	}{
		{"few", record.StatusActive, summedAtOnce, false, true},
		{"many", record.StatusActive, summedAtOnce + 1, false, false},
		{"many, asked for", record.StatusActive, summedAtOnce + 1, true, true},
		{"many, after the end", record.StatusDone, summedAtOnce + 1, false, true},
	} {
		s := newStatus(&source{outDir: dir})
		s.sums = tt.sums
		line := standing{Evaluation: id, Status: tt.status, Phases: []phaseStanding{{Runs: 1_000_000, Succeeded: tt.ended - 1, Failed: 1}}}
		s.addSink(t.Context(), &line, "", time.Now())
		if (line.Used != nil) != tt.summed || line.Unsummed == tt.summed {
			t.Errorf("%s: summed %v, left out %v; want summed %v", tt.name, line.Used != nil, line.Unsummed, tt.summed)
		}
	}
}
