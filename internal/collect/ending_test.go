package collect

import (
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Whether nothing but a paused provider's runs is left is known, too, of a group's
// queue in an evaluation that has a phase which was chosen from results.
func TestOnlyPausedRunsAreLeftOfChosenPhases(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), store.New(redistest.New(t).Client(), "")
	e := &eval.Evaluation{
		Name: "chosen", Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges: []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}, {Name: "q:m", Provider: "q", Model: "m"}},
		Single: &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1},
		Pairwise: &eval.Pairwise{
			Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, TopN: 2,
		},
	}
	texts := map[string]string{}
	for i := range 4 {
		text := fmt.Sprint("text ", i)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("d%d.md", i), Candidate: fmt.Sprint(i), Hash: eval.TextHash(text), Bytes: len(text)})
		texts[eval.TextHash(text)] = text
	}
	e.Normalize()
	const queue = "g" // a group's, for both providers
	both := []string{queue, queue}
	r := record.Evaluation{
		ID: e.ID(), Name: e.Name, Status: record.StatusActive, Created: time.UnixMilli(1767323045000),
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry},
		Phases: []record.Phase{
			{Kind: eval.KindSingle, Runs: 8, Queues: map[string]int{queue: 8}, JudgeQueues: both},
			{Kind: eval.KindPairwise, Runs: 4, Queues: map[string]int{queue: 4}, JudgeQueues: both, Chosen: true, Choice: &plan.Choice{Documents: []int{0, 1}}},
		},
	}
	plans, err := enqueue.Plans(e, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, r, e, texts, nil); err != nil {
		t.Fatal(err)
	}
	end := &ending{store: s, id: r.ID}
	only := func() bool {
		t.Helper()
		standings, err := s.Standings(ctx, []eval.ID{r.ID})
		if err != nil {
			t.Fatal(err)
		}
		standing := standings[r.ID]
		standing.Paused = map[string]record.Pause{"q": {}}
		only, err := end.onlyPaused(ctx, standing)
		if err != nil {
			t.Fatal(err)
		}
		return only
	}
	if only() {
		t.Error("nothing but a paused provider's runs is said to be left before any run has ended")
	}
	for phase, p := range plans {
		for i := range p.Runs() {
			if p.Run(i).Judge == 1 {
				continue
			}
			run := record.Run{Phase: phase, Index: i, Kind: p.Kind(), Queue: queue}
			if _, err := s.Record(ctx, r.ID, eval.StateSucceeded, run, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Client().Del(ctx, s.Keys().Results(r.ID)).Err(); err != nil { // as if collected
		t.Fatal(err)
	}
	if !only() {
		t.Error("with all runs of the other provider ended, more than the paused one's are said to be left")
	}
}
