package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestMain(m *testing.M) {
	testrun.Parallel(6) // they wait for redis-server
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

// pinned remembers which limits were registered.
type pinned struct {
	mu sync.Mutex
	of map[string][]ratelimit.Limit
}

func (p *pinned) Register(_ context.Context, holder string, limits []ratelimit.Limit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[holder] = limits
	return nil
}

func (p *pinned) Unregister(_ context.Context, holder string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, holder)
	return nil
}

func (p *pinned) Close(ctx context.Context, of ratelimit.Scope) error {
	return p.Register(ctx, "closed/"+of.Evaluation+"/"+of.Provider, nil)
}

func (p *pinned) Closures(_ context.Context, evaluation string) (closures []ratelimit.Closure, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for holder := range p.of {
		if provider, ok := strings.CutPrefix(holder, "closed/"+evaluation+"/"); ok {
			closures = append(closures, ratelimit.Closure{Scope: ratelimit.Scope{Evaluation: evaluation, Provider: provider}})
		}
	}
	return closures, nil
}

func (p *pinned) Open(ctx context.Context, closures ...ratelimit.Closure) error {
	for _, c := range closures {
		if err := p.Unregister(ctx, "closed/"+c.Evaluation+"/"+c.Provider); err != nil {
			return err
		}
	}
	return nil
}

func (p *pinned) AssertBackground(context.Context, string, ratelimit.Background, time.Duration) error {
	return nil
}
func (p *pinned) ForgetSpent(context.Context, string) (bool, error) { return true, nil }

// closed reports whether an evaluation is, or a provider for it.
func (p *pinned) closed(evaluation, provider string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.of["closed/"+evaluation+"/"+provider]
	return ok
}

// bench is one test's Redis with what works on it.
type bench struct {
	t      *testing.T
	server *redistest.Server
	store  *store.Store
	limits *pinned
}

func setup(t *testing.T) *bench {
	t.Helper()
	server := redistest.New(t)
	return &bench{t: t, server: server, store: store.New(server.Client(), ""), limits: &pinned{of: map[string][]ratelimit.Limit{}}}
}

func (b *bench) enqueuer(s *store.Store) *Enqueuer {
	return &Enqueuer{Store: s, Limits: b.limits, Log: zerolog.New(zerolog.NewTestWriter(b.t))}
}

func (b *bench) topUp(s *store.Store) *TopUp {
	return NewTopUp(s, b.limits, zerolog.New(zerolog.NewTestWriter(b.t)))
}

// submission compares n documents in pairs, both orders, by one judge: n·(n−1)
// runs in the queue of the provider "p".
func submission(name string, n int) Submission {
	e := &eval.Evaluation{
		Name: name, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for i := range n {
		text := fmt.Sprintf("text %d of %s", i, name)
		hash := eval.TextHash(text)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("d%03d.md", i), Candidate: fmt.Sprint(i), Hash: hash, Bytes: len(text)})
		texts[hash] = text
	}
	e.Normalize()
	return Submission{Evaluation: e, Texts: texts, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry}}
}

func (b *bench) submit(s Submission) Receipt {
	b.t.Helper()
	receipt, err := b.enqueuer(b.store).Submit(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return receipt
}

// pull takes up to n pending tasks of a queue the way workers do, records each, and returns the
// tasks that were not dropped. Like a worker's, tasks that are pulled at once share scripts.
func (b *bench) pull(queue string, n int) []record.Task {
	b.t.Helper()
	ctx, client := b.t.Context(), store.Universal(b.store)
	ids, err := client.RPopCount(ctx, "asynq:{"+queue+"}:pending", n).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		b.t.Fatal(err)
	}
	if len(ids) == 0 {
		return nil
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	tasks, keys := make([]record.Task, len(ids)), make([]string, len(ids))
	dropped := make([]bool, len(ids))
	var workers errgroup.Group
	workers.SetLimit(64)
	for i, id := range ids {
		keys[i] = "asynq:{" + queue + "}:t:" + id
		workers.Go(func() error {
			info, err := inspector.GetTaskInfo(queue, id)
			if err != nil {
				return err
			}
			task, err := record.DecodeTask(info.Payload)
			if err != nil {
				return err
			}
			checked, err := b.store.Check(ctx, task)
			if err != nil {
				return err
			}
			tasks[i] = task
			if dropped[i] = checked.Verdict != store.VerdictRun; dropped[i] {
				return nil
			}
			run := record.Run{Phase: task.Phase, Index: task.Index, Generation: task.Generation, Kind: task.Kind, Queue: queue}
			_, err = b.store.Record(ctx, task.Evaluation, eval.StateSucceeded, run, nil)
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		b.t.Fatal(err)
	}
	if err := client.Del(ctx, keys...).Err(); err != nil {
		b.t.Fatal(err)
	}
	var done []record.Task
	for i, task := range tasks {
		if !dropped[i] {
			done = append(done, task)
		}
	}
	return done
}

func (b *bench) standing(id eval.ID) store.Standing {
	b.t.Helper()
	standings, err := b.store.Standings(b.t.Context(), []eval.ID{id})
	if err != nil {
		b.t.Fatal(err)
	}
	return standings[id]
}

func TestSubmitPushesReadableTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("readable", 3)
	s.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 4}}
	receipt := b.submit(s)
	want := Receipt{ID: s.Evaluation.ID(), Created: true, Runs: 6, Queues: []string{"p"}}
	if diff := cmp.Diff(want, receipt); diff != "" {
		t.Fatalf("receipt (-want +got):\n%s", diff)
	}
	if len(b.limits.of[string(receipt.ID)]) != 1 {
		t.Errorf("limits pinned: %v", b.limits.of)
	}
	tasks, err := asynq.NewInspectorFromRedisClient(store.Universal(b.store)).ListPendingTasks("p")
	if err != nil || len(tasks) != 6 {
		t.Fatalf("%d pending tasks, %v; want 6", len(tasks), err)
	}
	first := tasks[0]
	if first.Type != "pairwise" || first.ID != string(receipt.ID)+".0.0.0" {
		t.Errorf("first task is %s of type %s", first.ID, first.Type)
	}
	wantPayload := fmt.Sprintf(`{"v":1,"evaluation":"%s","phase":0,"index":0,"generation":0,"kind":"pairwise","model":"p:m","documents":["d000.md","d001.md"]}`, receipt.ID)
	if string(first.Payload) != wantPayload {
		t.Errorf("payload\n got %s\nwant %s", first.Payload, wantPayload)
	}
	if again := b.submit(s); again.Created {
		t.Error("the same submission was created twice")
	}
	if tasks, err := asynq.NewInspectorFromRedisClient(store.Universal(b.store)).ListPendingTasks("p"); err != nil || len(tasks) != 6 {
		t.Errorf("%d pending tasks after the second submission, %v; want 6", len(tasks), err)
	}
}

// The log contains the limits that an evaluation began with.
func TestLimitsAreLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	q := b.enqueuer(b.store)
	q.Log = zerolog.New(&log).Level(zerolog.InfoLevel)
	s := submission("logged", 2)
	s.Settings.Hold = true
	s.Settings.Limits = []ratelimit.Limit{
		{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Tokens, Max: 9000, Period: time.Minute},
		{Scope: ratelimit.Scope{Provider: "p", Model: "m"}, Kind: ratelimit.Requests, Max: 50, Resets: "Asia/Tokyo"},
	}
	if _, err := q.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("the log is %q: %v", log.String(), err)
	}
	want := map[string]any{
		"level": "info", "message": "limits are in force", "evaluation": string(s.Evaluation.ID()), "abandoned_calls": "hold",
		"limits": []any{"provider p: 9,000 tokens/min", "model p:m: 50 requests per day (Asia/Tokyo)"},
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestRecordedRunsAreNotPushed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("recorded", 3)
	s.Recorded = func(yield func(Recorded, error) bool) {
		_ = yield(Recorded{Index: 0, State: eval.StateSucceeded}, nil) && yield(Recorded{Index: 4, State: eval.StateFailed}, nil)
	}
	id := b.submit(s).ID
	var indexes []int
	for _, task := range b.pull("p", 100) {
		indexes = append(indexes, task.Index)
	}
	slices.Sort(indexes)
	if diff := cmp.Diff([]int{1, 2, 3, 5}, indexes); diff != "" {
		t.Errorf("runs carried out (-want +got):\n%s", diff)
	}
	if err := b.topUp(b.store).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.standing(id); got.Status != record.StatusDone {
		t.Errorf("status %s, counts %v; want done", got.Status, got.Counts)
	}
	if len(b.limits.of) != 0 {
		t.Errorf("limits still pinned after the end: %v", b.limits.of)
	}
}

func TestLimitKeepsTheFirstRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("limited", 4)
	s.Evaluation.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
	s.Settings.Limit = 6
	receipt := b.submit(s)
	if receipt.Runs != 6 {
		t.Fatalf("%d runs planned, want 6", receipt.Runs)
	}
	perPhase := map[int]int{}
	for _, task := range b.pull("p", 100) {
		perPhase[task.Phase]++
	}
	if diff := cmp.Diff(map[int]int{0: 4, 1: 2}, perPhase); diff != "" {
		t.Errorf("runs by phase (-want +got):\n%s", diff)
	}
}

func TestOtherSettingsTakeEffectWhenNotActive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("settings", 4) // 12 runs
	s.Settings.Limit = 5
	id := b.submit(s).ID

	s.Settings.Limit = 0
	votes := eval.EncodeVotes([]eval.Vote{{Annotator: "anna", First: "d000.md", Second: "d001.md", Winner: eval.Tie}})
	s.Settings.Votes = eval.TextHash(votes)
	s.Texts[s.Settings.Votes] = votes
	receipt := b.submit(s)
	if receipt.Created || !receipt.Kept || receipt.Runs != 5 {
		t.Fatalf("while active: %+v; want the settings in force kept, and 5 runs", receipt)
	}
	first := b.pull("p", 100)
	if err := b.topUp(b.store).Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := b.store.Evaluation(t.Context(), id)
	if err != nil || r.Status != record.StatusDone {
		t.Fatalf("status %s, %v; want done", r.Status, err)
	}
	if err := b.store.Expire(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	receipt = b.submit(s)
	if receipt.Created || receipt.Kept || receipt.Runs != 12 {
		t.Fatalf("when done: %+v; want all 12 runs", receipt)
	}
	if texts, err := b.store.Documents(t.Context(), id, s.Settings.Votes); err != nil || texts[s.Settings.Votes] != votes {
		t.Errorf("votes that came with the settings: got %q, %v", texts, err)
	}
	times := map[int]int{}
	for _, task := range append(first, b.pull("p", 100)...) {
		times[task.Index]++
	}
	wantEachOnce(t, times, 12)
	for _, key := range b.store.Client().Keys(t.Context(), "ef:{"+string(id)+"}:*").Val() {
		if ttl := b.store.Client().TTL(t.Context(), key).Val(); ttl > 0 {
			t.Errorf("%s of a reopened evaluation expires in %s", key, ttl)
		}
	}
}

func TestJudgeQueues(t *testing.T) {
	t.Parallel()
	models := []eval.Judge{{Provider: "p", Model: "fast"}, {Provider: "p", Model: "slow/v1"}, {Provider: "q", Model: "m"}}
	e := &eval.Evaluation{Judges: models, Prompts: &eval.Prompts{Models: models}}
	provider := func(name, model string, n int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: ratelimit.Scope{Provider: name, Model: model}, Kind: ratelimit.Concurrency, Max: n}
	}
	group := func(name string, kind ratelimit.Kind, n int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: ratelimit.Scope{Group: name}, Kind: kind, Max: n}
	}
	own := func(n int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: ratelimit.Scope{Evaluation: "ev-x"}, Kind: ratelimit.Concurrency, Max: n}
	}
	for _, tt := range []struct {
		name   string
		limits []ratelimit.Limit
		groups []string
		want   string
	}{
		{"no limits", nil, nil, "p p q"},
		{"a model of its own", []ratelimit.Limit{provider("p", "slow/v1", 2)}, nil, "p p:slow~2fv1 q"},
		{"tighter than every provider", []ratelimit.Limit{provider("p", "", 8), own(2)}, nil, "p~ev-x p~ev-x q~ev-x"},
		{"not tighter than p", []ratelimit.Limit{provider("p", "", 8), own(8)}, nil, "p p q~ev-x"},
		{"a group of two providers", []ratelimit.Limit{group("a", ratelimit.Requests, 5)}, []string{"", "a", "a"}, "p group=a group=a"},
		{"a group's model of its own", []ratelimit.Limit{provider("p", "slow/v1", 2)}, []string{"", "a/b", ""}, "p group=a~2fb q"},
		{"tighter than one group of two", []ratelimit.Limit{group("a", ratelimit.Concurrency, 2), group("b", ratelimit.Concurrency, 9), own(3)}, []string{"a", "b", ""}, "group=a group=b~ev-x q~ev-x"},
	} {
		settings := record.Settings{Limits: tt.limits, Groups: tt.groups}
		if got := strings.Join(JudgeQueues("ev-x", e, eval.KindPrompts, settings), " "); got != tt.want {
			t.Errorf("%s: queues %q, want %q", tt.name, got, tt.want)
		}
		settings.Groups = nil
		of := strings.Join(JudgeQueues("ev-x", e, eval.KindPrompts, settings), " ")
		settings.Groups = tt.groups
		if got := strings.Join(JudgeQueues("ev-x", e, eval.KindSingle, settings), " "); got != of {
			t.Errorf("%s: judges have the queues %q of the groups of prompts, want %q", tt.name, got, of)
		}
	}
}
