package enqueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// work lets a fleet of one work an evaluation off: it tops up, pulls, and
// returns how often each run was carried out.
func (b *bench) work(id eval.ID, runs int, perTick int) map[int]int {
	b.t.Helper()
	topUp := b.topUp(b.store)
	times := map[int]int{}
	deadline := time.Now().Add(30 * time.Second)
	for {
		if err := topUp.Tick(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		pulled := b.pull("p", perTick)
		for _, task := range pulled {
			if task.Evaluation == id {
				times[task.Index]++
			}
		}
		standing := b.standing(id)
		if standing.Ended(0, "p") == runs {
			return times
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%d of %d runs ended, cursor %d, status %s", standing.Ended(0, "p"), runs, standing.Pushed(0, "p"), standing.Status)
		}
		if len(pulled) == 0 {
			time.Sleep(10 * time.Millisecond) // the rewind of lost tasks waits for real time
		}
	}
}

func wantEachOnce(t *testing.T, times map[int]int, runs int) {
	t.Helper()
	for index := range runs {
		if times[index] != 1 {
			t.Errorf("run %d was carried out %d times", index, times[index])
		}
	}
}

func TestTopUpKeepsAWindowAndNotTheWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const documents = 60 // 3,540 runs
	receipt := b.submit(submission("window", documents))
	pending := b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val()
	if pending != firstWindow {
		t.Errorf("%d tasks pending after the submission, want the first window of %d", pending, firstWindow)
	}
	times := b.work(receipt.ID, receipt.Runs, 300)
	wantEachOnce(t, times, receipt.Runs)
}

// While 256 MB of results wait to be collected no more runs are pushed, which is said
// once, and their number goes on where it stood when they have been.
func TestResultsThatWaitStopTheTopUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("uncollected", 60)) // 3,540 runs
	client, results := b.store.Client(), b.store.Keys().Results(receipt.ID)
	said := &strings.Builder{}
	topUp := b.topUp(b.store)
	topUp.log = zerolog.New(said)
	b.pull("p", 450)
	const many = `for i = 1, 10100 do redis.call("XADD", KEYS[1], "*", "run", string.rep("x", ARGV[1])) end`
	fill := func(bytes int) {
		t.Helper()
		if err := client.Eval(t.Context(), many, []string{results}, bytes).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	pushed := func() int {
		t.Helper()
		for range 2 {
			if err := topUp.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return b.standing(receipt.ID).Pushed(0, "p")
	}
	fill(undrainedBound / 10_100)
	if got := pushed(); got != firstWindow {
		t.Errorf("%d runs pushed while 256 MB of results wait, want no more than the %d of before", got, firstWindow)
	}
	if n := strings.Count(said.String(), "evalfleet collect"); n != 1 {
		t.Errorf("said %d times that results are to be collected, want once:\n%s", n, said)
	}
	if err := client.XTrimMaxLen(t.Context(), results, 0).Err(); err != nil {
		t.Fatal(err)
	}
	fill(1000) // as many, and small
	if got := pushed(); got <= firstWindow {
		t.Errorf("%d runs pushed when 10 MB of results wait, want more", got)
	}
}

// A queue that was used up before its pace is known is looked at often, and one
// that is full is not.
func TestUsedUpQueueIsFilledAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(submission("fast", 60)) // 3,540 runs
	topUp := b.topUp(b.store)
	next := func(pull int) time.Duration {
		b.pull("p", pull)
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		return topUp.nextTick()
	}
	if full := next(0); full <= fastTick {
		t.Errorf("a full queue is looked at again in %s", full)
	}
	if usedUp := next(480); usedUp != fastTick {
		t.Errorf("a queue with 20 tasks of %d left is looked at again in %s, want %s", firstWindow, usedUp, fastTick)
	}
	next(0) // by now the pace may be known, and the window larger
	if filled := next(0); filled <= fastTick {
		t.Errorf("a queue that was filled is still looked at in %s", filled)
	}
}

// Tasks that were begun leave room for others, however long they take: calls of
// minutes must not keep the rest of the slots idle.
func TestTasksUnderWayLeaveTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(submission("slow", 60)) // 3,540 runs
	topUp, client := b.topUp(b.store), b.store.Client()
	for range 3 {
		for range 450 {
			if err := client.LMove(t.Context(), "asynq:{p}:pending", "asynq:{p}:active", "right", "left").Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := client.LLen(t.Context(), "asynq:{p}:pending").Val(); n < firstWindow || n > firstWindow+smallWindow {
			t.Errorf("%d tasks wait beside %d that were begun, want the window of %d", n, client.LLen(t.Context(), "asynq:{p}:active").Val(), firstWindow)
		}
	}
}

// dying makes a client die after a number of commands, in the middle of a
// pipeline too.
type dying struct {
	mu   sync.Mutex
	left int
}

var errDead = errors.New("killed")

func (d *dying) take(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, d.left)
	d.left -= n
	return n
}

func (d *dying) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.take(1) == 0 {
			cmd.SetErr(errDead)
			return errDead
		}
		return next(ctx, cmd)
	}
}

func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := d.take(len(cmds))
		var err error
		if sent > 0 {
			err = next(ctx, cmds[:sent])
		}
		for _, cmd := range cmds[sent:] {
			cmd.SetErr(errDead)
			err = errDead
		}
		return err
	}
}

// TestKilledBetweenAnyTwoCommands kills the process that submits and tops up
// after its first, second, third … Redis command, lets another go on, and wants
// every run carried out once.
func TestKilledBetweenAnyTwoCommands(t *testing.T) {
	t.Parallel()
	const documents, most = 11, 500 // 110 runs, more than one script pushes
	kills := 0
	for commands := 1; ; commands++ {
		if commands > most {
			t.Fatalf("the submission is still not complete after %d commands", most)
		}
		b := setup(t)
		s := submission(fmt.Sprint("killed", commands), documents)
		client := b.server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		client.AddHook(&dying{left: commands})
		mortal := store.New(client, "")
		_, err := b.enqueuer(mortal).Submit(t.Context(), s)
		if err == nil {
			break // it lived to the end: every command has been the last one once
		}
		if !strings.Contains(err.Error(), errDead.Error()) { // asynq does not wrap its errors
			t.Fatalf("killed after %d commands: %v", commands, err)
		}
		kills++
		// Part of what it pushed is carried out before anybody goes on.
		times := map[int]int{}
		for _, task := range b.pull("p", 7) {
			times[task.Index]++
		}
		receipt := b.submit(s)
		for index, n := range b.work(receipt.ID, receipt.Runs, 7) {
			times[index] += n
		}
		wantEachOnce(t, times, receipt.Runs)
		if t.Failed() {
			t.Fatalf("killed after %d commands", commands)
		}
	}
	t.Logf("killed at each of %d commands", kills)
	if kills < 20 {
		t.Errorf("only %d commands were killed; a submission makes more", kills)
	}
}

// TestTopUpKilledBetweenAnyTwoCommands is the same for the topping up of a
// running evaluation.
func TestTopUpKilledBetweenAnyTwoCommands(t *testing.T) {
	t.Parallel()
	const documents = 27 // 702 runs: after the first window, more than two scripts push
	kills := 0
	for commands := 1; ; commands++ {
		b := setup(t)
		receipt := b.submit(submission(fmt.Sprint("topup", commands), documents))
		times := map[int]int{}
		count := func(tasks []record.Task) {
			for _, task := range tasks {
				times[task.Index]++
			}
		}
		count(b.pull("p", 490))
		client := b.server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		client.AddHook(&dying{left: commands})
		err := b.topUp(store.New(client, "")).Tick(t.Context())
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), errDead.Error()) { // asynq does not wrap its errors
			t.Fatalf("killed after %d commands: %v", commands, err)
		}
		kills++
		count(b.pull("p", 30))
		for index, n := range b.work(receipt.ID, receipt.Runs, 100) {
			times[index] += n
		}
		wantEachOnce(t, times, receipt.Runs)
		if t.Failed() {
			t.Fatalf("killed after %d commands", commands)
		}
	}
	t.Logf("killed at each of %d commands", kills)
	if kills < 12 {
		t.Errorf("only %d commands were killed; topping up makes more", kills)
	}
}

func TestTwoTopUpsAtOncePushEveryRunOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("two", 40)) // 1,560 runs
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			topUp := b.topUp(b.store)
			for ctx.Err() == nil {
				if err := topUp.Tick(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	times := b.work(receipt.ID, receipt.Runs, 50)
	stop()
	others.Wait()
	wantEachOnce(t, times, receipt.Runs)
}

func TestEvaluationsShareAQueueByPriority(t *testing.T) {
	t.Parallel()
	b := setup(t)
	light, heavy := submission("light", 70), submission("heavy", 70) // 4,830 runs each, more than are pulled
	heavy.Settings.Priority = 3
	first := b.submit(light)
	second := b.submit(heavy)
	topUp := b.topUp(b.store)
	// The queue's window is 600, however fast this machine is: its pace is not
	// measured before an hour has gone by.
	topUp.pace["p"] = &pace{perSecond: 20, at: time.Now().Add(time.Hour)}
	counts := map[eval.ID]int{}
	for round := range 40 {
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, task := range b.pull("p", 100) {
			if round >= 20 { // the windows of the beginning have passed
				counts[task.Evaluation]++
			}
		}
	}
	ratio := float64(counts[second.ID]) / float64(counts[first.ID])
	if ratio < 2.8 || ratio > 3.2 {
		t.Errorf("priority 3 got %.2f times the runs of priority 1 (%d and %d)", ratio, counts[second.ID], counts[first.ID])
	}
}

func TestTasksDeletedByHandArePushedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("deleted", 5)) // 20 runs
	b.pull("p", 5)
	// As asynqmon's "delete all" does it.
	ids := b.store.Client().LRange(t.Context(), "asynq:{p}:pending", 0, -1).Val()
	for _, id := range ids {
		b.store.Client().Del(t.Context(), "asynq:{p}:t:"+id)
	}
	b.store.Client().Del(t.Context(), "asynq:{p}:pending")
	times := b.work(receipt.ID, receipt.Runs, 100)
	if len(times) != 15 {
		t.Errorf("%d runs were carried out after the deletion, want 15", len(times))
	}
}

func TestDeletedEvaluationIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("gone", 40))
	topUp := b.topUp(b.store)
	if err := topUp.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pull("p", 450)
	keys := b.store.Client().Keys(t.Context(), "ef:{"+string(receipt.ID)+"}:*").Val()
	b.store.Client().Del(t.Context(), keys...)
	for range 3 {
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if keys := b.store.Client().Keys(t.Context(), "ef:{*").Val(); len(keys) != 0 {
		t.Errorf("keys made again after the deletion: %v", keys)
	}
	b.limits.of[string(receipt.ID)] = []ratelimit.Limit{{}}
	topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter + time.Minute)
	if err := topUp.Tick(t.Context()); err != nil || len(b.limits.of) != 1 {
		t.Errorf("limits while calls may wait under them: %v, %v; want them pinned", b.limits.of, err)
	}
	topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter)
	if err := topUp.Tick(t.Context()); err != nil || len(b.limits.of) != 0 {
		t.Errorf("limits afterwards: %v, %v; want none", b.limits.of, err)
	}
	if active, err := b.store.Active(t.Context()); err != nil || len(active) != 0 {
		t.Errorf("active evaluations after the deletion: %v, %v", active, err)
	}
}
