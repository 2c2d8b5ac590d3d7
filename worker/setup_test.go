package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestMain(m *testing.M) {
	testrun.Parallel(12) // they wait for servers, calls and leases
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

// fakeProvider answers calls in the test's own process and counts them by
// itself.
type fakeProvider struct {
	answer func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error)

	mu             sync.Mutex // guards all below
	calls          int
	cut            int // calls that ended with their lease, as after a pause of the whole process
	inFlight, most int
	byPrompt       map[string]int // by the last message
}

func (f *fakeProvider) Call(ctx context.Context, request *providers.Request) (*providers.Result, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	if f.byPrompt == nil {
		f.byPrompt = map[string]int{}
	}
	f.byPrompt[request.Messages[len(request.Messages)-1].Content]++
	f.mu.Unlock()
	result, err := f.answer(ctx, n, request)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight--
	if err != nil && errors.Is(context.Cause(ctx), ratelimit.ErrLost) {
		f.cut++
	}
	return result, err
}

// count returns how many calls arrived and were not cut off with their lease, which
// are made again, and how many were in flight at most.
func (f *fakeProvider) count() (calls, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls - f.cut, f.most
}

// firstWins is a proper verdict for the first of the two ids in the schema.
func firstWins(_ context.Context, _ int, request *providers.Request) (*providers.Result, error) {
	var schema struct {
		Properties struct {
			Winner struct {
				Enum []string `json:"enum"`
			} `json:"winner_doc_id"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(request.Schema.Schema, &schema); err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error()}
	}
	text, _ := json.Marshal(map[string]string{"winner_doc_id": schema.Properties.Winner.Enum[0], "reason": "it is the first"})
	return &providers.Result{Text: string(text), Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 10, Output: 2}}, nil
}

// after makes an answer take its time.
func after(d time.Duration, answer func(context.Context, int, *providers.Request) (*providers.Result, error)) func(context.Context, int, *providers.Request) (*providers.Result, error) {
	return func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		select {
		case <-time.After(d):
			return answer(ctx, n, request)
		case <-ctx.Done():
			return nil, &providers.Error{Class: providers.ClassOf(ctx.Err()), Message: "given up", Err: ctx.Err(), MayBeBilled: true}
		}
	}
}

// bench is one test's Redis, provider and evaluation.
type bench struct {
	t          *testing.T
	server     *redistest.Server
	store      *store.Store
	provider   *fakeProvider
	id         eval.ID
	runs       int
	submission enqueue.Submission
}

func setup(t *testing.T, provider *fakeProvider, args ...string) *bench {
	t.Helper()
	return setupOn(t, redistest.New(t, args...), provider)
}

// setupOn does what setup does, on a Redis of the test's own.
func setupOn(t *testing.T, server *redistest.Server, provider *fakeProvider) *bench {
	return &bench{t: t, server: server, store: store.New(server.Client(), ""), provider: provider}
}

// submit enqueues n documents, compared in pairs in both orders by one judge.
func (b *bench) submit(n int, change ...func(*eval.Evaluation, map[string]string, *record.Settings)) {
	b.t.Helper()
	e := &eval.Evaluation{
		Name: b.t.Name(), Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for i := range n {
		text := fmt.Sprintf("text %d", i)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("d%03d.md", i), Candidate: fmt.Sprint(i), Hash: eval.TextHash(text), Bytes: len(text)})
		texts[eval.TextHash(text)] = text
	}
	settings := record.Settings{Priority: 1, Retry: record.Retry{MaxAttempts: 3, InitialDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond}}
	for _, f := range change {
		f(e, texts, &settings)
	}
	e.Normalize()
	b.submission = enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}
	receipt, err := b.enqueuer().Submit(b.t.Context(), b.submission)
	if err != nil {
		b.t.Fatal(err)
	}
	b.id, b.runs = receipt.ID, receipt.Runs
}

// config is a worker's whose lease outlasts a pause of the whole process. Tests of
// dead workers and of a Redis that is away set a shorter one.
func (b *bench) config() Config {
	return Config{
		Client:    b.server.Client(),
		Endpoints: map[string]providers.Endpoint{"p": {Provider: b.provider, Key: "k"}},
		Slots:     20, Lease: time.Minute, Grace: time.Minute,
		Log: zerolog.New(zerolog.NewTestWriter(b.t)).Level(zerolog.WarnLevel),
	}
}

// brief is config with a short lease, so that a worker soon counts as dead.
func (b *bench) brief() Config {
	cfg := b.config()
	cfg.Lease, cfg.Grace = 10*time.Second, 15*time.Second
	return cfg
}

// start runs a worker until stop is called, which waits for its end.
func (b *bench) start(cfg Config) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("the worker ended with: %v", err)
		}
	})
}

// wait blocks until every run has ended, and returns the evaluation's progress.
func (b *bench) wait() store.Standing {
	b.t.Helper()
	return b.waitFor("every run has ended", func(s store.Standing) bool {
		return s.Total(eval.StateSucceeded)+s.Total(eval.StateFailed) >= b.runs
	})
}

func (b *bench) waitFor(what string, reached func(store.Standing) bool) store.Standing {
	b.t.Helper()
	var standing store.Standing
	testrun.EventuallyGot(b.t, what, func() (string, bool) {
		standings, err := b.store.Standings(b.t.Context(), []eval.ID{b.id})
		standing = standings[b.id]
		return fmt.Sprintf("%+v, %v; the evaluation is %s in Redis", standing, err, b.id), err == nil && reached(standing)
	})
	return standing
}

// outcomes reads the results stream: the run entries by index, and the calls. A call that both its run and the ledger appended
// counts once, as in a results store, which has one row for each ID.
func (b *bench) outcomes() (runs map[int][]record.Run, calls []record.Call) {
	b.t.Helper()
	messages, err := b.store.Client().XRange(b.t.Context(), b.store.Keys().Results(b.id), "-", "+").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	runs = map[int][]record.Run{}
	known := map[string]bool{}
	for _, m := range messages {
		entry, err := record.DecodeEntry(m.Values)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, call := range entry.Calls {
			if !known[call.ID] {
				known[call.ID] = true
				calls = append(calls, call)
			}
		}
		if entry.Run != nil {
			runs[entry.Run.Index] = append(runs[entry.Run.Index], *entry.Run)
		}
	}
	return runs, calls
}

func (b *bench) wantEachOnce() {
	b.t.Helper()
	runs, _ := b.outcomes()
	for index := range b.runs {
		if len(runs[index]) != 1 {
			b.t.Errorf("run %d has %d outcomes, want 1", index, len(runs[index]))
		}
	}
}
