package collect

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// untilFleet is a fleet with an evaluation of four candidates that ends as soon as the best is
// known, and a results store that is opened anew each time.
type untilFleet struct {
	*Collector
	t    *testing.T
	asks *eval.Evaluation
	plan *plan.Plan
	sink string // URL of the results store
}

// newUntilFleet submits the evaluation with a budget in nano-USD; 0: none.
func newUntilFleet(t *testing.T, budget int64) *untilFleet {
	t.Helper()
	e := &eval.Evaluation{
		Name: "until", JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsSample, Sample: 1}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for item := range 30 {
		e.Items = append(e.Items, eval.Item{ID: fmt.Sprint("q", item), Question: fmt.Sprint("Question ", item)})
		for candidate := range 4 {
			text := fmt.Sprintf("Answer %d to question %d.", candidate, item)
			texts[eval.TextHash(text)] = text
			e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("q%d/%d", item, candidate), Item: item, Candidate: fmt.Sprint(candidate), Hash: eval.TextHash(text), Bytes: len(text)})
		}
	}
	e.Normalize()
	f := &untilFleet{t: t, asks: e, sink: "sqlite://" + filepath.Join(t.TempDir(), "results.db")}
	f.Collector = &Collector{Store: store.New(redistest.New(t).Client(), ""), Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
		return results.Open(ctx, f.sink)
	}}
	settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Until: &record.Until{Top: 1}}
	if budget > 0 {
		settings.Limits = []ratelimit.Limit{ratelimit.Budget(string(e.ID()), budget)}
	}
	if _, _, err := f.Submit(t.Context(), enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}, nil); err != nil {
		t.Fatal(err)
	}
	plans, err := enqueue.Plans(e, f.record())
	if err != nil {
		t.Fatal(err)
	}
	f.plan = plans[0]
	return f
}

func (f *untilFleet) record() record.Evaluation {
	f.t.Helper()
	r, err := f.Store.Evaluation(f.t.Context(), f.asks.ID())
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// judge records the verdicts on pairs from one to before another: the lower candidate wins, or
// the higher.
func (f *untilFleet) judge(from, to int, higher bool) {
	f.t.Helper()
	for i := 2 * from; i < 2*to; i++ {
		asked := f.plan.Run(i)
		first, second := f.asks.Documents[asked.First], f.asks.Documents[asked.Second]
		winner := first
		if (second.Candidate < first.Candidate) != higher {
			winner = second
		}
		run := record.Run{
			Index: i, Kind: eval.KindPairwise, Queue: "p", Winner: winner.ID, Item: f.asks.Items[first.Item].ID, Trial: 1,
			Documents: []string{first.ID, second.ID}, Candidates: []string{first.Candidate, second.Candidate},
			Judge: "p:m", Model: "p:m", AnsweredBy: "p:m", Attempts: 1, Started: time.Now(), Ended: time.Now(),
		}
		if _, err := f.Store.Record(f.t.Context(), f.asks.ID(), eval.StateSucceeded, run, nil); err != nil {
			f.t.Fatal(err)
		}
	}
}

// once collects what is in Redis, and returns why the evaluation has stopped by its results store.
func (f *untilFleet) once() *results.Stop {
	f.t.Helper()
	if _, err := f.Once(f.t.Context(), f.asks.ID()); err != nil {
		f.t.Fatal(err)
	}
	reader, err := results.OpenReadOnly(f.t.Context(), f.sink)
	if err != nil {
		f.t.Fatal(err)
	}
	defer reader.Close()
	stored, err := reader.Evaluation(f.t.Context(), f.asks.ID())
	if err != nil {
		f.t.Fatal(err)
	}
	return stored.Stopped
}

// A process that collects once ends an evaluation whose best candidate is known, and notes why,
// as one that follows does. Calls that end later change neither the reason nor its time.
func TestCollectingOnceEndsWhatIsKnown(t *testing.T) {
	t.Parallel()
	f := newUntilFleet(t, 0)
	f.judge(0, 12, false)
	if why := f.once(); why != nil {
		t.Fatalf("after 12 pairs: %+v, want no end yet", why)
	}
	f.judge(12, 61, false)
	why := f.once()
	if why == nil || why.Known == nil || !cmp.Equal(why.Known.Best, []string{"0"}) || why.Known.Pairs != 61 {
		t.Fatalf("after 61 pairs: %+v, want candidate 0 to be known", why)
	}
	if r := f.record(); r.Status != record.StatusPaused || r.Stopped != record.StoppedByUntil {
		t.Errorf("its record says %s %q, want paused by until", r.Status, r.Stopped)
	}
	if left := f.Store.Client().TTL(t.Context(), f.Store.Keys().Record(f.asks.ID())).Val(); left <= 0 {
		t.Errorf("its record expires in %v, want a time", left)
	}
	f.judge(61, 137, false)
	if later := f.once(); !cmp.Equal(why, later) {
		t.Errorf("after calls in flight have ended: %+v, want %+v still", later, why)
	}
}

// The process that stopped an evaluation died before it had stored why. Another finds what was
// known then, even if calls in flight have made it uncertain since.
func TestReasonOfAStopIsFoundAgain(t *testing.T) {
	t.Parallel()
	f := newUntilFleet(t, 0)
	f.judge(0, 61, false)
	if _, err := f.Enqueuer().Stop(t.Context(), f.asks.ID(), record.StoppedByUntil); err != nil {
		t.Fatal(err)
	}
	f.judge(61, 137, true)
	if why := f.once(); why == nil || why.Known == nil || why.Known.Pairs > 61 || !cmp.Equal(why.Known.Best, []string{"0"}) {
		t.Errorf("it stopped because of %+v, want candidate 0 by at most 61 pairs", why)
	}
}

// A process that collects once notes that a budget, or a paused provider, has stopped an
// evaluation.
func TestCollectingOnceNotesStops(t *testing.T) {
	t.Parallel()
	t.Run("budget", func(t *testing.T) {
		t.Parallel()
		f := newUntilFleet(t, ratelimit.Dollar)
		if _, err := f.Enqueuer().Stop(t.Context(), f.asks.ID(), record.StoppedByBudget); err != nil {
			t.Fatal(err)
		}
		if why := f.once(); why == nil || why.Budget != ratelimit.Dollar {
			t.Errorf("it stopped because of %+v, want its budget", why)
		}
		if left := f.Store.Client().TTL(t.Context(), f.Store.Keys().Record(f.asks.ID())).Val(); left > 0 {
			t.Errorf("its record expires in %v; it may resume any time", left)
		}
	})
	t.Run("provider", func(t *testing.T) {
		t.Parallel()
		f := newUntilFleet(t, 0)
		if _, err := f.Enqueuer().PauseProvider(t.Context(), f.asks.ID(), "p", record.Pause{Class: "auth", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if why := f.once(); why == nil || len(why.Paused) != 1 {
			t.Errorf("it stopped because of %+v, want its paused provider", why)
		}
	})
}
