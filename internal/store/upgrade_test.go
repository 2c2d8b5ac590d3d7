package store

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/redistest"
)

// The previous release, which may work beside this one, refuses a run whose progress has
// a field that it does not know, unless that is an integer or its name begins with died:.
func TestThePreviousReleaseReadsProgress(t *testing.T) {
	t.Parallel()
	known := []string{"lacked", "fallback", "answer", "answer_by", "said", "job"}
	client := redistest.New(t).Client()
	s := New(client, "")
	r := create(t, s)
	task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
	p := Progress{
		Writer: "w7k2p9qa-1", Attempts: 1, Answers: 1, Cooled: 1, Unusable: 1, Cut: 1, Faults: 1,
		Submitting: time.Now(), Job: &record.Job{ID: "job-1"}, Answer: "prose", AnswerBy: "p:m",
	}
	if err := s.SaveProgress(t.Context(), task, p, nil); err != nil {
		t.Fatal(err)
	}
	fields, err := client.HGetAll(t.Context(), s.Keys().Progress(task.RunID())).Result()
	if err != nil || len(fields) < 8 {
		t.Fatalf("got fields %v, %v", fields, err)
	}
	for field, value := range fields {
		if _, err := strconv.ParseInt(value, 10, 64); err != nil && !slices.Contains(known, field) && !strings.HasPrefix(field, "died:") {
			t.Errorf("the previous release cannot read the field %s: %q", field, value)
		}
	}
}
