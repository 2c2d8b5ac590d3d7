package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

var openai = Scope{Provider: "openai", Model: "gpt-5", Evaluation: "ev-a"}

func upTo(d time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(rand.Int64N(int64(d))) }
}

func exactly(d time.Duration) func() time.Duration {
	return func() time.Duration { return d }
}

func TestNeverOver(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		const most = 7
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, most))
		seen := &provider{most: most}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var groups []*sync.WaitGroup
		for i := range 4 {
			p := start(t, connect(), "w"+strconv.Itoa(i))
			groups = append(groups, load(ctx, t, p, 20, openai, upTo(40*time.Millisecond), seen))
		}
		<-time.After(1500 * time.Millisecond)
		testrun.Eventually(t, "every slot is in use", func() bool { return seen.reached(most) }) // a loaded machine takes longer
		cancel()
		for _, g := range groups {
			g.Wait()
		}
		seen.verify(t)
		if seen.peak != most {
			t.Errorf("peak in flight = %d, want %d: slots lay idle", seen.peak, most)
		}
		t.Logf("%d calls, %.1f %% of the slots used", seen.calls,
			100*seen.busy.Seconds()/(most*time.Since(began).Seconds()))
		idle(t, client)
	})
}

// idle checks that no lease is held and no call waits.
func idle(t testing.TB, client *redis.Client) {
	t.Helper()
	testrun.Eventually(t, "no slot held, no worker waiting", func() bool {
		usage, err := tools(client).Usage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range usage {
			if u.InUse != 0 || u.Waiting != 0 {
				return false
			}
		}
		return true
	})
}

func TestSaturatedFleetUsesAllSlotsWithoutPolling(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		connect, sentBy := counted(connect)
		client := connect()
		const most, hold = 16, 100 * time.Millisecond
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, most))
		var processes []*process
		for i := range 4 {
			processes = append(processes, start(t, connect(), "w"+strconv.Itoa(i)))
		}
		for _, p := range processes {
			mustRelease(t, mustAcquire(t, p, newID(), openai))
		}
		before := sentBy.scripts.Load()
		seen := &provider{most: most}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		var groups []*sync.WaitGroup
		for _, p := range processes {
			groups = append(groups, load(ctx, t, p, 50, openai, exactly(hold), seen))
		}
		<-ctx.Done()
		saturated := time.Since(began)
		seen.mu.Lock()
		calls, busy := seen.calls, seen.busy
		seen.mu.Unlock()
		sent := sentBy.scripts.Load() - before
		for _, g := range groups {
			g.Wait()
		}
		seen.verify(t)
		perCall := float64(sent) / float64(calls)
		t.Logf("%d calls of %s, %.1f %% of %d slots used, %.2f scripts a call",
			calls, hold, 100*busy.Seconds()/(most*saturated.Seconds()), most, perCall)
		if perCall > 2 {
			t.Errorf("%.2f scripts a call, want at most 2", perCall)
		}
	})
}

// tally is a go-redis hook that counts scripts.
type tally struct{ scripts atomic.Int64 }

// counted connects as connect does; n counts the scripts of all its clients.
func counted(connect func() *redis.Client) (counting func() *redis.Client, n *tally) {
	n = &tally{}
	return func() *redis.Client {
		client := connect()
		client.AddHook(n)
		return client
	}, n
}

func (n *tally) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *tally) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			n.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (n *tally) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAllLimitsOrNone(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 4), inFlight(Scope{Provider: "openai", Model: "gpt-5"}, 1))
		p := start(t, client, "w")
		first := mustAcquire(t, p, "first", openai)
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error)
		go func() {
			_, err := p.Acquire(ctx, Request{ID: "second", Call: openai})
			refused <- err
		}()
		want := map[string]int{"provider/openai/concurrency": 1, "provider/openai/model/gpt-5/concurrency": 1}
		testrun.Eventually(t, "the second call waits for the model only", func() bool {
			usage, err := tools(p.client).Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range usage {
				if u.InUse != want[u.Limit.ID()] {
					t.Fatalf("%s: %d in use, want %d", u.Limit.ID(), u.InUse, want[u.Limit.ID()])
				}
			}
			return usage[0].Waiting == 0 && usage[1].Waiting == 1
		})
		if n := p.Waiting(); n != 1 {
			t.Errorf("Waiting() = %d, want 1", n)
		}
		cancel()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire with a cancelled context = %v, want %v", err, context.Canceled)
		}
		mustRelease(t, first)
		idle(t, client)
	})
}

func TestWaitingCallIsWokenByReleaseAndSaysWhatBoundIt(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 1))
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		held := mustAcquire(t, a, "held", openai)
		if held.BoundBy() != "" {
			t.Errorf("BoundBy of the first = %q, want none", held.BoundBy())
		}
		got := make(chan *Lease)
		go func() { got <- mustAcquire(t, b, "waits", openai) }()
		testrun.Eventually(t, "b waits", func() bool { return waiting(t, a.Limiter) == 1 })
		mustRelease(t, held)
		lease := <-got
		if lease.BoundBy() != "fleet/concurrency" {
			t.Errorf("lease bound by %q, want fleet/concurrency", lease.BoundBy())
		}
		mustRelease(t, lease)
	})
}

// A process whose last waiting call was admitted stays in the line for a moment,
// so that its next call need not ask; called meanwhile, it lets others by.
func TestNextCallTakesThePlaceKeptForIt(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		connect, sentBy := counted(connect)
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		a := start(t, connect(), "a")
		held := mustAcquire(t, a, "a1", openai)
		admit := func(id string) chan *Lease {
			got := make(chan *Lease, 1)
			go func() { got <- mustAcquire(t, a, id, openai) }()
			return got
		}
		second := admit("a2")
		testrun.Eventually(t, "a waits", func() bool { return waiting(t, a.Limiter) == 1 })
		before := sentBy.scripts.Load()
		mustRelease(t, held)
		held = <-second
		third := admit("a3")
		testrun.Eventually(t, "a3 waits", func() bool { return a.Waiting() == 1 })
		time.Sleep(2 * linger)
		if sent := sentBy.scripts.Load() - before; sent != 1 {
			t.Errorf("%d scripts for a release, a grant and a call that waits, want 1", sent)
		}
		mustRelease(t, held)
		mustRelease(t, <-third)
		testrun.Eventually(t, "a has left the line", func() bool { return waiting(t, a.Limiter) == 0 })

		b := start(t, connect(), "b")
		held = mustAcquire(t, a, "a4", openai)
		second = admit("a5")
		testrun.Eventually(t, "a waits", func() bool { return waiting(t, a.Limiter) == 1 })
		mustRelease(t, held)
		held = <-second // a stays in the line and is not there to take a turn
		theirs := make(chan *Lease, 1)
		go func() { theirs <- mustAcquire(t, b, "b1", openai) }()
		testrun.Eventually(t, "b waits", func() bool { return b.Waiting() == 1 })
		mustRelease(t, held)
		mustRelease(t, <-theirs)
		idle(t, client)
	})
}

// A place is not kept in a line before a limit that has room.
func TestNextCallDoesNotWaitForAFreeSlot(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{}, 2))
		a := start(t, connect(), "a")
		first, second := mustAcquire(t, a, "a1", openai), mustAcquire(t, a, "a2", openai)
		got := make(chan *Lease, 1)
		go func() { got <- mustAcquire(t, a, "a3", openai) }()
		testrun.Eventually(t, "a waits", func() bool { return waiting(t, a.Limiter) == 1 })
		first.abandon() // in one script with
		second.abandon()
		third := <-got
		asked := time.Now()
		lease := mustAcquire(t, a, "a4", openai)
		if waited := time.Since(asked); exact(t) && waited > patience/2 {
			t.Errorf("a call waited %s while a slot was free", waited)
		}
		mustRelease(t, lease)
		mustRelease(t, third)
	})
}

// waiting is the number of workers in wait queues.
func waiting(t testing.TB, l *Limiter) int {
	t.Helper()
	usage, err := tools(l.client).Usage(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, u := range usage {
		n += u.Waiting
	}
	return n
}

func TestTwoEvaluationsWithDifferentCapsOnOneAccount(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 8))
		register(t, client, "ev-a", inFlight(Scope{Evaluation: "ev-a"}, 2))
		account, capped, free := &provider{most: 8}, &provider{most: 2}, &provider{most: 8}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		hold := exactly(50 * time.Millisecond)
		var groups []*sync.WaitGroup
		for i := range 4 {
			p := start(t, connect(), "w"+strconv.Itoa(i))
			groups = append(groups,
				load(ctx, t, p, 10, Scope{Provider: "openai", Evaluation: "ev-a"}, hold, account, capped),
				load(ctx, t, p, 10, Scope{Provider: "openai", Evaluation: "ev-b"}, hold, account, free))
		}
		testrun.Eventually(t, "both go on", func() bool { return capped.made(50) && free.made(150) })
		cancel()
		for _, g := range groups {
			g.Wait()
		}
		account.verify(t)
		capped.verify(t)
		took := time.Since(began).Seconds()
		t.Logf("account %.1f %% of 8, capped evaluation %.1f %% of its 2, the other %.1f %% of 6",
			100*account.busy.Seconds()/(8*took), 100*capped.busy.Seconds()/(2*took), 100*free.busy.Seconds()/(6*took))
	})
}

func TestNarrowEvaluationHoldsUpNobody(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{Provider: "openai"}, 8))
		register(t, client, "ev-a", inFlight(Scope{Evaluation: "ev-a"}, 1))
		p := start(t, client, "w")
		narrow := Scope{Provider: "openai", Evaluation: "ev-a"}
		held := mustAcquire(t, p, "narrow", narrow)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() { _, _ = p.Acquire(ctx, Request{ID: fmt.Sprintf("narrow-%d", i), Call: narrow}) })
		}
		testrun.Eventually(t, "the narrow calls wait", func() bool { return p.Waiting() == 100 && waiting(t, p.Limiter) == 1 })
		for range 7 {
			mustAcquire(t, p, newID(), Scope{Provider: "openai", Evaluation: "ev-b"})
		}
		mustRelease(t, held)
		cancel()
		group.Wait()
	})
}

func TestEveryWaitingProcessGetsItsTurn(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	server := redistest.New(t)
	register(t, server.Client(), "fleet", inFlight(Scope{}, 2))
	seen := make([]*provider, 5)
	var processes []*process
	for i := range seen {
		seen[i] = &provider{most: 2}
		processes = append(processes, start(t, server.Client(), "w"+strconv.Itoa(i)))
	}
	for _, p := range processes { // the first of a Redis is slow to begin
		mustRelease(t, mustAcquire(t, p, newID(), openai))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := &provider{most: 2}
	var groups []*sync.WaitGroup
	for i, p := range processes {
		groups = append(groups, load(ctx, t, p, 10, openai, exactly(20*time.Millisecond), seen[i], all))
	}
	made := func() (of []int64) {
		for _, p := range seen {
			p.mu.Lock()
			of = append(of, p.calls)
			p.mu.Unlock()
		}
		return of
	}
	// On a busy machine one of them may begin a second after the others.
	testrun.Eventually(t, "all have begun", func() bool { return slices.Min(made()) > 0 })
	before := made()
	testrun.EventuallyGot(t, "every process makes its share of 300 calls", func() (string, bool) {
		after, calls, sum := made(), make([]int64, len(processes)), int64(0)
		for i := range after {
			calls[i] = after[i] - before[i]
			sum += calls[i]
		}
		if sum < 300 {
			return "fewer calls", false
		}
		before = after // for the next 300, if the machine held one of them up
		return fmt.Sprintf("calls of each: %v", calls), slices.Min(calls)*20 >= sum
	})
	cancel()
	for _, g := range groups {
		g.Wait()
	}
	all.verify(t)
}
