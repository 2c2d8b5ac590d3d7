package store

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
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
	if _, err := s.SaveProgress(t.Context(), task, p, nil); err != nil {
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

// Of a newer program's progress, counters are passed over, and what may change how a run
// goes on refuses the run: nothing of it is called.
func TestProgressOfANewerProgram(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{"redone": "3", "died:by": "w7k2p9qa", "consent": `{"until":"tomorrow"}`} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			client := redistest.New(t).Client()
			s := New(client, "")
			r := create(t, s)
			task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
			if _, err := s.SaveProgress(t.Context(), task, Progress{Writer: "w-1", Attempts: 1}, nil); err != nil {
				t.Fatal(err)
			}
			if err := client.HSet(t.Context(), s.Keys().Progress(task.RunID()), field, value).Err(); err != nil {
				t.Fatal(err)
			}
			checked, err := s.Check(t.Context(), task)
			if refused := field == "consent"; (err != nil) != refused {
				t.Errorf("got %v, want it refused: %t", err, refused)
			} else if !refused && checked.Progress.Attempts != 1 {
				t.Errorf("got %d attempts, want 1", checked.Progress.Attempts)
			}
		})
	}
}

// An evaluation's record of a newer version, or with values that are not understood, is
// unreadable, and fields that were added are passed over.
func TestRecordOfANewerProgram(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{
		fieldVersion:  strconv.Itoa(record.EvaluationVersionExtended + 1),
		fieldPaused:   `["p"]`,
		fieldSettings: `"brief"`,
		fieldPhases:   `{"first":{}}`,
		"added":       `{"x":1}`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			client := redistest.New(t).Client()
			s := New(client, "")
			r := create(t, s)
			if err := client.HSet(t.Context(), s.Keys().Record(r.ID), field, value).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Evaluation(t.Context(), r.ID); (field == "added") != (err == nil) || err != nil && !errors.Is(err, ErrUnreadable) {
				t.Errorf("got %v; want ErrUnreadable, unless a field was added", err)
			}
		})
	}
}
