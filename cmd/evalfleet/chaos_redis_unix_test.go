//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// redisFaults strike Redis, one at a time.
var redisFaults = []chaosFault{
	{"Redis is killed", onRedis(func(c *chaos) func() {
		if !c.appendOnly {
			c.forgets(c.copied)
		}
		c.redis.Kill()
		return c.startRedis
	})},
	{"Redis stalls", onRedis(func(c *chaos) func() {
		c.signalRedis(syscall.SIGSTOP)
		return func() { c.signalRedis(syscall.SIGCONT) }
	})},
	{"Redis is flushed", onRedis(func(c *chaos) func() {
		c.forgets(0)
		c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.FlushAll(ctx).Err() })
		return func() {}
	})},
	{"Redis writes a copy of its memory", onRedis(func(c *chaos) func() {
		if c.appendOnly {
			return nil // it starts from its log
		}
		c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.Save(ctx).Err() })
		c.copied = c.stats().All.taken()
		return func() {}
	})},
	{"Redis starts from an older copy", olderCopy},
	{"a replica that lacks writes is promoted", onRedis(promote)},
	{"Redis is busy with a script", onRedis(func(c *chaos) func() {
		client := c.redis.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			_ = client.Eval(context.Background(), "while true do end", nil).Err() // it is killed
		}()
		return func() {
			c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.ScriptKill(ctx).Err() })
			<-killed
		}
	})},
	{"Redis forgets its scripts and functions", onRedis(func(c *chaos) func() {
		forget := func() {
			c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.ScriptFlush(ctx).Err() })
			c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.FunctionFlush(ctx).Err() })
		}
		forget()
		return forget
	})},
	{"subscriptions are cut", onRedis(func(c *chaos) func() {
		cut := func() {
			c.onRedis(func(ctx context.Context, r *redis.Client) error {
				return r.Do(ctx, "client", "kill", "type", "pubsub").Err()
			})
		}
		cut()
		return cut
	})},
	{"Redis's clock jumps", jump},
	{"a delete arrives after a submission", onRedis(lateDelete)},
}

// onRedis strikes Redis, if no other fault does.
func onRedis(strike func(*chaos) (end func())) func(*chaos, uint64) (string, func()) {
	return onRedisWith(func(c *chaos, _ uint64) (string, func()) { return "Redis", strike(c) })
}

func onRedisWith(strike func(*chaos, uint64) (what string, end func())) func(*chaos, uint64) (string, func()) {
	return func(c *chaos, target uint64) (string, func()) {
		if c.redisStruck {
			return "", nil
		}
		c.redisStruck = true
		what, end := strike(c, target)
		if end == nil {
			c.redisStruck = false
			return "", nil
		}
		return what, func() {
			end()
			c.redisStruck = false
		}
	}
}

func (c *chaos) startRedis() {
	c.redis.Start()
	c.redisPID = c.redisPid()
}

func (c *chaos) signalRedis(signal syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.redisPID, signal); err != nil {
		c.t.Fatal(err)
	}
}

// onRedis sends a command to Redis itself.
func (c *chaos) onRedis(command func(context.Context, *redis.Client) error) {
	c.t.Helper()
	client := c.redis.Client(func(o *redis.Options) { o.ReadTimeout = time.Minute })
	defer client.Close()
	if err := command(c.t.Context(), client); err != nil {
		c.t.Fatal(err)
	}
}

// chaosCopy is a copy of Redis's memory.
type chaosCopy struct {
	redistest.Copy
	at       time.Time
	answered int // by the provider, when it was made
}

const (
	copiesApart = 2 * time.Second
	oldestCopy  = 60 // seconds that a copy lacks at most
)

// look notes what the fleet is like between faults: it copies Redis's memory now and then, and
// sees whether Redis knows the first two evaluations.
func (c *chaos) look(now seen) {
	c.t.Helper()
	if now.All.Rejected > c.rejected {
		c.t.Logf("%s, after %d calls: the provider has rejected %d", now.At.Format("15:04:05.000"), now.All.Arrived, now.All.Rejected)
		c.rejected = now.All.Rejected
	}
	if c.redisStruck {
		return
	}
	if n := len(c.copies); n == 0 || time.Since(c.copies[n-1].at) > copiesApart {
		c.copies = append(c.copies, chaosCopy{c.redis.Copy(), time.Now(), now.All.taken()})
	}
	if c.listed.IsZero() && c.forgot {
		c.onRedis(func(ctx context.Context, r *redis.Client) error {
			known, err := r.SMIsMember(ctx, "ef:evaluations", c.ids["a"], c.ids["b"]).Result()
			if err == nil && known[0] && known[1] {
				c.listed = time.Now()
			}
			return err
		})
	}
}

// olderCopy kills Redis, which comes back without the writes of 1 to 60 seconds.
var olderCopy = onRedisWith(func(c *chaos, target uint64) (string, func()) {
	lacks := time.Duration(1+target%oldestCopy) * time.Second
	found := -1
	for i, one := range c.copies {
		if found < 0 || time.Since(one.at) >= lacks {
			found = i
		}
	}
	if found < 0 {
		return "", nil
	}
	older := c.copies[found]
	c.redis.Kill()
	if !c.redis.Revert(older.Copy) {
		c.t.Fatal("the server has rewritten its append-only file")
	}
	c.copies = c.copies[:found+1]
	c.forgets(older.answered)
	if !c.appendOnly {
		c.copied = older.answered
	}
	return fmt.Sprintf("one of %s ago", time.Since(older.at).Round(time.Second)), c.startRedis
})

// promote lets a replica follow Redis, cuts it off, and when the fault ends kills Redis and leads
// all connections to the replica.
func promote(c *chaos) func() {
	synced := c.stats().All.taken()
	replica := c.newRedis(c.t, c.redis)
	separate := follow(c.t, replica, c.redis)
	answered := c.stats().All.taken()
	separate()

	return func() {
		c.forgets(answered)
		c.redis.Kill()
		c.redis, c.redisPID = replica, 0
		c.redisPID = c.redisPid()
		c.copies = nil // they are of another server
		if !c.appendOnly {
			c.copied = synced // it has written what it was sent into its file
		}
		for _, w := range c.wires {
			w.lead(replica.Address())
		}
	}
}

// jump sets Redis's clock forward or back, by seconds to days. At the end half of the jumps are
// taken back.
var jump = onRedisWith(func(c *chaos, target uint64) (string, func()) {
	if !redistest.CanSetClock() {
		return "", nil
	}
	const longest = 3 * 24 * 60 * 60 // seconds
	by := time.Duration(math.Pow(longest, float64(target%1000)/999) * float64(time.Second))
	if target/1000%2 == 0 {
		by = -by
	}
	before := c.ahead
	c.setClock(before + by)
	return by.Round(time.Second).String(), func() {
		if target/2000%2 == 0 {
			c.setClock(before)
		}
	}
})

// lateDelete deletes the third evaluation over a connection that is reset, so that the command
// sends everything twice, and submits it again. What was sent first arrives when the fault ends.
func lateDelete(c *chaos) func() {
	known := func() bool {
		return slices.ContainsFunc(c.evaluations(), func(e view.Evaluation) bool { return string(e.ID) == c.ids["c"] })
	}
	if c.cancelled || !known() {
		return nil
	}
	w := newWire(c.t, c.redis.URL())
	w.delay(c.ids["c"])
	c.mayRepeat(c.arrivedOf("c")) // what no results store has
	p := launch(c.t, c.dir, "delete", c.ids["c"], "--force", "--redis", w.url())
	if code := exit(p.wait()); code != exitOK {
		c.breach("exit codes", "delete ended with %d: %s", code, lastLine(p.stderr.String()))
	}
	p = launch(c.t, c.dir, append(c.submission("c"), "--config", "fleet.yaml", "--redis", c.redis.URL())...)
	if code := exit(p.wait()); code != exitOK {
		c.breach("exit codes", "a submission after delete ended with %d: %s", code, lastLine(p.stderr.String()))
	}

	return func() {
		late := w.deliver()
		testrun.Eventually(c.t, "what was late has arrived", func() bool { return w.connections() == 0 })
		if !known() {
			c.breach("late packets", "%d late requests of delete have deleted an evaluation that was submitted since", late)
		}
	}
}

// setClock sets Redis's clock, and notes which days it shows.
func (c *chaos) setClock(ahead time.Duration) {
	c.t.Helper()
	c.noteDay()
	c.ahead = ahead
	if redistest.CanSetClock() {
		c.redis.SetClock(ahead)
	}
	c.noteDay()
}

func (c *chaos) noteDay() { c.days[time.Now().Add(c.ahead).In(c.zone).Format(time.DateOnly)] = true }

// forgets counts the answers that may be asked for again because Redis loses its
// memory: where it goes back to a copy, made when so many calls were answered, those
// recorded since; else (0) those that no results store has and no worker either. Workers
// that are well record theirs again.
func (c *chaos) forgets(copied int) {
	c.endPauses("a", "b")
	c.forgot, c.listed = true, time.Time{}
	c.repeats += chaosLimit
	if copied > 0 {
		c.mayRepeat(c.stats().All.taken() - copied)
		return
	}
	c.orphans = min(c.orphans, c.unstored())
	c.forgetOrphans()
}

// forgetOrphans notes that the answers which workers that were struck knew may be asked for again.
func (c *chaos) forgetOrphans() {
	c.mayRepeat(c.orphans)
	c.orphans = 0
}

// mayRepeat notes that answers may be asked for again, also in batches.
func (c *chaos) mayRepeat(answers int) {
	c.repeats += answers
	c.again += answers
}

// restored reports whether workers have had the time to record again what Redis has forgotten:
// both evaluations were submitted again some seconds ago, or nothing was forgotten.
func (c *chaos) restored() bool {
	return !c.forgot || !c.redisStruck && !c.listed.IsZero() && time.Since(c.listed) > 3*collect.SettleTime
}
