package store

import (
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/record"
)

// What was paid for is recorded although Redis has no memory left for anything else.
func TestAFullRedisTakesWhatWasPaidFor(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	s := New(client, "")
	r := create(t, s)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), "other", "x", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
	calls := []record.Call{{ID: "paid"}}
	if _, err := s.SaveProgress(t.Context(), task, Progress{Writer: "w-1", Attempts: 1}, calls); err != nil {
		t.Errorf("save progress: %v", err)
	}
	if _, err := s.AppendCalls(t.Context(), r.ID, calls); err != nil {
		t.Errorf("append calls: %v", err)
	}
	run := record.Run{Index: 1, Kind: eval.KindPairwise, Queue: "openai"}
	if once, err := s.Record(t.Context(), r.ID, eval.StateSucceeded, run, calls); err != nil || !once {
		t.Errorf("record: got %t, %v, want true", once, err)
	}
	if got := len(s.entries(t, r.ID)); got != 3 {
		t.Errorf("%d entries are in the results, want 3", got)
	}
}
