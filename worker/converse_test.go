package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// prompts makes an evaluation one of prompts alone: lines of an experiment, each of
// the model of its api.
func prompts(lines ...string) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
		e.Judges, e.Pairwise, e.Documents, e.JSON = nil, nil, nil, eval.JSONFalse
		e.Prompts = &eval.Prompts{Format: eval.PromptsExperiment}
		for i, line := range lines {
			var row struct{ API string }
			_ = json.Unmarshal([]byte(line), &row) // a broken line is asked of p
			provider := "p"
			if row.API != "" {
				provider = row.API
			}
			model := slices.IndexFunc(e.Prompts.Models, func(j eval.Judge) bool { return j.Provider == provider })
			if model < 0 {
				model = len(e.Prompts.Models)
				e.Prompts.Models = append(e.Prompts.Models, eval.Judge{
					Name: provider + ":m", Provider: provider, Model: "m", Overrides: map[string]any{"max_completion_tokens": 7.0, "n": 1.0},
				})
			}
			e.Prompts.Rows = append(e.Prompts.Rows, eval.Document{ID: fmt.Sprintf("line %d", i+1), Hash: eval.TextHash(line), Bytes: len(line)})
			e.Prompts.List = append(e.Prompts.List, eval.Prompt{ID: fmt.Sprintf("r%d", i), Model: model, Row: i})
			texts[eval.TextHash(line)] = line
		}
	}
}

// conversation is a request's messages, one after the other: "user: Hi | assistant: Hello".
func conversation(request *providers.Request) string {
	words := make([]string, len(request.Messages))
	for i, m := range request.Messages {
		words[i] = string(m.Role) + ": " + m.Content
	}
	return strings.Join(words, " | ")
}

// The text of a line arrives unchanged, turn after turn, and answers are kept as they came.
func TestPromptsAreAskedAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const hostile = "$HOME ${x} {INPUT_PROMPT} <file_b_stem> `rm` \x00 \u202eend\r\n"
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	provider := &fakeProvider{answer: func(_ context.Context, _ int, request *providers.Request) (*providers.Result, error) {
		mu.Lock()
		asked = append(asked, conversation(request))
		mu.Unlock()
		if request.MaxOutputTokens != 7 || request.Extra["n"] != 1.0 || request.Schema != nil {
			t.Errorf("asked with %+v, want the model's settings and no schema", request)
		}
		last := request.Messages[len(request.Messages)-1].Content
		result := &providers.Result{Text: "to " + last, Finish: providers.FinishStop}
		switch last {
		case "several":
			result.Others = []string{"second", ""}
		case "cut":
			result.Text, result.Finish = "", providers.FinishTruncated
		case "once":
			if !request.Complete {
				t.Error("the text to be continued was asked as a question")
			}
		}
		return result, nil
	}}
	b := setup(t, provider)
	b.submit(0, prompts(
		`{"prompt": `+string(quoted)+`}`,
		`{"prompt": ["a", "b", "c"]}`,
		`{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "v"}, {"role": "user", "content": "w"}]}`,
		`{"prompt": "several"}`,
		`{"prompt": "cut"}`,
		`{"prompt": "once", "mode": "completion"}`,
		`{"prompt": ["several", "x"]}`,
		`{"prompt": 7}`,
	))
	stop := b.start(b.config())
	b.wait()
	stop()
	b.wantEachOnce()

	slices.Sort(asked)
	want := []string{
		"user: " + hostile, "user: a", "user: a | assistant: to a | user: b",
		"user: a | assistant: to a | user: b | assistant: to b | user: c",
		"system: s | user: u | assistant: v | user: w", "user: several", "user: several", "user: cut", "user: once",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
	runs, calls := b.outcomes()
	if len(calls) != len(want) {
		t.Errorf("%d calls are recorded, want %d", len(calls), len(want))
	}
	for i, want := range []record.Run{
		{State: "succeeded", Answer: "to " + hostile, Finish: "stop", Attempts: 1},
		{State: "succeeded", Answers: []string{"to a", "to b", "to c"}, Finish: "stop", Attempts: 3},
		{State: "succeeded", Answer: "to w", Finish: "stop", Attempts: 1},
		{State: "succeeded", Answers: []string{"to several", "second", ""}, Finish: "stop", Attempts: 1},
		{State: "succeeded", Finish: "truncated", Attempts: 1},
		{State: "succeeded", Answer: "to once", Finish: "stop", Attempts: 1},
		{State: "failed", Class: providers.BadRequest, Attempts: 1},
		{State: "failed", Class: providers.BadRequest},
	} {
		got := runs[i][0]
		if got.Name != fmt.Sprintf("r%d", i) || got.State != want.State || got.Answer != want.Answer || !slices.Equal(got.Answers, want.Answers) ||
			got.Finish != want.Finish || got.Class != want.Class || got.Attempts != want.Attempts || len(got.Documents) != 1 {
			t.Errorf("prompt %d is recorded as %+v, want %+v", i, got, want)
		}
	}
	if err := runs[7][0].Error; !strings.Contains(err, "unknown form") {
		t.Errorf("the prompt that is none failed with %q, which does not say so", err)
	}
}

// TestKilledBetweenTurns kills workers after their first, second, third … Redis command since the first of three turns
// was answered, and lets others continue. The first turn must not be asked again once its answer was stored.
func TestKilledBetweenTurns(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	type life struct {
		*bench
		death  *mortal
		asked  sync.Map // by the number of the turn: *int
		kept   bool
		ending func()
	}
	var all []*life
	for commands := range 8 { // an answer leads to several before it is kept
		k := &life{death: &mortal{left: commands, died: make(chan struct{})}}
		var mu sync.Mutex
		k.bench = setup(t, &fakeProvider{answer: func(_ context.Context, _ int, request *providers.Request) (*providers.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			n, _ := k.asked.LoadOrStore(len(request.Messages)/2, new(int))
			*n.(*int)++
			k.death.arm()
			return &providers.Result{Text: fmt.Sprintf("answer %d", len(request.Messages)/2), Finish: providers.FinishStop}, nil
		}})
		k.submit(0, prompts(`{"prompt": ["a", "b", "c"]}`))
		cfg := k.config()
		cfg.Lease, cfg.Grace, cfg.Log = 4*time.Second, time.Millisecond, zerolog.Nop()
		cfg.Client = k.server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		cfg.Client.AddHook(k.death)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = Run(ctx, cfg) // its report about its end does not matter
		}()
		k.ending = func() { cancel(); <-ended }
		all = append(all, k)
	}
	for i, k := range all {
		select {
		case <-k.death.died:
		case <-testrun.Context(t).Done():
			t.Fatalf("worker %d was not killed", i)
		}
		progress := k.store.Keys().Progress(eval.RunID{Evaluation: k.id})
		k.kept = k.store.Client().HExists(t.Context(), progress, record.ProgressSaid).Val()
		first, second := k.ending, k.start(k.config())
		k.ending = func() { first(); second() }
	}
	kept := 0
	for i, k := range all {
		k.waitFor("every run has ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == k.runs })
		k.ending()
		k.wantEachOnce()
		runs, _ := k.outcomes()
		if want := []string{"answer 0", "answer 1", "answer 2"}; !slices.Equal(runs[0][0].Answers, want) {
			t.Errorf("killed after %d commands: answers %q, want %q", i, runs[0][0].Answers, want)
		}
		n, _ := k.asked.Load(0)
		if times := *n.(*int); times > 2 || k.kept && times > 1 {
			t.Errorf("killed after %d commands: the first turn was asked %d times; its answer was kept: %t", i, times, k.kept)
		}
		if k.kept {
			kept++
		}
	}
	if kept == 0 {
		t.Error("no worker was killed between two turns")
	}
}

// A group's limit holds for every call of its prompts, of all its models together.
func TestGroupsShareTheirLimit(t *testing.T) {
	t.Parallel()
	others := make(chan struct{}) // closed when others wait for the first call
	provider := &fakeProvider{answer: func(ctx context.Context, n int, _ *providers.Request) (*providers.Result, error) {
		if n == 1 {
			select {
			case <-others:
			case <-ctx.Done():
			}
		}
		return &providers.Result{Text: "yes", Finish: providers.FinishStop}, nil
	}}
	b := setup(t, provider)
	lines := make([]string, 8)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"api": %q, "prompt": ["a%d", "b"]}`, []string{"p", "q"}[i%2], i)
	}
	b.submit(0, prompts(lines...), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Groups = []string{"both", "both"}
		s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Group: "both"}, Kind: ratelimit.Concurrency, Max: 1}}
	})
	config := b.config()
	config.Endpoints["q"] = providers.Endpoint{Provider: provider, Key: "k"}
	stop := b.start(config)
	limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	testrun.EventuallyGot(t, "a call waits for the group's limit", func() (string, bool) {
		usage, err := limits.Usage(t.Context())
		return fmt.Sprintf("%+v, %v", usage, err), err == nil && len(usage) == 1 && usage[0].Waiting > 0
	})
	close(others)
	b.wait()
	stop()
	b.wantEachOnce()
	runs, calls := b.outcomes()
	if n, most := provider.count(); n != 16 || most != 1 {
		t.Errorf("%d calls, up to %d in flight, want 16 and 1", n, most)
	}
	bound := 0
	for _, call := range calls {
		if call.BoundBy == "group/both/concurrency" {
			bound++
		}
	}
	if bound == 0 {
		t.Error("no call says that the group's limit held it back")
	}
	for i := range runs {
		if queue := runs[i][0].Queue; queue != "group=both" {
			t.Errorf("run %d went through the queue %q, want that of its group", i, queue)
		}
	}
}

// In the queue of a group whose models are of two providers, a worker that can call
// one of them leaves the runs of the other to others.
func TestGroupsRunsWaitForWhoCanCall(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return &providers.Result{Text: "yes", Finish: providers.FinishStop}, nil
	}}
	b := setup(t, provider)
	b.submit(0, prompts(`{"api": "q", "prompt": "a"}`, `{"api": "p", "prompt": "b"}`), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Groups = []string{"both", "both"}
	})
	config := b.config()
	config.Log = zerolog.Nop()
	stop := b.start(config)
	b.waitFor("the run of p has ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == 1 })
	inspector := asynq.NewInspectorFromRedisClient(store.Universal(b.store))
	testrun.EventuallyGot(t, "the run of q is back in its queue", func() (string, bool) {
		info, err := inspector.GetTaskInfo("group=both", string(b.id)+".0.0.0")
		return fmt.Sprintf("%+v, %v", info, err), err == nil && info.State == asynq.TaskStateRetry && strings.Contains(info.LastErr, "cannot call q:m")
	})
	stop()
	if standing := b.waitFor("it is looked", func(store.Standing) bool { return true }); standing.Total(eval.StateFailed) > 0 {
		t.Error("the run of a provider that the worker cannot call has failed")
	}
	if n, _ := provider.count(); n != 1 {
		t.Errorf("%d calls, want that of p alone", n)
	}
}
