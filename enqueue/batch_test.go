package enqueue

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// asBatches has the runs of a submission asked in batches of so many.
func asBatches(s Submission, runs int) Submission {
	s.Settings.Batch = &record.Batch{Models: []string{s.Evaluation.Judges[0].Target()}, Runs: runs, Deadline: time.Hour}
	return s
}

// TestOneTaskForABatch: one run of each group is pushed, and the groups cover every position of the queue once. When a
// leader has ended, the first of the others that has not is the next.
func TestOneTaskForABatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(asBatches(submission("batches", 10), 30)) // 90 runs
	pulled := b.pull("p", 100)
	next := 0
	for _, task := range pulled {
		if task.Batch == nil || task.Batch.From != next || task.Version != record.TaskVersionBatch {
			t.Fatalf("task %s has batch %+v and version %d, want a batch from %d", task.ID(), task.Batch, task.Version, next)
		}
		next = task.Batch.To
	}
	if next != receipt.Runs || len(pulled) != (receipt.Runs+29)/30 {
		t.Fatalf("%d tasks cover %d positions, want %d", len(pulled), next, receipt.Runs)
	}
}

// TestBatchLeaders: runs of other judges are pushed as ever, a run that was retried is asked alone, and one that has
// ended leads nothing.
func TestBatchLeaders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("leaders", 4)
	first := s.Evaluation.Judges[0]
	s.Evaluation.Judges = append(s.Evaluation.Judges, eval.Judge{Name: "alone", Provider: "p", Model: "other"})
	s.Recorded = func(yield func(Recorded, error) bool) {
		_ = yield(Recorded{Phase: 0, Index: 0, State: eval.StateSucceeded}, nil) &&
			yield(Recorded{Phase: 0, Index: 2, State: eval.StateFailed}, nil)
	}
	s.Retry = func(Recorded) bool { return true }
	receipt := b.submit(asBatches(s, 1000))

	alone, leaders, retried := 0, 0, 0
	for _, task := range b.pull("p", 100) {
		switch {
		case task.Batch != nil:
			leaders++
			if task.Model != first.Target() || task.Generation > 0 || task.Index == 0 {
				t.Errorf("task %s of %s leads a batch", task.ID(), task.Model)
			}
		case task.Generation > 0:
			retried++
		default:
			alone++
		}
	}
	if alone != receipt.Runs/2 || leaders != 1 || retried != 1 {
		t.Errorf("pushed %d runs alone, %d leaders and %d retried ones; want %d, 1, 1", alone, leaders, retried, receipt.Runs/2)
	}
}

// TestBatchesAreKept: an evaluation that is submitted again without batches keeps them: tasks of their own for runs
// whose batch runs at the provider would ask these twice.
func TestBatchesAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(asBatches(submission("kept", 10), 30))
	if _, err := b.enqueuer(b.store).Pause(t.Context(), receipt.ID); err != nil {
		t.Fatal(err)
	}
	b.submit(submission("kept", 10))
	if v := b.store.Client().HGet(t.Context(), b.store.Keys().Record(receipt.ID), "v").Val(); v != "2" {
		t.Errorf("the record has version %s, which programs without batches would take over", v)
	}
	r, err := b.store.Evaluation(t.Context(), receipt.ID)
	if err != nil || r.Status != record.StatusActive || r.Settings.Batch == nil || r.Settings.Batch.Runs != 30 {
		t.Errorf("the evaluation is %s with batches %+v, %v; want it active, with its batches", r.Status, r.Settings.Batch, err)
	}
}
