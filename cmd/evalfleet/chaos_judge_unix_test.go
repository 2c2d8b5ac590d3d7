//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/testrun"
)

// judge waits until the healed fleet has ended its work, and checks what must
// hold whatever the faults were:
//
//   - liveness: every evaluation ends, and its submitter with it;
//   - rows: each run is in its results store once, and failed only if workers died;
//   - limits: the provider saw no more calls in flight than it allows, and refused none;
//   - exit codes: a worker that was stopped ends with 0, and no process ends by itself;
//   - cost: no more answers were asked for again than the faults can have lost;
//   - leftovers: no lease, waiter, pin, task, queue, result or key of an evaluation stays.
func (c *chaos) judge() {
	c.untilEnded()
	counts := c.stats()
	if counts.All.MaxInFlight > chaosLimit || counts.All.Rejected > 0 {
		c.t.Errorf("limits: at most %d in flight, %d rejected; want %d and none", counts.All.MaxInFlight, counts.All.Rejected, chaosLimit)
	}
	total := 0
	for _, m := range c.members {
		if !isSubmitter(m) {
			continue
		}
		folder := m.folder()
		rows, distinct, failed := c.rows(folder)
		if want := c.runs[folder]; rows != want || distinct != want {
			c.t.Errorf("rows: %s has %d rows of %d runs, want %d once each", folder, rows, distinct, want)
		}
		if failed > c.deaths/3*chaosLimit {
			c.t.Errorf("rows: %d runs of %s failed after %d deaths of workers", failed, folder, c.deaths)
		}
		if code := m.wait(); code != 0 && failed == 0 {
			c.t.Errorf("liveness: %s ended with %d: %s", m.name, code, lastLine(m.stderr.String()))
		}
		total += c.runs[folder]
	}
	for _, old := range c.replaced {
		if code := exit(old.wait()); code != exitOK {
			c.t.Errorf("exit code: a worker that was stopped ended with %d, want %d", code, exitOK)
		}
	}
	total += min(c.runs["c"], counts.Models[chaosModels["c"]].Answered)
	c.t.Logf("%d calls, %d answered, for at most %d runs; faults may have lost %d answers", counts.All.Arrived, counts.All.Answered, total, c.repeats)
	if counts.All.Answered > total+c.repeats {
		c.t.Errorf("cost: %d answers for %d runs; the faults can have lost %d", counts.All.Answered, total, c.repeats)
	}
	c.wantNothingLeft()
}

// untilEnded waits for both submitters, and for the end of the cancelled
// evaluation, as long as anything moves.
func (c *chaos) untilEnded() {
	c.t.Helper()
	last, since := "", time.Now()
	testrun.EventuallyGot(c.t, "every evaluation ends", func() (string, bool) {
		ended := true
		for _, m := range c.members {
			ended = ended && (!isSubmitter(m) || !c.running(m))
		}
		var left []string
		for _, e := range c.evaluations() {
			left = append(left, fmt.Sprintf("%s %s, %d to collect", e.Name, e.Status, e.Uncollected))
			if string(e.ID) == c.ids["c"] {
				ended = ended && e.Status != "active" && e.Status != "paused" && e.Uncollected == 0
			}
		}
		slices.Sort(left)
		counts := c.stats()
		got := fmt.Sprintf("%d calls, %d in flight; %s", counts.All.Arrived, counts.All.InFlight, strings.Join(left, "; "))
		if got != last {
			last, since = got, time.Now()
		}
		if !ended && time.Since(since) > chaosStuck {
			c.t.Fatalf("liveness: nothing has moved for %s: %s", chaosStuck, got)
		}
		return got, ended
	})
}

// rows counts what a folder's results store holds; nothing where there is none yet.
func (c *chaos) rows(folder string) (rows, distinct, failed int) {
	c.t.Helper()
	path := filepath.Join(c.dir, folder, "results.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, 0, 0
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(60000)")
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(c.t.Context(), `SELECT count(*), count(DISTINCT phase || '.' || index_),
		coalesce(sum(state <> 'succeeded'), 0) FROM runs`).Scan(&rows, &distinct, &failed)
	if err != nil && !strings.Contains(err.Error(), "no such table") {
		c.t.Fatalf("%s: %v", path, err)
	}
	return rows, distinct, failed
}

// wantNothingLeft waits until no lease and no task is left, deletes the
// evaluations, and wants Redis to hold nothing of them.
func (c *chaos) wantNothingLeft() {
	c.t.Helper()
	ctx := context.Background()
	client := c.redis.Client()
	keys := func(pattern string) (found []string) {
		c.t.Helper()
		iterator := client.Scan(ctx, 0, pattern, 1000).Iterator()
		for iterator.Next(ctx) {
			found = append(found, iterator.Val())
		}
		if err := iterator.Err(); err != nil {
			c.t.Fatal(err)
		}
		return found
	}
	c.within("leftovers: no lease, pin or task is left", func() (left []string) {
		for _, kind := range []string{"pending", "active", "scheduled", "retry"} {
			left = append(left, keys("asynq:*:"+kind)...)
		}
		now, err := client.Time(ctx).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, key := range keys("{ef}:[sl]:*") { // leases by their expiry in µs; ended ones are swept later
			if n, err := client.ZCount(ctx, key, strconv.FormatInt(now.UnixMicro(), 10), "+inf").Result(); err == nil && n > 0 {
				left = append(left, fmt.Sprintf("%d leases of %s", n, key))
			}
		}
		holders, err := client.HKeys(ctx, "{ef}:limits").Result()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, holder := range holders {
			if strings.Contains(holder, "ev-") {
				left = append(left, "pin "+holder)
			}
		}
		return left
	})
	for _, e := range c.evaluations() {
		if code := c.command("delete", string(e.ID), "--force"); code != exitOK {
			c.t.Errorf("leftovers: delete %s ended with %d", e.ID, code)
		}
	}
	c.within("leftovers: no key of a deleted evaluation is left", func() (left []string) {
		for _, id := range c.ids {
			left = append(left, keys("ef:*"+id+"*")...)
		}
		for _, key := range keys("asynq:{*") { // all tasks were of these evaluations, and all queues
			if !strings.Contains(key, "}:fence:") { // which expires within a minute
				left = append(left, key)
			}
		}
		for _, key := range []string{"asynq:queues", "ef:queues", "ef:evaluations", "ef:active"} {
			for _, member := range client.SMembers(ctx, key).Val() {
				left = append(left, member+" in "+key)
			}
		}
		return left
	})
}

// within waits until nothing is left, and fails with what is when that has not
// changed for long.
func (c *chaos) within(what string, look func() []string) {
	c.t.Helper()
	last, since := "", time.Now()
	testrun.EventuallyGot(c.t, what, func() (string, bool) {
		left := look()
		slices.Sort(left)
		got := strings.Join(left, ", ")
		if got != last {
			last, since = got, time.Now()
		}
		if len(left) > 0 && time.Since(since) > chaosStuck {
			c.t.Fatalf("%s, but: %s", what, got)
		}
		return got, len(left) == 0
	})
}
