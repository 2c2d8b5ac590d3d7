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
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// judge waits until the healed fleet has ended its work, and checks what must
// hold whatever the faults were:
//
//   - liveness: every evaluation ends, and its submitter with it;
//   - rows: each run is in its results store once, and failed only if workers died, with class lost;
//   - verdicts: each run that succeeded has one, about its own two documents;
//   - limits: each provider saw no more calls in flight, or tokens in batches, than it allows, and refused none;
//   - quota: a provider saw no more calls in the days that Redis's clock has shown than it allows;
//   - budget: what a provider charged, for calls that were cut off too, is no more than the budget;
//   - batches: no run is answered in two batches, but for those that the faults can have lost;
//   - pause: no call of a paused evaluation arrives but those in flight;
//   - exit codes: a worker that was stopped ends with 0, and no process ends by itself;
//   - cost: no more answers were asked for again than the faults can have lost;
//   - late packets: an evaluation that was submitted again is not deleted by what was sent before;
//   - leftovers: no lease, waiter, pin, task, queue, result or key of an evaluation stays.
//
// It notes what does not hold in broken.
func (c *chaos) judge() {
	if !c.untilEnded() {
		return
	}
	if c.sabotage != nil {
		c.sabotage(c)
	}
	counts := c.stats()
	if counts.All.MaxInFlight > chaosLimit || counts.All.Rejected > 0 {
		c.breach("limits", "at most %d in flight, %d rejected; want %d and none", counts.All.MaxInFlight, counts.All.Rejected, chaosLimit)
	}
	c.judgeBatches(counts)
	c.judgeQuota()
	c.judgeBudget(counts)
	if !c.finishTheRest() {
		return
	}

	counts = c.stats()
	total := 0
	for _, m := range c.members {
		if isSubmitter(m) {
			total += c.judgeRows(m)
		}
	}
	for _, old := range c.replaced {
		if code := exit(old.wait()); code != exitOK {
			c.breach("exit codes", "a worker that was stopped ended with %d, want %d", code, exitOK)
		}
	}
	answered := counts.All.answered()
	total += min(c.size.runs["c"], counts.Models["careless"].answered())
	c.t.Logf("%d calls, %d answered, for at most %d runs; faults may have lost %d answers", counts.All.asked(), answered, total, c.repeats)
	if answered > total+c.repeats {
		c.breach("cost", "%d answers for %d runs; the faults can have lost %d", answered, total, c.repeats)
	}
	c.wantNothingLeft()
}

// judgeQuota compares the calls that a provider has seen with the days of Redis's clock.
func (c *chaos) judgeQuota() {
	c.t.Helper()
	c.noteDay()
	metered := c.metered().All
	c.t.Logf("%d calls under a quota of %d in %d days", metered.Arrived, c.size.quota, len(c.days))
	if most := c.size.quota * len(c.days); metered.Arrived > most {
		c.breach("quota", "%d calls in %d days, want at most %d", metered.Arrived, len(c.days), most)
	}
	if metered.MaxInFlight > chaosMeter || metered.Rejected > 0 {
		c.breach("limits", "at most %d in flight under a quota, %d rejected; want %d and none", metered.MaxInFlight, metered.Rejected, chaosMeter)
	}
}

// judgeBudget compares what a provider has charged with the budget.
func (c *chaos) judgeBudget(counts seen) {
	c.t.Helper()
	charged, budget := c.chargedBy(counts.Models["dear"]), c.budgetOf(c.size.budget)
	c.t.Logf("%s charged of a budget of %s", ratelimit.Dollars(charged), ratelimit.Dollars(budget))
	if charged > budget {
		c.breach("budget", "the provider charged %s, want at most %s", ratelimit.Dollars(charged), ratelimit.Dollars(budget))
	}
}

// finishTheRest gives d the budget that it needs, and cancels m, whose quota is used up; both
// then end. It returns false if they do not.
func (c *chaos) finishTheRest() bool {
	c.t.Helper()
	if code := c.command("cancel", c.ids["m"]); code != exitOK {
		c.breach("exit codes", "cancel ended with %d", code)
	}
	c.writeEvaluation("d", c.budgetOf(10*c.size.runs["d"]))
	for _, m := range c.members {
		if isSubmitter(m) && m.folder() == "d" {
			c.start(m)
		}
	}
	return c.untilEnded("m")
}

// judgeRows checks what a submitter's results store holds, and returns how many answers it needed.
func (c *chaos) judgeRows(m *member) int {
	c.t.Helper()
	folder, code, rows := m.folder(), m.wait(), c.rows(m.folder())
	if rows.all != rows.distinct {
		c.breach("rows", "%s has %d rows of %d runs, want them once each", folder, rows.all, rows.distinct)
	}
	if rows.verdicts != rows.all-rows.failed {
		c.breach("verdicts", "%s has %d verdicts of %d runs that succeeded", folder, rows.verdicts, rows.all-rows.failed)
	}
	if rows.foreign > 0 {
		c.breach("verdicts", "%d verdicts of %s name a winner that was not compared", rows.foreign, folder)
	}
	if folder == "m" { // it was cancelled
		return 0
	}
	if want := c.size.runs[folder]; rows.distinct != want {
		c.breach("rows", "%s has %d of %d runs", folder, rows.distinct, want)
	}
	if rows.other > 0 {
		c.breach("rows", "%d runs of %s failed otherwise than by deaths of workers", rows.other, folder)
	}
	if rows.failed > c.deaths/3*chaosLimit {
		c.breach("rows", "%d runs of %s failed after %d deaths of workers", rows.failed, folder, c.deaths)
	}
	if code != 0 && rows.failed == 0 {
		c.breach("exit codes", "%s ended with %d: %s", m.name, code, lastLine(m.stderr.String()))
		c.t.Logf("%s said:\n%s", m.name, m.stderr.String())
	}
	return c.size.runs[folder]
}

// untilEnded waits as long as anything moves for every submitter, that of m only if it is asked
// for, and for the end of the cancelled evaluation. It returns false if nothing moves.
func (c *chaos) untilEnded(besides ...string) bool {
	c.t.Helper()
	last, since, stuck := "", time.Now(), false
	testrun.EventuallyGot(c.t, "every evaluation ends", func() (string, bool) {
		ended := true
		for _, m := range c.members {
			if isSubmitter(m) && (m.folder() != "m" || slices.Contains(besides, "m")) {
				ended = ended && !c.running(m)
			}
		}
		var left []string
		time.Sleep(10 * chaosLook) // status is a process
		for _, e := range c.evaluations() {
			left = append(left, fmt.Sprintf("%s %s, %d to collect", e.Name, e.Status, e.Uncollected))
			if string(e.ID) == c.ids["c"] {
				ended = ended && e.Status != "active" && e.Status != "paused" && e.Uncollected == 0
			}
		}
		slices.Sort(left)
		counts := c.stats()
		got := fmt.Sprintf("%d calls, %d in flight, %d tokens in batches; %s",
			counts.All.asked(), counts.All.InFlight, counts.All.Batches.Enqueued, strings.Join(left, "; "))
		if got != last {
			last, since = got, time.Now()
		}
		if !ended && time.Since(since) > c.stuck {
			c.breach("liveness", "nothing has moved for %s: %s", c.stuck, got)
			c.logStuck()
			stuck = true
		}
		return got, ended || stuck
	})
	return !stuck
}

// logStuck logs what the fleet waits for: what workers report, and where each of their goroutines is.
func (c *chaos) logStuck() {
	c.t.Helper()
	ctx, client := context.Background(), c.redis.Client()
	defer client.Close()
	c.t.Logf("limits: epoch %v; heartbeats: %v", client.HMGet(ctx, "{ef}:limits", "epoch", "blind", "clock").Val(), client.ZRangeWithScores(ctx, "{ef}:alive", 0, -1).Val())
	for _, key := range client.Keys(ctx, "ef:worker:*").Val() {
		c.t.Logf("%s: %s", key, client.Get(ctx, key).Val())
	}
	for _, m := range c.members {
		if c.running(m) && isWorker(m) {
			m.killed = true
			m.signal(syscall.SIGQUIT)
			<-m.ended
		}
	}
}

// chaosRows is what a results store holds.
type chaosRows struct {
	all      int
	distinct int
	failed   int
	other    int // of another class than lost
	verdicts int
	foreign  int // verdicts whose winner was not compared
}

// rows counts what a folder's results store holds; nothing where there is none yet.
func (c *chaos) rows(folder string) (found chaosRows) {
	c.t.Helper()
	path := filepath.Join(c.dir, folder, "results.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return found
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(60000)")
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(c.t.Context(), `SELECT count(*), count(DISTINCT phase || '.' || index_),
		coalesce(sum(state <> 'succeeded'), 0), coalesce(sum(state = 'failed' AND class <> 'lost'), 0) FROM runs`).
		Scan(&found.all, &found.distinct, &found.failed, &found.other)
	if err == nil {
		err = db.QueryRowContext(c.t.Context(), `SELECT count(*), coalesce(sum(winner_doc_id NOT IN (doc_id_1, doc_id_2)), 0)
			FROM pairwise_results`).Scan(&found.verdicts, &found.foreign)
	}
	if err != nil && !strings.Contains(err.Error(), "no such table") {
		c.t.Fatalf("%s: %v", path, err)
	}
	return found
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
	c.within("no lease, pin or task is left", func() (left []string) {
		for _, kind := range []string{"pending", "active", "scheduled", "retry"} {
			left = append(left, keys("asynq:*:"+kind)...)
		}
		now, err := client.Time(ctx).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, key := range keys("{ef}:[sl]:*") { // leases by their expiry in µs; ended ones are swept later
			worker, own := strings.CutPrefix(key, "{ef}:l:")
			if _, err := client.ZScore(ctx, "{ef}:alive", worker).Result(); own && errors.Is(err, redis.Nil) {
				continue // no limit counts what a worker that is gone has listed, and nothing moves it with the clock
			}
			ends := now
			if c.size.batched && (own && worker == "background" || strings.HasSuffix(key, "/"+string(ratelimit.EnqueuedTokens))) {
				ends = now.Add(chaosBatchStuck) // a batch that was cancelled, or whose worker was killed, counts for minutes
			}
			if n, err := client.ZCount(ctx, key, strconv.FormatInt(ends.UnixMicro(), 10), "+inf").Result(); err == nil && n > 0 {
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
			c.breach("leftovers", "delete %s ended with %d", e.ID, code)
		}
	}
	c.within("no key of a deleted evaluation is left", func() (left []string) {
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

// within waits until nothing is left, and notes what is when that has not changed for long.
func (c *chaos) within(what string, look func() []string) {
	c.t.Helper()
	last, since, stuck := "", time.Now(), false
	testrun.EventuallyGot(c.t, what, func() (string, bool) {
		left := look()
		slices.Sort(left)
		got := strings.Join(left, ", ")
		if got != last {
			last, since = got, time.Now()
		}
		if len(left) > 0 && time.Since(since) > c.patience {
			c.breach("leftovers", "want that %s, but: %s", what, got)
			stuck = true
		}
		return got, len(left) == 0 || stuck
	})
}
