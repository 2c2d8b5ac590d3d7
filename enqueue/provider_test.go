package enqueue

import (
	"fmt"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Of a group whose models are of two providers, one of them paused, the runs of
// the other go on, a window after the other, and nothing is said to be missing.
func TestPausedProviderOfAGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("group", 0)
	const runs, queue = 2200, "group=g"
	s.Evaluation.Judges, s.Evaluation.Pairwise = nil, nil
	s.Evaluation.Prompts = &eval.Prompts{
		Format: eval.PromptsExperiment,
		Models: []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}, {Name: "q:m", Provider: "q", Model: "m"}},
		Rows:   []eval.Document{{ID: "line 1", Hash: eval.TextHash("{}")}},
	}
	s.Texts[eval.TextHash("{}")] = "{}"
	for i := range runs {
		s.Evaluation.Prompts.List = append(s.Evaluation.Prompts.List, eval.Prompt{ID: fmt.Sprint(i), Model: i % 2})
	}
	s.Evaluation.Normalize()
	s.Settings.Groups = []string{"g", "g"}
	id := b.submit(s).ID
	if _, err := b.enqueuer(b.store).PauseProvider(t.Context(), id, "q", record.Pause{Class: providers.Auth}); err != nil {
		t.Fatal(err)
	}
	r, err := b.store.Evaluation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	topUp, done := b.topUp(b.store), 0
	for range runs {
		tasks := b.pull(queue, runs)
		if len(tasks) == 0 {
			break
		}
		for _, task := range tasks {
			if task.Provider() != "p" {
				t.Fatalf("%s of the paused provider was carried out", task.ID())
			}
		}
		done += len(tasks)
		standing := b.standing(id)
		only, err := OnlyPaused(t.Context(), b.store, r, s.Evaluation, 0, queue, standing.Ended(0, queue), standing.Paused)
		if err != nil || only != (done == runs/2) {
			t.Fatalf("after %d runs of p: only paused ones are left = %t, %v", done, only, err)
		}
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if done != runs/2 {
		t.Fatalf("%d runs of the other provider went on, want %d", done, runs/2)
	}
	for range 2 { // the second time it is long ago that a run ended
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		stallLong(topUp)
	}
	if got := b.standing(id).Pushed(0, queue, false); got != runs {
		t.Errorf("the cursor is at %d, want %d: nothing is missing", got, runs)
	}
	if _, err := b.enqueuer(b.store).Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, task := range b.pull(queue, runs) {
		if task.Provider() != "q" {
			t.Fatalf("%s was carried out again", task.ID())
		}
		done++
	}
	if done == runs/2 {
		t.Error("nothing of the provider that goes on again was pushed")
	}
}

// TestPausedProviderIsNotPushed: a provider that was paused is closed in the
// limiter and gets no more tasks, its neighbour goes on, and resuming or submitting
// again opens it and pushes what it lacks.
func TestPausedProviderIsNotPushed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		goOn func(b *bench, s Submission, id eval.ID) error
	}{
		{"resumed", func(b *bench, _ Submission, id eval.ID) error {
			_, err := b.enqueuer(b.store).Resume(b.t.Context(), id)
			return err
		}},
		{"submitted again", func(b *bench, s Submission, _ eval.ID) error {
			_, err := b.enqueuer(b.store).Submit(b.t.Context(), s)
			return err
		}},
		{"submitted with other settings", func(b *bench, s Submission, _ eval.ID) error {
			s.Settings.Retry.MaxAttempts = 7
			_, err := b.enqueuer(b.store).Submit(b.t.Context(), s)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := submission("two", 3)
			s.Evaluation.Judges = append(s.Evaluation.Judges, eval.Judge{Name: "q:m", Provider: "q", Model: "m"})
			s.Evaluation.Normalize()
			id := b.submit(s).ID
			for i, want := range []bool{true, false} {
				first, err := b.enqueuer(b.store).PauseProvider(t.Context(), id, "q", record.Pause{Class: providers.Auth})
				if err != nil || first != want {
					t.Fatalf("PauseProvider, time %d = %t, %v; want %t", i+1, first, err, want)
				}
			}
			if !b.limits.closed(string(id), "q") || b.limits.closed(string(id), "p") || b.limits.closed(string(id), "") {
				t.Errorf("closed are %v, want q alone", b.limits.of)
			}
			if done := b.pull("q", 100); len(done) != 0 {
				t.Fatalf("%d tasks of q were carried out, want all dropped", len(done))
			}
			if err := b.store.Client().Del(t.Context(), b.store.Keys().Cursors(id)).Err(); err != nil { // as anybody's resume does
				t.Fatal(err)
			}
			if err := b.topUp(b.store).Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			if pushed := b.store.Client().LLen(t.Context(), "asynq:{q}:pending").Val(); pushed != 0 {
				t.Errorf("%d tasks of the paused provider were pushed", pushed)
			}
			if got := b.standing(id); got.Pushed(0, "p", true) != 6 {
				t.Errorf("%d runs of its neighbour are pushed, want 6", got.Pushed(0, "p", true))
			}
			if err := tt.goOn(b, s, id); err != nil {
				t.Fatal(err)
			}
			if b.limits.closed(string(id), "q") {
				t.Error("q is still closed")
			}
			if got := b.standing(id); len(got.Paused) != 0 || got.Pushed(0, "q", true) != 6 {
				t.Errorf("paused are %v, %d runs of q pushed; want none and 6", got.Paused, got.Pushed(0, "q", true))
			}
			if done := b.pull("q", 100); len(done) != 6 {
				t.Errorf("carried out %v, want the 6 runs of q", done)
			}
		})
	}
}
