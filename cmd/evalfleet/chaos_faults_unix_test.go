//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/record"
)

// chaosFault is something that goes wrong in a fleet. begin lets it happen and
// returns what happened and how it ends; a nil end says that it could not happen.
type chaosFault struct {
	name  string
	begin func(c *chaos, target uint64) (what string, end func())
}

// chaosFaultKinds are drawn from with equal weight.
var chaosFaultKinds = []chaosFault{
	{"a process is killed", onMember(nil, func(c *chaos, m *member) func() {
		c.kill(m)
		return func() { c.restart(m) }
	})},
	{"a worker is killed", onMember(isWorker, func(c *chaos, m *member) func() {
		c.kill(m)
		return func() { c.restart(m) }
	})},
	{"a process is frozen", onMember(nil, func(_ *chaos, m *member) func() {
		m.signal(syscall.SIGSTOP)
		return func() { m.signal(syscall.SIGCONT) }
	})},
	{"a worker is replaced", onMember(isWorker, func(c *chaos, m *member) func() {
		if c.redisStruck {
			return nil
		}
		m.signal(syscall.SIGTERM)
		c.replaced = append(c.replaced, m.program)
		c.start(m)
		return func() {}
	})},
	{"a worker is added", func(c *chaos, _ uint64) (string, func()) {
		if c.redisStruck {
			return "", nil
		}
		c.member(fmt.Sprintf("worker %d", len(c.members)), "worker")
		m := c.members[len(c.members)-1]
		return m.name, func() {}
	}},
	{"a connection to Redis is stalled", onMember(nil, func(_ *chaos, m *member) func() {
		m.wire.cut()
		return m.wire.mend
	})},
	{"answers of Redis are lost", onMember(nil, func(_ *chaos, m *member) func() {
		m.wire.lose(true)
		return func() { m.wire.lose(false) }
	})},
	{"connections to the provider are cut", func(c *chaos, _ uint64) (string, func()) {
		c.provider.snap()
		return "all workers", func() {}
	}},
	{"a disk is full", onMember(isSubmitter, func(c *chaos, m *member) func() {
		if c.redisStruck {
			return nil
		}
		c.kill(m)
		// Room for the store as it is and a little more, in blocks of 512 bytes.
		m.blocks = 64
		if info, err := os.Stat(filepath.Join(c.dir, m.folder(), "results.db")); err == nil {
			m.blocks += int(info.Size() / 512)
		}
		c.start(m)
		return func() {
			c.kill(m)
			m.killed, m.blocks = true, 0 // it may have ended by itself, and said how to resume
			c.restart(m)
		}
	})},
	{"Redis is killed", onRedis(func(c *chaos) func() {
		c.forgets(!c.appendOnly)
		c.redis.Kill()
		return func() {
			c.redis.Start()
			c.redisPID = c.redisPid()
		}
	})},
	{"Redis stalls", onRedis(func(c *chaos) func() {
		pid := c.redisPID
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			c.t.Fatal(err)
		}
		return func() {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				c.t.Fatal(err)
			}
		}
	})},
	{"Redis is flushed", onRedis(func(c *chaos) func() {
		c.copied = 0
		c.forgets(true)
		c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.FlushAll(ctx).Err() })
		return func() {}
	})},
	{"Redis writes a copy of its memory", onRedis(func(c *chaos) func() {
		if c.appendOnly {
			return nil // it starts from its log
		}
		c.onRedis(func(ctx context.Context, r *redis.Client) error { return r.Save(ctx).Err() })
		c.copied = c.stats().All.Answered
		return func() {}
	})},
	{"an evaluation is paused", func(c *chaos, target uint64) (string, func()) {
		folder := []string{"a", "b"}[target%2]
		if _, paused := c.paused[folder]; c.redisStruck || paused || c.command("pause", c.ids[folder]) != exitOK {
			return "", nil
		}
		before := c.arrivedOf(folder)
		c.paused[folder] = before
		return folder, func() {
			if now, paused := c.paused[folder]; !paused || now != before {
				return // it ended by something else
			}
			c.wantPaused(folder)
			if !c.redisStruck && c.command("resume", c.ids[folder]) == exitOK {
				delete(c.paused, folder)
			}
		}
	}},
	{"an evaluation is cancelled", func(c *chaos, _ uint64) (string, func()) {
		if c.redisStruck || c.cancelled || c.command("cancel", c.ids["c"]) != exitOK {
			return "", nil
		}
		c.cancelled = true
		return "c", func() {}
	}},
}

func isWorker(m *member) bool    { return m.is("worker") }
func isSubmitter(m *member) bool { return m.is("enqueue") }

// onMember strikes one member that is running, has no other fault, and is one of
// those chosen (nil: any). A nil end says that nothing could be done to it.
func onMember(chosen func(*member) bool, strike func(*chaos, *member) (end func())) func(*chaos, uint64) (string, func()) {
	return func(c *chaos, target uint64) (string, func()) {
		var able []*member
		for _, m := range c.members {
			if !m.struck && c.running(m) && (chosen == nil || chosen(m)) {
				able = append(able, m)
			}
		}
		if len(able) == 0 {
			return "", nil
		}
		m := able[target%uint64(len(able))]
		end := strike(c, m)
		if end == nil {
			return "", nil
		}
		if isWorker(m) {
			c.deaths++
			c.repeats += chaosLimit // its calls in flight
			// If Redis forgets, what it was answered and no results store has yet is lost; if
			// Redis has just forgotten, only this worker may have known it.
			c.orphans += c.unstored()
			if !c.restored() {
				c.repeats += c.orphans
				c.orphans = 0
			}
		}
		m.struck = true
		return m.name, func() {
			end()
			m.struck = false
		}
	}
}

// onRedis strikes Redis, if no other fault does.
func onRedis(strike func(*chaos) (end func())) func(*chaos, uint64) (string, func()) {
	return func(c *chaos, _ uint64) (string, func()) {
		if c.redisStruck {
			return "", nil
		}
		c.redisStruck = true
		end := strike(c)
		if end == nil {
			c.redisStruck = false
			return "", nil
		}
		return "Redis", func() {
			end()
			c.redisStruck = false
		}
	}
}

// restart starts a member again, unless Redis is away: without it a program says
// so and ends. Then heal starts it.
func (c *chaos) restart(m *member) {
	if !c.running(m) && !c.redisStruck {
		c.start(m)
	}
}

// forgets counts the answers that may be asked for again because Redis loses its
// memory: where it goes back to an older copy, those recorded since; else those that no
// results store has and no worker either. Workers that are well record theirs again.
func (c *chaos) forgets(memory bool) {
	if !memory {
		return
	}
	c.endPauses("a", "b")
	c.forgot = true
	c.repeats += chaosLimit
	if c.copied > 0 {
		c.repeats += c.stats().All.Answered - c.copied
		return
	}
	c.repeats += min(c.orphans, c.unstored())
	c.orphans = 0
}

// restored reports whether workers have had the time to record again what Redis has forgotten:
// both evaluations were submitted again some seconds ago, or nothing was forgotten.
func (c *chaos) restored() bool {
	c.t.Helper()
	if !c.forgot {
		return true
	}
	if c.redisStruck {
		return false // cannot be asked now
	}
	submitted := 0
	for _, e := range c.evaluations() {
		if string(e.ID) != c.ids["c"] && (e.Status == record.StatusDone || time.Since(e.Created) > 3*collect.SettleTime) {
			submitted++
		}
	}
	return submitted == 2
}

// unstored returns how many answers no results store has.
func (c *chaos) unstored() int {
	c.t.Helper()
	answered, stored := c.stats().All.Answered, 0
	for _, folder := range []string{"a", "b"} {
		rows, _, _ := c.rows(folder)
		stored += rows
	}
	return max(0, answered-stored)
}

// wantPaused wants no call of a paused evaluation to have arrived but those that were
// granted before.
func (c *chaos) wantPaused(folder string) {
	c.t.Helper()
	if late := c.arrivedOf(folder) - c.paused[folder]; late > chaosLimit {
		c.t.Errorf("%d calls of %s arrived after pause had returned, want at most the %d in flight", late, folder, chaosLimit)
	}
}

// endPauses notes that something else than `resume` is about to end pauses: a
// submission, or a loss of Redis's memory.
func (c *chaos) endPauses(folders ...string) {
	c.t.Helper()
	for _, folder := range folders {
		if _, paused := c.paused[folder]; paused {
			c.wantPaused(folder)
			delete(c.paused, folder)
		}
	}
}

// onRedis sends a command to Redis itself.
func (c *chaos) onRedis(command func(context.Context, *redis.Client) error) {
	c.t.Helper()
	client := c.redis.Client(func(o *redis.Options) { o.ReadTimeout = time.Minute })
	if err := command(c.t.Context(), client); err != nil {
		c.t.Fatal(err)
	}
}

// models by folder; each evaluation has a model of its own.
var chaosModels = map[string]string{"a": "careful", "b": "average", "c": "careless"}

func (c *chaos) arrivedOf(folder string) int { return c.stats().Models[chaosModels[folder]].Arrived }
