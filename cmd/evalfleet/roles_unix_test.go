//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestRolesHaveTheRightsTheyNeed runs an evaluation with one user of Redis for each
// role, who has the rights of docs/redis.md: none of them is refused anything, and each
// is refused what only others do.
func TestRolesHaveTheRightsTheyNeed(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t, "--max-in-flight", "4", "--latency", "10ms")
	f.configure(f.provider, calm)
	f.compare(3)
	users := map[dial.Role]*redis.Client{}
	as := func(role dial.Role) {
		f.access = []string{"--redis", fmt.Sprintf("redis://%s:pw@%s", role, f.redis.Address())}
	}
	for _, role := range []dial.Role{dial.Controller, dial.Worker, dial.Submitter, dial.Viewer} {
		words := []any{"acl", "setuser", string(role), "reset", "on", ">pw"}
		for word := range strings.FieldsSeq(dial.Rights("ef", role)) {
			words = append(words, word)
		}
		if err := f.redis.Client().Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
		users[role] = f.redis.Client(func(o *redis.Options) { o.Username, o.Password = string(role), "pw" })
	}
	succeeds := func(args ...string) string {
		t.Helper()
		p := f.program(args...)
		if code := p.wait(); code != 0 {
			t.Errorf("%v ended with %d: %s", args, code, p.stderr.String())
		}
		return p.stdout.String()
	}

	as(dial.Submitter)
	succeeds("doctor", f.file, "--config", "fleet.yaml")
	lines := strings.Fields(succeeds("enqueue", f.file, "--config", "fleet.yaml"))
	id := lines[len(lines)-1]
	as(dial.Controller)
	succeeds("pause", id)
	as(dial.Submitter)
	succeeds("enqueue", f.file, "--config", "fleet.yaml") // resumes it
	as(dial.Worker)
	f.program("worker", "--config", "fleet.yaml", "--metrics-addr", "off")
	f.until("all runs are called", func(s seen) bool { return s.All.Answered >= f.runs })
	as(dial.Viewer)
	testrun.Eventually(t, "the evaluation is done", func() bool {
		return strings.Contains(succeeds("status", "--json"), `"status": "done"`)
	})
	succeeds("limits", "--json")
	succeeds("show", id+".0.1")
	ui := f.program("ui", "--listen", "127.0.0.1:0")
	eventuallySays(t, ui, "/", "pairs", "done")
	for _, path := range []string{"queues", "queues/simulator", "servers", "queues/simulator/active_tasks", "queues/simulator/completed_tasks"} {
		if text := get(t, ui, "/asynqmon/api/"+path); !strings.HasPrefix(text, "200") {
			t.Errorf("asynqmon's %s: %s", path, tail(text))
		}
	}
	as(dial.Controller)
	succeeds("collect", id, "--out-dir", "out")
	f.wantRights(f.redis)

	results, plan := "ef:{"+id+"}:results", "ef:{"+id+"}:plan"
	for role, all := range map[dial.Role][]string{
		dial.Viewer: {"set " + plan + " x", "hset ef:{" + id + "}:record status cancelled", "del " + results, "xadd " + results + " * v 1", "lpush asynq:{simulator}:pending x",
			"hset {ef}:limits x []", "publish ef:announce x", "sadd ef:active x", "expire " + plan + " 1", "zremrangebyscore {ef}:alive 0 1"},
		dial.Submitter: {"xrange " + results + " - +", "xdel " + results + " 1-1", "del " + results, "set " + results + " x", "expire " + results + " 1", "xadd " + results + " * v 1", "unlink " + results},
		dial.Worker:    {"xdel " + results + " 1-1", "del " + results, "set " + results + " x", "set " + plan + " x", "del " + plan, "hset ef:{" + id + "}:documents x y"},
	} {
		for _, command := range append(all, "config get maxmemory", "get other:key", "flushall", "keys *", "acl list") {
			var words []any
			for word := range strings.FieldsSeq(command) {
				words = append(words, word)
			}
			if err := users[role].Do(t.Context(), words...).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("a %s may %s: %v", role, command, err)
			}
			if err := users[role].Eval(t.Context(), "return redis.pcall(unpack(ARGV))", []string{"ef:x"}, words...).Err(); !strings.Contains(fmt.Sprint(err), "The user executing the script can't") && !strings.Contains(fmt.Sprint(err), "not allowed from script") {
				t.Errorf("a script of a %s may %s: %v", role, command, err)
			}
		}
	}
}
