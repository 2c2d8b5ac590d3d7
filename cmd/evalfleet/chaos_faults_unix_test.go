//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testsleep"
)

// chaosFault is something that goes wrong in a fleet. begin lets it happen and
// returns what happened and how it ends; a nil end says that it could not happen.
type chaosFault struct {
	name  string
	begin func(c *chaos, target uint64) (what string, end func())
}

// chaosFaultKinds are drawn from with equal weight.
var chaosFaultKinds = slices.Concat(fleetFaults, redisFaults, refusingFaults, sickFaults)

// fleetFaults strike processes, their connections, and evaluations.
var fleetFaults = []chaosFault{
	{"a process is killed", onMember(nil, func(c *chaos, m *member) func() {
		c.kill(m)
		return func() { c.restart(m) }
	})},
	{"a worker is killed", onMember(isWorker, func(c *chaos, m *member) func() {
		c.kill(m)
		return func() { c.restart(m) }
	})},
	{"a process is frozen", onMember(nil, func(c *chaos, m *member) func() { return freeze(c.t, m) })},
	{"the controller is frozen", onMember(isController, func(c *chaos, m *member) func() { return freeze(c.t, m) })},
	{"everything is frozen", onRedis(func(c *chaos) func() { return c.sleep(freeze) })},
	{"a process is suspended", onMember(nil, func(c *chaos, m *member) func() { return suspend(c.t, m) })},
	{"everything is suspended", onRedis(func(c *chaos) func() { return c.sleep(suspend) })},
	{"a worker is replaced", onMember(isWorker, func(c *chaos, m *member) func() {
		if c.redisStruck {
			return nil
		}
		m.send(syscall.SIGTERM)
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
	{"requests arrive after a reset", onMember(nil, func(_ *chaos, m *member) func() {
		m.wire.delay("evalsha")
		return func() { m.wire.deliver() }
	})},
	{"published messages are lost", onMember(nil, func(_ *chaos, m *member) func() {
		m.wire.deafen(true)
		return func() { m.wire.deafen(false) }
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

// send sends a signal to a process that may have ended meanwhile.
func (m *member) send(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Fatal(err)
	}
}

// freeze stops a process, whose clocks run on.
func freeze(_ *testing.T, m *member) (end func()) {
	m.send(syscall.SIGSTOP)
	return func() { m.send(syscall.SIGCONT) }
}

// suspend stops a process and its monotonic clock, as a machine that sleeps does. The end is nil
// where no test can do that, and for a process that has ended meanwhile.
func suspend(t *testing.T, m *member) (end func()) {
	t.Helper()
	wake, err := testsleep.Suspend(m.cmd.Process.Pid)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := wake(); err != nil {
			t.Fatal(err)
		}
	}
}

// sleep stops all processes that nothing has struck, and Redis.
func (c *chaos) sleep(stop func(*testing.T, *member) (end func())) (end func()) {
	wake := c.stop(stop, func(*member) bool { return true })
	if wake == nil {
		return nil
	}
	c.repeats += chaosLimit // the calls in flight
	c.signalRedis(syscall.SIGSTOP)
	return func() {
		c.signalRedis(syscall.SIGCONT)
		wake()
	}
}

// stop stops all processes that are chosen and that nothing has struck; a nil end says that there
// are none.
func (c *chaos) stop(one func(*testing.T, *member) (end func()), chosen func(*member) bool) (end func()) {
	var stopped []*member
	var ends []func()
	for _, m := range c.members {
		if m.struck || !c.running(m) || !chosen(m) {
			continue
		}
		if end := one(c.t, m); end != nil {
			m.struck = true
			stopped, ends = append(stopped, m), append(ends, end)
		}
	}
	if len(stopped) == 0 {
		return nil
	}
	return func() {
		for i, m := range stopped {
			ends[i]()
			m.struck = false
		}
	}
}

func isWorker(m *member) bool    { return m.is("worker") }
func isSubmitter(m *member) bool { return m.is("enqueue") }

func isController(m *member) bool { return m.is("controller") }

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
				c.forgetOrphans()
			}
		}
		m.struck = true
		return m.name, func() {
			end()
			m.struck = false
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

// unstored returns how many answers no results store has.
func (c *chaos) unstored() int {
	c.t.Helper()
	answered, stored := c.stats().All.taken(), 0
	for _, folder := range []string{"a", "b", "d"} {
		stored += c.rows(folder).all
	}
	return max(0, answered-stored)
}

// wantPaused wants no call of a paused evaluation to have arrived but those that were
// granted before.
func (c *chaos) wantPaused(folder string) {
	c.t.Helper()
	if late, most := c.arrivedOf(folder)-c.paused[folder], c.inFlight(); late > most {
		c.breach("pause", "%d calls of %s arrived after pause had returned, want at most the %d in flight", late, folder, most)
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

// arrivedOf returns how many calls of an evaluation have arrived.
func (c *chaos) arrivedOf(folder string) int {
	_, model, _ := strings.Cut(chaosJudges[folder], ":")
	return c.stats().Models[model].asked()
}
