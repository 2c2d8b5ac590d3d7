package gate

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Redis is killed while workers run, and comes back.
func TestRedisAway(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const tasks, away = 300, 2 * time.Second
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	f := newFleet(t, server.Client())
	f.push(tasks)

	client := server.Client()
	var scripts, down atomic.Int64
	client.AddHook(wire{func(cmd redis.Cmder) {
		if len(cmd.Args()) < 2 || down.Load() == 0 {
			return
		}
		if sha := cmd.Args()[1]; sha == takeScript.Hash() || sha == reclaimScript.Hash() {
			scripts.Add(1)
		}
	}})
	var handled ids
	half := make(chan struct{})
	log := &text{}
	w := f.work("w1", 8, func(ctx context.Context, _ *asynq.Task) error {
		handled.add(ctx)
		if n, _ := handled.distinct(); n == tasks/2 {
			close(half)
		}
		return nil
	}, workerOptions{client: client, log: log.logger()})
	<-half
	server.Kill()
	f.eventually("the worker says that it cannot pull", func() bool { return log.lines()[0] != "" })
	down.Store(1)
	time.Sleep(away)
	during := scripts.Load()
	down.Store(0)
	server.Start()
	f.eventually("all ended", handled.all(f, tasks))
	t.Logf("%d scripts in %v without Redis", during, away)
	if during > 30 {
		t.Errorf("%d scripts were tried in %v without Redis, want a few", during, away)
	}
	w.end()
	lines := log.lines()
	if len(lines) != 2 || !strings.Contains(lines[0], "cannot pull tasks") || !strings.Contains(lines[1], "works again") {
		t.Errorf("log = %q, want one line when Redis went and one when it came back", lines)
	}
}

// Redis answers at once, but with an error.
func TestErrorsAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		pending := keysOf(queueName).pending
		if err := f.redis.Set(t.Context(), pending, "not a list", 0).Err(); err != nil {
			t.Fatal(err)
		}
		var tries atomic.Int64
		f.redis.AddHook(wire{func(cmd redis.Cmder) {
			if len(cmd.Args()) > 1 && cmd.Args()[1] == takeScript.Hash() {
				tries.Add(1)
			}
		}})
		log := &text{}
		permits := newSlots(3)
		g := New(f.redis, Config{Owner: "w1", Permits: permits, Log: log.logger()})
		g.Serve(queueName)
		answered := make(chan bool)
		before := time.Now()
		go func() { answered <- f.pullBy(g) }()
		f.eventually("four tries", func() bool { return tries.Load() >= 4 })
		if took := time.Since(before); took < 300*time.Millisecond {
			t.Errorf("four tries in %v, want at least 0.05 + 0.1 + 0.2 s", took)
		}
		if err := f.redis.Del(t.Context(), pending).Err(); err != nil {
			t.Fatal(err)
		}
		f.push(1)
		if !<-answered {
			t.Error("answered as empty after the error")
		}
		if lines := log.lines(); len(lines) != 2 {
			t.Errorf("log = %q, want one line when it failed and one when it worked again", lines)
		}
		permits.Cancel("", 1)
		if !permits.allFree() {
			t.Error("permits are missing")
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
