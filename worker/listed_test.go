package worker

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// listed makes an evaluation one of listed runs alone, each over the same
// instructions and an input of its own, which is its id in capitals.
func listed(ids ...string) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
		e.Judges, e.Pairwise, e.Documents = nil, nil, nil
		e.JSON, e.Grounding, e.Reasoning = eval.JSONFalse, eval.Off, eval.Off
		e.Runs = &eval.Runs{Models: []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}}}
		for i, text := range append([]string{"Do it for $1."}, ids...) {
			text = strings.ToUpper(text)
			texts[eval.TextHash(text)] = text
			e.Runs.Files = append(e.Runs.Files, eval.Document{ID: text + ".md", Hash: eval.TextHash(text), Bytes: len(text)})
			if i > 0 {
				e.Runs.List = append(e.Runs.List, eval.FileRun{ID: ids[i-1], FileB: i})
			}
		}
	}
}

// The answer of a listed run is kept as it came, also one that was cut off. An empty
// one is none: the same is asked again, and then the run has failed.
func TestListedRunsKeepTheirAnswers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{} // by input
	provider := &fakeProvider{answer: func(_ context.Context, _ int, request *providers.Request) (*providers.Result, error) {
		if len(request.Messages) != 1 || request.Schema != nil {
			t.Errorf("asked with %d messages and the schema %v, want the two texts alone", len(request.Messages), request.Schema)
		}
		instructions, input, _ := strings.Cut(request.Messages[0].Content, "\n\n")
		if instructions != "DO IT FOR $1." {
			t.Errorf("the instructions are %q", instructions)
		}
		mu.Lock()
		asked[input]++
		n := asked[input]
		mu.Unlock()
		result := &providers.Result{Text: " as it\r\ncame {x} ", Finish: providers.FinishStop}
		switch {
		case input == "CUT":
			result.Text, result.Finish = "It was to be lon", providers.FinishTruncated
		case input == "NEVER" || input == "LATE" && n == 1:
			result.Text = " \n"
		case input == "FAILS":
			return nil, &providers.Error{Class: providers.BadRequest, Status: 400, Message: "no"}
		}
		return result, nil
	}}
	b := setup(t, provider)
	ids := []string{"plain", "cut", "never", "late", "fails", "do it for $1."}
	b.submit(0, listed(ids...))
	config := b.config()
	events := map[string][]string{}
	config.Observer.Event = func(e observe.Event) {
		if waits := e.QueueDepth > 0 && e.QueueDepth <= len(ids); waits != (e.Event == observe.EventQueueing) {
			t.Errorf("%s of run %s: queue depth %d", e.Event, e.RunID, e.QueueDepth)
		}
		mu.Lock()
		defer mu.Unlock()
		events[e.RunID] = append(events[e.RunID], e.Event)
	}
	stop := b.start(config)
	b.wait()
	stop()
	b.wantEachOnce()

	runs, calls := b.outcomes()
	for _, made := range calls {
		if made.Stage != call.StageAnswer && made.Stage != call.StageRepair {
			t.Errorf("call %s was made for the %s", made.ID, made.Stage)
		}
	}
	for i, want := range []record.Run{
		{State: "succeeded", Answer: " as it\r\ncame {x} ", Finish: "stop", Attempts: 1},
		{State: "succeeded", Answer: "It was to be lon", Finish: "truncated", Attempts: 1},
		{State: "failed", Class: providers.Malformed, Attempts: 3},
		{State: "succeeded", Answer: " as it\r\ncame {x} ", Finish: "stop", Attempts: 2},
		{State: "failed", Class: providers.BadRequest, Attempts: 1},
		{State: "succeeded", Answer: " as it\r\ncame {x} ", Finish: "stop", Attempts: 1}, // no tie of two texts that are the same
	} {
		got := runs[i][0]
		if got.Name != ids[i] || got.State != want.State || got.Answer != want.Answer || got.Finish != want.Finish ||
			got.Class != want.Class || got.Attempts != want.Attempts || got.Winner != "" ||
			len(got.Documents) != 2 || got.Documents[0] != "DO IT FOR $1..md" {
			t.Errorf("run %s is recorded as %+v, want %+v", ids[i], got, want)
		}
		if of := events[ids[i]]; len(of) == 0 || of[0] != observe.EventStarted || of[len(of)-1] != want.State {
			t.Errorf("events of run %s: %v, want started first and %s last", ids[i], of, want.State)
		}
	}

	info, err := asynq.NewInspectorFromRedisClient(store.Universal(b.store)).GetTaskInfo("p", string(b.id)+".0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(info.Result); got != "as it came {x}" {
		t.Errorf("asynq shows %q, want the answer in one line", got)
	}
	if !strings.Contains(string(info.Payload), `"name":"plain"`) {
		t.Errorf("the payload %s does not have the run's own id", info.Payload)
	}
}
