package enqueue

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// overtaken is a registry in which something happens before the first registration.
type overtaken struct {
	*pinned
	by func()
}

func (o *overtaken) Register(ctx context.Context, holder string, limits []ratelimit.Limit) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.pinned.Register(ctx, holder, limits)
}

func (o *overtaken) Unregistered(_ context.Context, holders ...string) (missing []string, _ error) {
	for _, holder := range holders {
		if _, ok := o.of[holder]; !ok {
			missing = append(missing, holder)
		}
	}
	return missing, nil
}

func (*overtaken) Closed(context.Context, ...string) ([]string, error) { return nil, nil }

// A closure that arrives after the evaluation was resumed is taken back; that of a paused one stays.
func TestLateClosureIsTakenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	q := &Enqueuer{Store: b.store, Limits: limiter, Log: zerolog.Nop()}
	active, paused := submission("active", 3), submission("paused", 3)
	var ids []eval.ID
	for _, s := range []Submission{active, paused} {
		receipt, err := q.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, receipt.ID)
	}
	if _, err := q.Pause(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	for _, of := range []ratelimit.Scope{{Evaluation: string(ids[0])}, {Evaluation: string(ids[0]), Provider: "p"}} {
		if err := limiter.Close(t.Context(), of); err != nil { // by a pause that was resumed before
			t.Fatal(err)
		}
	}

	if err := RegisterAgain(t.Context(), b.store, limiter, q.Log, ids); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1} {
		if closures, err := limiter.Closures(t.Context(), string(ids[i])); err != nil || len(closures) != want {
			t.Errorf("evaluation %d has closures %v, %v; want %d", i, closures, err, want)
		}
	}
}

// A process has read an evaluation and is about to register its limits. Meanwhile the
// evaluation is paused and submitted with tighter ones: these remain in force.
func TestRegistrationThatIsOvertaken(t *testing.T) {
	t.Parallel()
	limited := func(most int64) Submission {
		s := submission("overtaken", 3)
		s.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: most}}
		return s
	}
	for name, register := range map[string]func(*bench, *Enqueuer, *overtaken, eval.ID) error{
		"limits that Redis has lost": func(b *bench, q *Enqueuer, limits *overtaken, id eval.ID) error {
			if err := limits.Unregister(b.t.Context(), string(id)); err != nil {
				return err
			}
			return RegisterAgain(b.t.Context(), q.Store, limits, q.Log, []eval.ID{id})
		},
		"resume": func(b *bench, q *Enqueuer, _ *overtaken, id eval.ID) error {
			_, err := q.Resume(b.t.Context(), id)
			return err
		},
		"retry": func(b *bench, q *Enqueuer, _ *overtaken, id eval.ID) error {
			_, err := q.Retry(b.t.Context(), id, func(Recorded) bool { return true })
			return err
		},
		"another submission": func(b *bench, q *Enqueuer, _ *overtaken, id eval.ID) error {
			if _, err := q.Pause(b.t.Context(), id); err != nil {
				return err
			}
			_, err := q.Submit(b.t.Context(), limited(8))
			return err
		},
		"the end of the one before": func(b *bench, q *Enqueuer, _ *overtaken, id eval.ID) error {
			return unpin(b.t.Context(), q.Store, q.Limits, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.submit(limited(9)).ID
			limits := &overtaken{pinned: b.limits, by: func() {
				if status, err := b.enqueuer(b.store).Pause(t.Context(), id); err != nil || status != record.StatusPaused {
					t.Errorf("Pause: %s, %v", status, err)
				}
				b.submit(limited(2))
			}}
			q := &Enqueuer{Store: b.store, Limits: limits, Log: zerolog.Nop()}
			if err := register(b, q, limits, id); err != nil {
				t.Fatal(err)
			}
			if limits.by != nil {
				t.Fatal("nothing was registered")
			}
			if got := b.limits.of[string(id)]; len(got) != 1 || got[0].Max != 2 {
				t.Errorf("in force are %v, want the 2 in flight of the last submission", got)
			}
		})
	}
}
