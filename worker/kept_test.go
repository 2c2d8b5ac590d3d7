package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
)

// TestRecordedAgainAfterALoss: Redis forgets everything while no collector has
// taken anything, and the evaluation is submitted again. What was answered, and
// what is in flight, is recorded again and not asked again.
func TestRecordedAgainAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *bench){
		"flushed": func(b *bench) { b.store.Client().FlushAll(context.Background()) },
		"restarted empty": func(b *bench) {
			b.server.Kill()
			b.server.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, &fakeProvider{answer: after(50*time.Millisecond, firstWins)})
			again := func(s *enqueue.Submission) {
				s.Settle = b.settle()
			}
			b.submit(12, atMost(10)) // 132 runs
			defer b.start(b.brief())()
			b.reach(40)
			lose(b)
			b.resubmit(again)
			b.wait()
			b.wantEachOnce()
			if calls, _ := b.provider.count(); calls != b.runs {
				t.Errorf("%d calls for %d runs: recorded runs were made again", calls, b.runs)
			}
		})
	}
}

// TestLostRecordBeginsNoCall: runs that wait for their next attempt when Redis forgets them are
// pushed again, and so must not be begun from here.
func TestLostRecordBeginsNoCall(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const runs = 6
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n <= runs {
			return nil, &providers.Error{Class: providers.Overloaded, Message: "busy", Status: 503}
		}
		return after(3*time.Second, firstWins)(ctx, n, request)
	}})
	b.submit(3, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Retry.InitialDelay, s.Retry.MaxDelay = 3*time.Second, 3*time.Second
	})
	defer b.start(b.brief())()
	b.reach(runs)
	b.store.Client().FlushAll(t.Context())
	b.resubmit(func(s *enqueue.Submission) {
		s.Settle = b.settle()
	})
	b.wait()
	b.wantEachOnce()
	if calls, _ := b.provider.count(); calls != 2*runs {
		t.Errorf("%d calls for %d runs, each of which failed once; want %d", calls, runs, 2*runs)
	}
}

// TestFullRedisCostsNoCall: Redis takes nothing for a while. What was answered
// waits with the worker and is not asked again.
func TestFullRedisCostsNoCall(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(100*time.Millisecond, firstWins)})
	b.submit(12, atMost(8))
	defer b.start(b.brief())()
	b.reach(40)
	memory := func(bytes string) {
		t.Helper()
		if err := b.store.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	memory("1")
	time.Sleep(time.Second) // calls in flight are answered
	memory("0")
	b.wait()
	b.wantEachOnce()
	if calls, _ := b.provider.count(); calls != b.runs {
		t.Errorf("%d calls for %d runs: what was answered was asked again", calls, b.runs)
	}
}

// TestKeptUntilStored: an outcome is kept until the stream shows that a results store has it,
// even if the record is made again.
func TestKeptUntilStored(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3)
	r, err := b.store.Evaluation(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	k := ledger.New(b.store, nil)
	run := record.Run{Index: 1, Kind: eval.KindPairwise, Queue: "p", Winner: "d000.md"}
	done, err := b.store.Put(t.Context(), encoded(t, b.id, run))
	if err != nil {
		t.Fatal(err)
	}
	k.Put(encoded(t, b.id, run), r.Created, done.Entry)
	lost := 0
	look := func(kept int, missing ...eval.ID) {
		t.Helper()
		if err := k.Look(t.Context(), "", nil, func(eval.ID) { lost++ }); err != nil {
			t.Fatal(err)
		}
		if outcomes, _ := k.Kept(); outcomes != kept {
			t.Errorf("%d outcomes are kept, want %d", outcomes, kept)
		}
		if got := k.Lost(); !slices.Equal(got, missing) {
			t.Errorf("the worker misses %v in Redis, want %v", got, missing)
		}
	}
	look(1)
	if runs, _ := b.outcomes(); len(runs[1]) != 1 || lost != 0 {
		t.Errorf("recorded %d times, found lost %d times; want once and never", len(runs[1]), lost)
	}
	b.store.Client().FlushAll(t.Context())
	look(1, b.id)
	b.resubmit()
	look(1)
	if runs, _ := b.outcomes(); len(runs[1]) != 1 || lost != 3 {
		t.Errorf("after a loss: recorded %d times, found lost %d times; want once, and three times: gone, replaced, and recorded again", len(runs[1]), lost)
	}
	b.store.Client().XTrimMaxLen(t.Context(), b.store.Keys().Results(b.id), 0)
	look(0)
	if _, bytes := k.Kept(); bytes != 0 {
		t.Errorf("%d bytes of nothing are kept", bytes)
	}
}

// TestKeptThoughRedisClockWasAhead: Redis's clock was an hour ahead and is corrected. Outcomes
// recorded before and after are kept as long as their entries wait for a results store, and no
// longer.
func TestKeptThoughRedisClockWasAhead(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3)
	r, err := b.store.Evaluation(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	k, stream := ledger.New(b.store, nil), b.store.Keys().Results(b.id)
	put := func(index int) {
		t.Helper()
		outcome := encoded(t, b.id, record.Run{Index: index, Kind: eval.KindPairwise, Queue: "p", Winner: "d000.md"})
		done, err := b.store.Put(t.Context(), outcome)
		if err != nil {
			t.Fatal(err)
		}
		k.Put(outcome, r.Created, done.Entry)
	}
	look := func(kept int) {
		t.Helper()
		if err := k.Look(t.Context(), "", nil, func(eval.ID) {}); err != nil {
			t.Fatal(err)
		}
		if outcomes, _ := k.Kept(); outcomes != kept {
			t.Errorf("%d outcomes are kept, want %d", outcomes, kept)
		}
	}
	drain := func() {
		t.Helper()
		first, err := b.store.Client().XRangeN(t.Context(), stream, "-", "+", 1).Result()
		if err == nil {
			err = b.store.Client().XDel(t.Context(), stream, first[0].ID).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	put(0)
	ahead := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	if err := b.store.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: ahead, Values: []any{"v", "1", "calls", "[]"}}).Err(); err != nil {
		t.Fatal(err)
	}
	put(1)
	put(2)
	look(3)
	drain() // the outcome of before
	look(2)
	drain() // the entry of the clock that was ahead
	look(2)
	drain()
	look(1)
}

// settle returns what the program's submissions wait for after a loss: that the worker has recorded
// again what it knows, so that it holds no run of the lost record any more.
func (b *bench) settle() func(context.Context) error {
	return collect.Settle(b.store, ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}), b.id, zerolog.Nop())
}

// resubmit stores the evaluation that submit stored, once more.
func (b *bench) resubmit(change ...func(*enqueue.Submission)) {
	b.t.Helper()
	s := b.submission
	for _, f := range change {
		f(&s)
	}
	testrun.EventuallyGot(b.t, "the evaluation is submitted again", func() (string, bool) {
		_, err := b.enqueuer().Submit(b.t.Context(), s)
		return fmt.Sprint(err), err == nil
	})
}

// TestPersistWaitsAsLongAsTheWorkerLives: an outage of an hour loses nothing, and
// a stop gives up after the grace.
func TestPersistWaitsAsLongAsTheWorkerLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLife(Config{})
		close(l.watched) // there is no Redis to look at
		back := time.Now().Add(time.Hour)
		write := func(context.Context) error {
			if time.Now().Before(back) {
				return io.EOF
			}
			return nil
		}
		if err := l.ledger.Persist(t.Context(), write); err != nil || time.Now().Before(back) {
			t.Errorf("after an hour: got %v, want it written", err)
		}
		back = time.Now().Add(time.Hour)
		_, leave, _ := l.begin()
		given := make(chan error)
		go func() {
			err := l.ledger.Persist(t.Context(), write)
			leave()
			given <- err
		}()
		began := time.Now()
		go func() { _ = l.end(time.Minute, nil) }()
		if err := <-given; !errors.Is(err, io.EOF) {
			t.Errorf("after a stop: got %v, want what Redis said last", err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+lastWords+2*time.Second {
			t.Errorf("gave up %s after a stop with a grace of a minute", took)
		}
		if _, _, ok := l.begin(); ok {
			t.Error("a handler begins after the end")
		}
	})
}

// TestRunWaitsForItsHandlers: handlers of a fenced session hold outcomes that
// Redis does not take. Nothing of them is left when Run returns. It must not run
// beside other tests: it looks at every goroutine.
func TestRunWaitsForItsHandlers(t *testing.T) {
	testrun.Slow(t)
	killed := make(chan struct{})
	b := setup(t, holdBack(0, killed, 200*time.Millisecond))
	b.submit(6, atMost(4))
	cfg := b.brief()
	cfg.Probe, cfg.Grace = &Probe{}, time.Second
	stop := b.start(cfg)
	defer stop()
	b.reach(4)
	b.server.Kill()
	close(killed)
	testrun.Eventually(t, "the session is fenced", func() bool { return cfg.Probe.Vitals().Sessions >= 2 })
	if !handlersWork(goroutines()) {
		t.Error("no handler has an outcome in hand: the test looks at nothing")
	}
	stop()
	if left := goroutines(); handlersWork(left) {
		t.Errorf("handlers go on after Run:\n%s", left)
	}
}

// handlersWork reports whether one of these goroutines is a handler that is executing a run or writing its result. A
// handler that has only to return, having said that it leaves, may still appear in the dump.
func handlersWork(goroutines string) bool {
	return strings.Contains(goroutines, "(*pull).carryOut(") || strings.Contains(goroutines, "(*Ledger).Persist(")
}

func goroutines() string {
	all := make([]byte, 1<<20)
	return string(all[:runtime.Stack(all, true)])
}

// TestOutageIsSaidOnce: for all the parts of a worker that meet it. On a slow machine there may be
// several outages, each of which begins and ends once.
func TestOutageIsSaidOnce(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(20*time.Millisecond, firstWins)}, "--appendonly", "yes", "--appendfsync", "always")
	b.submit(16, atMost(4))
	cfg := b.brief()
	log := &lines{}
	cfg.Probe, cfg.Log = &Probe{}, zerolog.New(log).Level(zerolog.InfoLevel)
	defer b.start(cfg)()
	b.reach(20)
	b.server.Kill()
	testrun.Eventually(t, "the session is fenced", func() bool { return cfg.Probe.Vitals().Sessions >= 2 })
	time.Sleep(2 * time.Second) // of the second session's life
	b.server.Start()
	b.wait()
	var said, others []string
	for line := range strings.Lines(log.String()) {
		switch {
		case strings.Contains(line, "Redis is unreachable"):
			said = append(said, "away")
		case strings.Contains(line, "Redis answers again"):
			said = append(said, "back")
		case strings.Contains(line, `"level":"info"`), strings.Contains(line, "could not renew leases in time"), strings.Contains(line, "returned the tasks"),
			strings.Contains(line, "the network delay to redis varies"): // a slow machine
		default:
			others = append(others, line)
		}
	}
	right := len(said) > 0 && len(said)%2 == 0
	for i, word := range said {
		right = right && word == []string{"away", "back"}[i%2]
	}
	if !right || len(others) > 0 {
		t.Errorf("said that Redis is %v, want away and back in turn; besides: %q", said, others)
	}
}

// lines is a log.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// TestForeignKeyEndsTheWorker: another program's key in our place is no outage.
func TestForeignKeyEndsTheWorker(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	if err := b.store.Client().Set(t.Context(), b.store.Keys().Active(), "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	err := Run(testrun.Context(t), b.brief())
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), b.store.Keys().Active()) {
		t.Errorf("got %v, want an error that names the key", err)
	}
}

// TestAtOnceGivesCallsUp: they go back to their queue, and Run ends.
func TestAtOnceGivesCallsUp(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(time.Hour, firstWins)})
	b.submit(4, atMost(3))
	atOnce := make(chan struct{})
	cfg := b.config()
	cfg.Grace, cfg.AtOnce = time.Hour, atOnce
	stop := b.start(cfg)
	b.reach(3)
	close(atOnce)
	stop()
	if n := b.store.Client().LLen(t.Context(), "asynq:{p}:active").Val(); n != 0 {
		t.Errorf("%d tasks are still with the worker", n)
	}
	if _, calls := b.outcomes(); len(calls) != 3 {
		t.Errorf("%d calls that were given up are recorded, want 3", len(calls))
	}
}

func encoded(t *testing.T, id eval.ID, run record.Run, calls ...record.Call) store.Outcome {
	t.Helper()
	o, err := store.Encode(id, eval.StateSucceeded, run, calls)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Redis restarts at once from a copy that lacks the last writes: they are recorded again, and not
// asked again.
func TestRecordedAgainAfterAnUnnoticedLoss(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(50*time.Millisecond, firstWins)}, "--appendonly", "yes", "--appendfsync", "always")
	b.submit(12, atMost(10))
	cfg := b.config()
	cfg.Lease = 20 * time.Second // long enough for a slow machine to record before a call starts
	cfg.Client = b.server.Client(func(o *redis.Options) { o.OnConnect = ratelimit.OnConnect("", cfg.Lease) })
	cfg.Log = zerolog.Nop()
	defer b.start(cfg)()
	b.reach(40)
	older := b.server.Copy()
	b.reach(60)
	b.server.Kill()
	if !b.server.Revert(older) {
		t.Fatal("the copy cannot be used")
	}
	b.server.Start()
	b.wait()
	b.wantEachOnce()
	if calls, _ := b.provider.count(); calls > b.runs+10 {
		t.Errorf("%d calls for %d runs: runs that were recorded were made again", calls, b.runs)
	}
}
