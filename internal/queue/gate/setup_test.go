package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestMain(m *testing.M) {
	handOverWithin, callTimeout = time.Hour, time.Hour
	testrun.Parallel(8) // they wait for redis-server and for asynq
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.Dialler))
}

const queueName = "openai"

// fleet is one Redis, and what tests push to it and look at it with.
type fleet struct {
	t         testing.TB
	redis     redis.UniversalClient
	tasks     *asynq.Client
	inspector *asynq.Inspector
}

func newFleet(t testing.TB, client redis.UniversalClient) *fleet {
	return &fleet{t, client, asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)}
}

// onBoth runs a test on a real Redis and on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newFleet(t, redistest.New(t).Client()))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(redistest.Patient(&redis.Options{Addr: miniredis.RunT(t).Addr()}))
		t.Cleanup(func() { _ = client.Close() })
		test(t, newFleet(t, client))
	})
}

// push enqueues tasks with ids t1, t2, ... of a type "run".
func (f *fleet) push(n int, options ...asynq.Option) {
	f.t.Helper()
	f.pushTo(queueName, n, options...)
}

func (f *fleet) pushTo(queue string, n int, options ...asynq.Option) {
	f.t.Helper()
	for i := range n {
		task := asynq.NewTask("run", nil, append([]asynq.Option{
			asynq.TaskID(fmt.Sprintf("t%d", i+1)), asynq.Queue(queue), asynq.Timeout(time.Hour), asynq.MaxRetry(100),
		}, options...)...)
		if _, err := f.tasks.Enqueue(task); err != nil {
			f.t.Fatalf("push t%d: %v", i+1, err)
		}
	}
}

// pending are the ids in pending, the next to be pulled first.
func (f *fleet) pending() []string {
	f.t.Helper()
	ids := f.list(keysOf(queueName).pending)
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids
}

// active are the ids in active, the latest pulled first.
func (f *fleet) active() []string {
	f.t.Helper()
	return f.list(keysOf(queueName).active)
}

func (f *fleet) list(key string) []string {
	f.t.Helper()
	ids, err := f.redis.LRange(context.Background(), key, 0, -1).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return ids
}

// task is a task's hash without its message.
func (f *fleet) task(id string) map[string]string {
	f.t.Helper()
	fields, err := f.redis.HGetAll(context.Background(), keysOf(queueName).task+id).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	delete(fields, "msg")
	return fields
}

// state is asynq's word for where a task is; "gone" when it is nowhere.
func (f *fleet) state(id string) string {
	f.t.Helper()
	info, err := f.inspector.GetTaskInfo(queueName, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return "gone"
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return info.State.String()
}

// eventually waits until true answers true.
func (f *fleet) eventually(what string, true func() bool) {
	f.t.Helper()
	testrun.Eventually(f.t, what, true)
}

// slots are permits like a worker's: so many at once, whatever the queue.
type slots struct {
	free *semaphore.Weighted
	n    int
}

func newSlots(n int) *slots { return &slots{semaphore.NewWeighted(int64(n)), n} }

func (s *slots) Reserve(ctx context.Context, _ string, limit int) (int, error) {
	if err := s.free.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	n := 1
	for n < limit && s.free.TryAcquire(1) {
		n++
	}
	return n, nil
}

func (s *slots) Cancel(_ string, n int) { s.free.Release(int64(n)) }

// allFree says that every permit was given back.
func (s *slots) allFree() bool {
	if !s.free.TryAcquire(int64(s.n)) {
		return false
	}
	s.free.Release(int64(s.n))
	return true
}

// perQueue are permits that give one queue none.
type perQueue struct {
	*slots
	none string
}

func (p perQueue) Reserve(ctx context.Context, queue string, limit int) (int, error) {
	if queue == p.none {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return p.slots.Reserve(ctx, queue, limit)
}

// worker is an asynq server behind a gate.
type worker struct {
	gate   *Gate
	slots  *slots
	server *asynq.Server
	log    *lines // asynq's warnings and errors
}

type workerOptions struct {
	client          redis.UniversalClient // default: the fleet's
	wrap            func(redis.UniversalClient) redis.UniversalClient
	pulled          func(queue string, taken int, left int64)
	log             zerolog.Logger
	shutdownTimeout time.Duration
	patient         bool // as patient says
	prefix          string
}

// work starts a worker with so many slots, and ends it with the test.
func (f *fleet) work(owner string, n int, handle asynq.HandlerFunc, options workerOptions) *worker {
	f.t.Helper()
	if options.client == nil {
		options.client = f.redis
	}
	if options.wrap == nil {
		options.wrap = func(c redis.UniversalClient) redis.UniversalClient { return c }
	}
	w := &worker{slots: newSlots(n), log: &lines{}}
	w.gate = New(options.client, Config{Owner: owner, Permits: w.slots, Prefix: options.prefix, Pulled: options.pulled, Log: options.log})
	w.gate.Serve(queueName)
	if options.patient {
		patient(w.gate)
	}
	w.server = asynq.NewServerFromRedisClient(options.wrap(w.gate.Client()), asynq.Config{
		Concurrency:              n,
		Queues:                   map[string]int{Served: 1},
		TaskCheckInterval:        CheckInterval,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout:          options.shutdownTimeout,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return time.Hour },
		Logger:                   w.log,
		LogLevel:                 asynq.WarnLevel,
	})
	if err := w.server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		defer w.slots.Cancel("", 1)
		return handle(ctx, t)
	})); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(w.end)
	return w
}

func (w *worker) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_ = w.gate.Stop(ctx)
	w.server.Shutdown()
}

// patient makes a gate that no timer helps within a test.
func patient(g *Gate) *Gate {
	g.maxWait, g.fallback = time.Hour, time.Hour
	return g
}

// by is a gate whose pulls a test makes itself, with permits for all. A pull waits until there is a task.
func (f *fleet) by(owner string, batch int) (*Gate, *slots) {
	permits := newSlots(10_000)
	g := New(f.redis, Config{Owner: owner, Batch: batch, Permits: permits, Log: zerolog.Nop()})
	g.maxWait = time.Hour
	g.Serve(queueName)
	f.t.Cleanup(func() { _ = g.Stop(context.Background()) })
	return g, permits
}

// pullBy makes asynq's call for the next task, and says whether there was one.
func (f *fleet) pullBy(g *Gate) bool {
	f.t.Helper()
	k := keysOf(queueName)
	err := g.Client().EvalSha(context.Background(), "any", []string{k.pending, k.paused, k.active, k.lease}, 1, k.task).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		f.t.Fatal(err)
	}
	return err == nil
}

// lines collects asynq's log.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) add(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprint(args...))
}

// except are the lines without those that contain a text.
func (l *lines) except(texts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []string
next:
	for _, line := range l.list {
		for _, text := range texts {
			if strings.Contains(line, text) {
				continue next
			}
		}
		rest = append(rest, line)
	}
	return rest
}

func (*lines) Debug(...any)        {}
func (*lines) Info(...any)         {}
func (l *lines) Warn(args ...any)  { l.add(args...) }
func (l *lines) Error(args ...any) { l.add(args...) }
func (l *lines) Fatal(args ...any) { l.add(args...) }

// observed shows every script call that passes through it.
type observed struct {
	redis.UniversalClient
	see func(script string, keys []string, cmd *redis.Cmd)
}

func (o observed) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := o.UniversalClient.EvalSha(ctx, sha, keys, args...)
	o.see(sha, keys, cmd)
	return cmd
}

func (o observed) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	cmd := o.UniversalClient.Eval(ctx, source, keys, args...)
	o.see(redis.NewScript(source).Hash(), keys, cmd)
	return cmd
}

// wire is a hook that shows every command as it is sent, pipelined or not.
type wire struct {
	see func(redis.Cmder)
}

func (wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.see(cmd)
		return next(ctx, cmd)
	}
}

func (w wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			w.see(cmd)
		}
		return next(ctx, cmds)
	}
}

// ids says how often each task was seen.
type ids struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *ids) add(ctx context.Context) {
	id, _ := asynq.GetTaskID(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	s.seen[id]++
}

// distinct is how many tasks were seen, and most how often one of them was.
func (s *ids) distinct() (n, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.seen {
		most = max(most, times)
	}
	return len(s.seen), most
}

// all says when n tasks were seen and no more are pending or active.
func (s *ids) all(f *fleet, n int) func() bool {
	return func() bool {
		seen, _ := s.distinct()
		return seen == n && len(f.pending()) == 0 && len(f.active()) == 0
	}
}

// text collects the gate's log.
type text struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) logger() zerolog.Logger { return zerolog.New(l) }

func (l *text) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.buf.String()), "\n")
}
