package gate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// wantShapes are the scripts of asynq v0.26.0 that the gate treats on its own:
// what they are taken for, their keys, and how their hash begins. When this test fails
// after an upgrade, read what changed in asynq's internal/rdb/rdb.go: take.lua
// does what its dequeue did, and guard.lua is in front of the endings.
var wantShapes = map[string]string{
	"pull: {q}:pending {q}:paused {q}:active {q}:lease": "a815331936",

	"end of the task in key 3: {q}:active {q}:lease {q}:t:<id> {q}:processed:<day> {q}:processed":                                                 "1241eaa1c7", // done
	"end of the task in key 3: {q}:active {q}:lease {q}:t:<id> {q}:processed:<day> {q}:processed {q}:unique:<sum>":                                "a2631c7135",
	"end of the task in key 4: {q}:active {q}:lease {q}:completed {q}:t:<id> {q}:processed:<day> {q}:processed":                                   "117dca9527", // done, with retention
	"end of the task in key 4: {q}:active {q}:lease {q}:completed {q}:t:<id> {q}:processed:<day> {q}:processed {q}:unique:<sum>":                  "ce6833ccce",
	"end of the task in key 1: {q}:t:<id> {q}:active {q}:lease {q}:retry {q}:processed:<day> {q}:failed:<day> {q}:processed {q}:failed":           "65fa409c88",
	"end of the task in key 1: {q}:t:<id> {q}:active {q}:lease {q}:archived {q}:processed:<day> {q}:failed:<day> {q}:processed {q}:failed {q}:t:": "9c3b1eb994",
	"end of the task in key 4: {q}:active {q}:lease {q}:pending {q}:t:<id>":                                                                       "f34cbfd11d", // requeue
}

var (
	taskKey = regexp.MustCompile(`:t:.+$`)
	dayKey  = regexp.MustCompile(`:\d{4}-\d\d-\d\d$`)
	lockKey = regexp.MustCompile(`:unique:.+$`)
)

// shape is what a script's keys look like, and what the gate takes it for.
func shape(keys []string) string {
	kind := "other"
	if isPull(keys) {
		kind = "pull"
	}
	if index, ok := endedTask(keys); ok {
		kind = fmt.Sprintf("end of the task in key %d", index)
	}
	var words []string
	for _, key := range keys {
		for _, queue := range []string{queueName, Served} {
			key = strings.Replace(key, "asynq:{"+queue+"}", "{q}", 1)
		}
		key = taskKey.ReplaceAllString(key, ":t:<id>")
		key = dayKey.ReplaceAllString(key, ":<day>")
		words = append(words, lockKey.ReplaceAllString(key, ":unique:<sum>"))
	}
	return kind + ": " + strings.Join(words, " ")
}

func TestScriptShapes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.New(t).Client())
	var mu sync.Mutex
	asked := map[string]string{} // by asynq, of the gate: hash by shape
	see := func(sha string, keys []string, _ *redis.Cmd) {
		mu.Lock()
		defer mu.Unlock()
		if s := shape(keys); !strings.HasPrefix(s, "other") {
			asked[s] = sha
		} else if strings.Contains(s, ":lease") && strings.Contains(s, "<id>") {
			t.Errorf("a script with a lease and a task passes unguarded: %s", s)
		}
	}
	sent := map[string]bool{} // by anyone, of Redis: what has an active list among its words
	f.redis.AddHook(wire{func(cmd redis.Cmder) {
		words := fmt.Sprint(cmd.Args()...)
		if !strings.Contains(words, "}:active") || !strings.Contains(words, "}:lease") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		what := cmd.Name()
		switch what {
		case "evalsha":
			what = fmt.Sprint(cmd.Args()[1])
		case "eval":
			what = redis.NewScript(fmt.Sprint(cmd.Args()[1])).Hash()
		}
		sent[what] = true
	}})

	hold := make(chan struct{})
	held := make(chan struct{})
	w := f.work("w1", 20, func(ctx context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return errors.New("no")
		case "archive":
			return asynq.SkipRetry
		case "requeue":
			close(held)
			<-hold
		}
		return nil
	}, workerOptions{
		wrap:            func(c redis.UniversalClient) redis.UniversalClient { return observed{c, see} },
		shutdownTimeout: 10 * time.Millisecond,
	})
	want := map[string]string{}
	for name, options := range map[string][]asynq.Option{
		"done":           nil,
		"done-unique":    {asynq.Unique(time.Hour)},
		"complete":       {asynq.Retention(time.Hour)},
		"complete-again": {asynq.Retention(time.Hour), asynq.Unique(time.Hour)},
		"retry":          nil,
		"archive":        nil,
		"requeue":        nil,
	} {
		options = append(options, asynq.Queue(queueName), asynq.TaskID(name), asynq.Timeout(time.Hour))
		if _, err := f.tasks.Enqueue(asynq.NewTask(name, nil, options...)); err != nil {
			t.Fatal(err)
		}
		want[name] = "gone"
	}
	want["complete"], want["complete-again"] = "completed", "completed"
	want["retry"], want["archive"], want["requeue"] = "retry", "archived", "active"
	w.gate.Filled(queueName)
	<-held
	got := map[string]string{}
	f.eventually("each task where it belongs", func() bool {
		for name := range want {
			got[name] = f.state(name)
		}
		return cmp.Equal(want, got)
	})

	// What an operator does goes another way, but must not be mistaken either.
	inspector := asynq.NewInspectorFromRedisClient(observed{w.gate.Client(), see})
	for i, do := range []func() error{
		func() error { return inspector.ArchiveTask(queueName, "retry") },
		func() error { return inspector.RunTask(queueName, "retry") },
		func() error { return inspector.DeleteTask(queueName, "archive") },
		func() error { _, err := inspector.GetQueueInfo(queueName); return err },
		func() error { _, err := inspector.ListActiveTasks(queueName); return err },
		func() error { return inspector.PauseQueue(queueName) },
		func() error { return inspector.UnpauseQueue(queueName) },
	} {
		if err := do(); err != nil {
			t.Errorf("inspector's call %d: %v", i+1, err)
		}
	}

	if err := w.gate.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.server.Shutdown()
	close(hold)
	if got := f.state("requeue"); got != "pending" {
		t.Errorf("requeued task is %s, want pending", got)
	}

	mu.Lock()
	defer mu.Unlock()
	for shape, sha := range asked {
		// Nothing that touches active tasks reaches Redis as asynq sent it.
		if sent[sha] {
			t.Errorf("sent unguarded: %s", shape)
		}
		if script, ok := w.gate.endings.script(sha); ok {
			delete(sent, script.Hash())
		}
		asked[shape] = sha[:10]
	}
	delete(sent, takeScript.Hash())
	delete(sent, returnScript.Hash())
	if diff := cmp.Diff(wantShapes, asked); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
	if len(sent) > 0 {
		t.Errorf("sent besides: %v", sent)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("openai", "ev-a.0.1.0")
	f.Add("openai-gpt~5~ev-abc", "t")
	f.Add("", ":t:")
	f.Fuzz(func(t *testing.T, queue, id string) {
		k := keysOf(queue)
		if !isPull([]string{k.pending, k.paused, k.active, k.lease}) {
			t.Errorf("no pull from %q", queue)
		}
		want := 0
		if id != "" {
			want = 3
		}
		if strings.Contains(queue, "}:") {
			return // not a name that asynq's own keys survive
		}
		if got, ok := endedTask([]string{k.active, k.lease, k.task + id}); ok != (id != "") || ok && got != want {
			t.Errorf("endedTask(%q, %q) = %d, %v; want %d", queue, id, got, ok, want)
		}
		if _, ok := endedTask([]string{queue, id}); ok {
			t.Errorf("endedTask(%q, %q) without an active list", queue, id)
		}
	})
}
