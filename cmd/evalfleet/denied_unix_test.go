//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A command that collects waits, and says so once, while Redis is busy with the script of another
// client, or refuses the command's user: its rights or password were changed.
func TestCollectingOutlivesWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	f, calls := newGated(t, 4)
	admin := f.redis.Client()
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL", "SETUSER", "fleet", "on", ">secret", "~*", "&*", "+@all")
	do("CONFIG", "SET", "busy-reply-threshold", "1")
	f.access = []string{"--redis", strings.Replace(f.redis.URL(), "redis://", "redis://fleet:secret@", 1)}
	other := f.evaluation("other", "simulator:careful", fleetLimit, 900)

	waits := f.program("enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml", "--log-level", "info")
	submitted := f.program("enqueue", other, "--config", "fleet.yaml")
	submitted.wait()
	follows := f.program("collect", lastLine(submitted.stdout.String()), "--follow", "--out-dir", "other", "--log-level", "info")
	both := map[string]*program{"enqueue --wait": waits, "collect --follow": follows}
	testrun.Eventually(t, "both commands collect", func() bool {
		claimed := 0
		for _, id := range admin.SMembers(t.Context(), "ef:evaluations").Val() {
			if admin.HGet(t.Context(), "ef:{"+id+"}:record", "sink").Val() != "" {
				claimed++
			}
		}
		return claimed == 2
	})
	begun := make(chan error, 1)
	for i, trouble := range []struct {
		name          string
		begins, stops func()
	}{
		{"BUSY", func() {
			go func() {
				begun <- f.redis.Client(func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, -1 }).Eval(t.Context(), "while true do end", nil).Err()
			}()
		}, func() {
			do("SCRIPT", "KILL")
			if err := <-begun; err == nil {
				t.Error("a script that was killed has ended without an error")
			}
		}},
		{"NOPERM", func() { do("ACL", "SETUSER", "fleet", "-@all") }, func() { do("ACL", "SETUSER", "fleet", "+@all") }},
		{"WRONGPASS", func() {
			do("ACL", "SETUSER", "fleet", "resetpass", ">changed")
			do("CLIENT", "KILL", "USER", "fleet")
		}, func() { do("ACL", "SETUSER", "fleet", "resetpass", ">secret") }},
	} {
		trouble.begins()
		for name, p := range both {
			testrun.EventuallyGot(t, name+" says that it waits: "+trouble.name, func() (string, bool) {
				select {
				case <-p.ended:
					t.Fatalf("%s ended at %s", name, trouble.name)
				default:
				}
				said := strings.Count(p.stderr.String(), "results wait to be collected")
				return fmt.Sprint(said, " times"), said == i+1
			})
		}
		trouble.stops()
		testrun.Eventually(t, "both collect again after "+trouble.name, func() bool {
			return strings.Count(waits.stderr.String(), "results are collected again") == i+1 &&
				strings.Count(follows.stderr.String(), "results are collected again") == i+1
		})
	}

	calls.open()
	f.startWorkers(1)
	for name, p := range both {
		if code := p.wait(); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
	}
	f.wantRowsOnce()
}

// TestResubmissionOutlivesWhatRedisRefuses: Redis loses an evaluation, and refuses to store it again
// for a while. The command that waits for it submits it when it may, and says so.
func TestResubmissionOutlivesWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	f, calls := newGated(t, 4)
	admin := f.redis.Client()
	rules := func(change string) {
		t.Helper()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "fleet", change).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []string{"on", ">secret", "~*", "&*", "+@all"} {
		rules(first)
	}
	f.access = []string{"--redis", strings.Replace(f.redis.URL(), "redis://", "redis://fleet:secret@", 1)}
	waits := f.enqueueAndWait()
	testrun.Eventually(t, "it has submitted the evaluation", func() bool {
		return strings.Contains(waits.stderr.String(), "runs in queues")
	})
	testrun.Eventually(t, "its results store has the evaluation", func() bool {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "out", "results.db")+"?mode=ro")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		n := 0
		err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM evaluations").Scan(&n)
		return err == nil && n == 1
	})

	rules("-@write")
	if err := admin.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	testrun.EventuallyGot(t, "it says that it cannot submit the evaluation again", func() (string, bool) {
		select {
		case <-waits.ended:
			t.Fatalf("it ended with %d", waits.cmd.ProcessState.ExitCode())
		default:
		}
		said := waits.stderr.String()
		return tail(said), strings.Contains(said, "cannot submit the evaluation again; retrying")
	})
	rules("+@write")
	f.trustRedis()
	calls.open()
	f.startWorkers(1)
	if code := waits.wait(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	f.wantRowsOnce()
}
