package rescue

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// counting is a hook that counts commands.
type counting struct{ n *atomic.Int64 }

func (counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// keeper is one of several processes that may look after queues; sent counts its
// commands.
func keeper(t *testing.T, server *redistest.Server, queues []string) (k *Keeper, sent *atomic.Int64) {
	t.Helper()
	client := server.Client()
	k = NewKeeper(store.New(client, ""), ratelimit.NewAdmin(client, ratelimit.Config{}), zerolog.Nop())
	k.lock = k.store.NewLock(k.store.Keys().HouseLock(), time.Hour) // tests have more patience
	k.Queues = func(context.Context) ([]string, error) { return queues, nil }
	k.Note = func(_ context.Context, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	k.step(t.Context(), time.Now()) // scripts are loaded, connections are made
	sent = new(atomic.Int64)
	client.AddHook(counting{sent})
	return k, sent
}

// Of many processes one looks after the queues, with few commands for each. What the
// others send does not depend on how many queues there are.
func TestOneKeeperLooksAfterIdleQueues(t *testing.T) {
	t.Parallel()
	const queues, steps = 20, 10
	var names []string
	for i := range queues {
		names = append(names, fmt.Sprint("q", i))
	}
	server := redistest.New(t)
	first, sentByFirst := keeper(t, server, names)
	second, sentBySecond := keeper(t, server, names)
	now := time.Now().Add(time.Hour)
	first.serveQueues(t.Context(), now) //nolint:errcheck // loads the scripts of what is rarer
	sentByFirst.Store(0)
	for i := range steps {
		now := now.Add(time.Duration(i+1) * dueEvery)
		first.step(t.Context(), now)
		second.step(t.Context(), now)
	}
	if n := sentBySecond.Load(); n > 2*steps {
		t.Errorf("%d commands of the one that waits in %d looks, want 2 each at most", n, steps)
	}
	// Two for the delayed tasks of a queue, and every third time three more.
	if n, most := sentByFirst.Load(), int64(steps*(3*queues+8)); n > most {
		t.Errorf("%d commands of the one that works in %d looks at %d queues, want %d at most", n, steps, queues, most)
	}
}

// Tasks whose time has come become pending and are announced, those that wait are
// announced again, and those that were kept long enough go.
func TestKeeperLooksAfterTasks(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t)
	client := server.Client()
	tasks, inspector := asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)
	put := func(queue, id string, options ...asynq.Option) {
		t.Helper()
		if _, err := tasks.Enqueue(asynq.NewTask("run", nil), append(options, asynq.Queue(queue), asynq.TaskID(id))...); err != nil {
			t.Fatal(err)
		}
	}
	k, _ := keeper(t, server, []string{"due", "waits", "empty"})
	put("due", "d", asynq.ProcessIn(time.Hour))
	put("waits", "w")
	put("empty", "kept", asynq.ProcessIn(time.Hour))
	past := float64(time.Now().Add(-time.Minute).Unix())
	pipe := client.TxPipeline()
	pipe.ZAdd(ctx, "asynq:{due}:scheduled", redis.Z{Score: past, Member: "d"})
	pipe.ZRem(ctx, "asynq:{empty}:scheduled", "kept")
	pipe.ZAdd(ctx, "asynq:{empty}:completed", redis.Z{Score: past, Member: "kept"})
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	subscription := client.Subscribe(ctx, k.store.Keys().Announce())
	defer subscription.Close()
	if _, err := subscription.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	k.step(ctx, time.Now().Add(time.Hour))
	var heard []string
	for range 3 { // the one that was due also waits
		message, err := subscription.ReceiveMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, message.Payload)
	}
	if want := []string{"queue due", "queue due", "queue waits"}; !slices.Equal(heard, want) {
		t.Errorf("announced %q, want %q", heard, want)
	}
	if info, err := inspector.GetTaskInfo("due", "d"); err != nil || info.State != asynq.TaskStatePending {
		t.Errorf("the task that was due is %+v, %v; want pending", info, err)
	}
	if n, err := client.Exists(ctx, "asynq:{empty}:t:kept", "asynq:{empty}:completed").Result(); err != nil || n != 0 {
		t.Errorf("%d keys are left of the task that was kept, %v; want none", n, err)
	}
}
