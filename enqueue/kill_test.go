package enqueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

// dying makes a client die after a number of commands, in the middle of a
// pipeline too.
type dying struct {
	mu   sync.Mutex
	left int
}

var errDead = errors.New("killed")

// immortal is a number of commands that no test makes.
const immortal = 1 << 30

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

// killedAnywhere kills a process after its first, second, third … Redis command, each
// time on a Redis of its own; go test -short tries some of them. die does with the
// mortal store what the process does, and check wants all as if it had lived.
func killedAnywhere(t *testing.T, least int, prepare func(*bench) func(mortal *store.Store) error, check func(*bench)) {
	t.Helper()
	try := func(t *testing.T, commands int) (made int) {
		b := setup(t)
		act := prepare(b)
		client, death := b.server.Client(func(o *redis.Options) { o.MaxRetries = -1 }), &dying{left: commands}
		client.AddHook(death)
		err := act(store.New(client, ""))
		if err != nil && !strings.Contains(err.Error(), errDead.Error()) { // asynq does not wrap its errors
			t.Fatalf("killed after %d commands: %v", commands, err)
		}
		check(b)
		return commands - death.left
	}
	all := try(t, immortal)
	if all < least {
		t.Errorf("only %d commands can be killed, want at least %d", all, least)
	}
	step := 1
	if testing.Short() {
		step = max(all/3, 1)
	}
	for commands := 1; commands < all; commands += step {
		t.Run(fmt.Sprintf("after %d of %d commands", commands, all), func(t *testing.T) {
			t.Parallel()
			try(t, commands)
		})
	}
}

// TestKilledBetweenAnyTwoCommands kills the process that submits, lets another continue, and
// expects every run to run once.
func TestKilledBetweenAnyTwoCommands(t *testing.T) {
	t.Parallel()
	s := func() Submission { return submission("killed", 11) } // 110 runs, more than one script pushes
	killedAnywhere(t, 20, func(b *bench) func(*store.Store) error {
		return func(mortal *store.Store) error {
			_, err := b.enqueuer(mortal).Submit(b.t.Context(), s())
			return err
		}
	}, func(b *bench) {
		// Part of the pushed runs finish before another process continues.
		times := map[int]int{}
		for _, task := range b.pull("p", 7) {
			times[task.Index]++
		}
		receipt := b.submit(s())
		for index, n := range b.work(receipt.ID, receipt.Runs, 7) {
			times[index] += n
		}
		wantEachOnce(b.t, times, receipt.Runs)
	})
}

// TestTopUpKilledBetweenAnyTwoCommands is the same for the topping up of a
// running evaluation.
func TestTopUpKilledBetweenAnyTwoCommands(t *testing.T) {
	t.Parallel()
	const runs = 702  // of 27 documents: after the first window, more than two scripts push
	var seen sync.Map // by *bench: times of each run
	count := func(b *bench, tasks []record.Task) map[int]int {
		times, _ := seen.LoadOrStore(b, map[int]int{})
		for _, task := range tasks {
			times.(map[int]int)[task.Index]++
		}
		return times.(map[int]int)
	}
	killedAnywhere(t, 12, func(b *bench) func(*store.Store) error {
		b.submit(submission("topup", 27))
		count(b, b.pull("p", 490))
		return func(mortal *store.Store) error { return b.topUp(mortal).Tick(b.t.Context()) }
	}, func(b *bench) {
		times := count(b, b.pull("p", 30))
		for index, n := range b.work(submission("topup", 27).Evaluation.ID(), runs, 100) {
			times[index] += n
		}
		wantEachOnce(b.t, times, runs)
	})
}

// TestChoosingKilledBetweenAnyTwoCommands kills the process that chooses a phase. The next one
// chooses the same, and every run runs once.
func TestChoosingKilledBetweenAnyTwoCommands(t *testing.T) {
	t.Parallel()
	var seen sync.Map // by *bench: times of each run
	var first sync.Once
	var want []record.Phase
	killedAnywhere(t, 10, func(b *bench) func(*store.Store) error {
		id := b.submit(inRounds("choosing", 9)).ID
		times := map[eval.RunID]int{}
		for _, task := range b.pull("p", 1000) {
			times[task.RunID()]++
		}
		seen.Store(b, times)
		return func(mortal *store.Store) error {
			chosen, err := b.enqueuer(mortal).Choose(b.t.Context(), id, ranking(1))
			if err == nil && !chosen {
				b.t.Error("the phase was not due")
			}
			return err
		}
	}, func(b *bench) {
		of, _ := seen.Load(b)
		times, id := of.(map[eval.RunID]int), inRounds("choosing", 9).Evaluation.ID()
		b.toEnd(id, 1, times)
		for run, n := range times {
			if n != 1 {
				b.t.Errorf("run %s was carried out %d times", run, n)
			}
		}
		got := b.phases(id)
		first.Do(func() { want = got }) // of the process that lived
		if diff := cmp.Diff(want, got); diff != "" || len(times) != runsOf(want) {
			b.t.Errorf("%d runs, want %d; phases (-others +this):\n%s", len(times), runsOf(want), diff)
		}
	})
}
