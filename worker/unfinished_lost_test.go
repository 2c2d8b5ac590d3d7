package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
)

// comesBack is how long runs wait in their queue after a failed call: long enough that all are there at once, also on a
// busy machine.
const comesBack = time.Minute

// TestFlushBetweenTwoCalls flushes Redis after the first call of each run was answered and the second has failed. Once
// the evaluation is submitted again, no worker makes the first call again, although no results store has its answer.
func TestFlushBetweenTwoCalls(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	hint := simulator.Span{Min: comesBack, Max: comesBack}
	for name, test := range map[string]struct {
		judge, first string // and what arrives of its first call
		queue        string
		grounding    eval.Requirement
		workers      int
	}{
		"a report of deep research": {"openaidp:" + researcher, researcher + " search", "openaidp", "", 1},
		"an answer in prose":        {"google:" + gemini, gemini + " search", "google", eval.Required, 1},
		"several workers":           {"google:" + gemini, gemini + " search", "google", eval.Required, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := models(map[string]simulator.Behaviour{jsonify: {FailEvery: 1, FailStatus: 503, RetryAfter: hint}})
			all[researcher] = simulator.Model{Behaviour: &simulator.Behaviour{}}
			s := simulate(t, all)
			s.submit(3, asks(test.judge, eval.JSONAuto, test.grounding, ""))
			s.cfg.Lease = 10 * time.Second
			for range test.workers {
				defer s.start(s.cfg)()
			}
			s.waitFor("every run's second call has failed", func(store.Standing) bool { return s.arrived()[jsonify+" JSON"] == s.runs })
			s.wantBack(test.queue, s.runs)
			s.store.Client().FlushAll(t.Context())
			s.resubmit(func(again *enqueue.Submission) { again.Settle = s.settle() })
			s.wait()
			s.wantEachOnce()
			want := map[string]int{test.first: s.runs, jsonify + " JSON": 2 * s.runs}
			if diff := cmp.Diff(want, s.arrived()); diff != "" {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
		})
	}
}

// wantBack waits until runs have returned to a queue for a while, so that only Redis and the ledgers of the workers have
// their progress.
func (b *bench) wantBack(queue string, runs int) {
	b.t.Helper()
	b.waitFor("the runs are back in their queue", func(store.Standing) bool {
		waiting, err := b.store.Client().ZCard(b.t.Context(), "asynq:{"+queue+"}:retry").Result()
		return err == nil && waiting == int64(runs)
	})
}

// TestFlushBetweenTurns does what TestFlushBetweenTwoCalls does, between the turns of a prompt.
func TestFlushBetweenTurns(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(_ context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 2 {
			return nil, &providers.Error{Class: providers.Overloaded, Message: "busy", Status: 503}
		}
		return &providers.Result{Text: "to " + request.Messages[len(request.Messages)-1].Content, Finish: providers.FinishStop}, nil
	}})
	b.submit(0, prompts(`{"prompt": ["a", "b", "c"]}`), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Retry.InitialDelay, s.Retry.MaxDelay = comesBack, comesBack
	})
	defer b.start(b.brief())()
	b.wantBack("p", 1)
	b.store.Client().FlushAll(t.Context())
	b.resubmit(func(again *enqueue.Submission) { again.Settle = b.settle() })
	b.wait()
	b.wantEachOnce()
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 2, "c": 1}, b.provider.byPrompt); diff != "" {
		t.Errorf("turns that were asked (-want +got):\n%s", diff)
	}
	if runs, _ := b.outcomes(); !cmp.Equal(runs[0][0].Answers, []string{"to a", "to b", "to c"}) {
		t.Errorf("the answers are %q", runs[0][0].Answers)
	}
}

// TestKeptProgressIsRestored: progress that one process knows is given back to its run as soon as Redis has lost it,
// also if another process has given back an older part of it, and no call begins until then. The limits count a job
// that has ended no longer.
func TestKeptProgressIsRestored(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3)
	task := record.Task{Evaluation: b.id, Kind: eval.KindPairwise, Model: "p:m"}
	job := record.Job{ID: "job", Call: record.Call{Attempt: 1}, Lease: ratelimit.Background{
		Start:  time.Now().UnixMicro(),
		Limits: []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 1}},
	}}
	limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	knows, behind := ledger.New(b.store, limits), ledger.New(b.store, limits)
	save := func(k *ledger.Ledger, p store.Progress) {
		t.Helper()
		entry, err := b.store.SaveProgress(t.Context(), task, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.PutProgress(task, p, b.created(), entry.Memory)
	}
	look := func(k *ledger.Ledger) {
		t.Helper()
		if err := k.Look(t.Context(), "", nil, func(eval.ID) {}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(answer string, leases int64) {
		t.Helper()
		checked, err := b.store.Check(t.Context(), task)
		got := b.store.Client().ZCard(t.Context(), "{ef}:s:provider/p/concurrency").Val()
		if err != nil || checked.Progress.Answer != answer || got != leases {
			t.Errorf("the progress is %+v, %v, with %d leases; want the answer %q and %d", checked.Progress, err, got, answer, leases)
		}
	}

	submitted := store.Progress{Job: &job, Writer: "a-1"}
	save(behind, submitted)
	behind.PutJob(b.id, job, b.created(), time.Hour)
	save(knows, submitted)
	save(knows, store.Progress{Attempts: 1, Answers: 1, Answer: "prose", AnswerBy: "p:m", Writer: "b-1", Found: "a-1"})
	look(behind) // which counts the job until the provider has told it that it has ended
	want("prose", 1)
	if orphans := behind.Orphans(); len(orphans) != 1 || orphans[0].Why != ledger.NotTaken {
		t.Errorf("the worker that knows less has orphans %+v, want the job, which the run does not take", orphans)
	}
	if err := limits.EndBackground(t.Context(), job.ID, nil); err != nil {
		t.Fatal(err)
	}
	look(behind)
	look(knows)
	want("prose", 0)

	b.store.Client().FlushAll(t.Context())
	look(knows)
	if got := knows.Lost(); !slices.Equal(got, []eval.ID{b.id}) {
		t.Errorf("it misses %v in Redis, want the evaluation", got)
	}
	b.resubmit()
	if agrees, err := knows.Agrees(t.Context(), b.id, b.created(), ""); agrees || err != nil {
		t.Errorf("a call may begin before the progress is restored: %t, %v", agrees, err)
	}
	look(behind)
	want("", 1)
	look(knows)
	want("prose", 0)
	look(behind)
	want("prose", 0)
	if agrees, err := knows.Agrees(t.Context(), b.id, b.created(), ""); !agrees || err != nil || len(knows.Lost()) > 0 {
		t.Errorf("a call may begin once the progress is restored: %t, %v; it misses %v", agrees, err, knows.Lost())
	}

	if _, err := b.enqueuer().Cancel(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	look(knows)
	if n, bytes := knows.Kept(); n != 0 || bytes != 0 {
		t.Errorf("%d items of %d bytes are kept of a cancelled evaluation", n, bytes)
	}
}
