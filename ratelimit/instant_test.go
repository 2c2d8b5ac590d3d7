package ratelimit

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// machine is what the clocks of a process show beside time.Now.
type machine struct {
	suspended atomic.Int64 // ns for which Go's monotonic clock stood still
	set       atomic.Int64 // ns by which the wall clock was set
}

func (m *machine) suspend(d time.Duration) { m.suspended.Add(int64(d)) }
func (m *machine) setWall(d time.Duration) { m.set.Add(int64(d)) }

// startOn starts a limiter on a machine.
func startOn(t testing.TB, m *machine, client redis.UniversalClient, cfg Config) *process {
	l := New(client, cfg)
	real := l.own
	l.own = func() instant {
		now, suspended := real(), time.Duration(m.suspended.Load())
		return instant{ran: now.ran + suspended, wall: now.wall + suspended + time.Duration(m.set.Load())}
	}
	return run(t, l)
}

func wantFenced(t testing.TB, p *process) {
	t.Helper()
	testrun.Eventually(t, "the worker fences itself", func() bool {
		select {
		case <-p.Fenced():
			return true
		default:
			return false
		}
	})
}

// A machine is suspended for longer than a lease, and Go's clock stops meanwhile: when the machine continues, nothing
// is sent, although no timer is due.
func TestSuspendedMachineSendsNothing(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		laptop := &machine{}
		p := startOn(t, laptop, connect(), Config{Worker: "w", Lease: time.Minute})
		lease := mustAcquire(t, p, newID(), openai)
		if err := lease.Check(); err != nil {
			t.Fatal(err)
		}
		laptop.suspend(time.Minute)
		if err := lease.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("after the suspension a request may be sent: %v", err)
		}
		wantFenced(t, p)
	})
}

// A rate admits a call for the moment: a call that slept meanwhile is too late.
func TestCallThatSleptIsTooLate(t *testing.T) {
	t.Parallel()
	for what, sleep := range map[string]func(*machine, time.Duration){
		"suspended": (*machine).suspend,
		"paused":    (*machine).setWall,
	} {
		t.Run(what, func(t *testing.T) { // each on its own Redis, which may have forgotten no call
			everywhere(t, func(t testing.TB, connect func() *redis.Client) {
				limit := rate(1000, time.Second, 1)
				limit.Jitter = time.Second
				register(t, connect(), "fleet", limit)
				laptop := &machine{}
				p := startOn(t, laptop, connect(), Config{Worker: what, Lease: time.Minute})
				lease := mustAcquire(t, p, newID(), openai)

				sleep(laptop, 2*time.Second)
				if err := lease.Check(); !errors.Is(err, ErrLost) {
					t.Errorf("a call of a machine that was %s for 2 s may be sent: %v", what, err)
				}
				mustRelease(t, lease)
			})
		})
	}
}

// A virtual machine is paused for longer than a lease: only its wall clock is set right when it
// continues. It sends nothing before it has asked Redis, and learns there that it was paused.
func TestPausedMachineSendsNothing(t *testing.T) {
	t.Parallel()
	settable(t, func(t testing.TB, connect func() *redis.Client, set func(time.Duration)) {
		register(t, connect(), "fleet", inFlight(Scope{}, 2))
		vm, others := &machine{}, &machine{}
		paused := startOn(t, vm, connect(), Config{Worker: "paused", Lease: shortLease})
		awake := startOn(t, others, connect(), Config{Worker: "awake", Lease: shortLease})
		mustRelease(t, mustAcquire(t, awake, newID(), openai))
		lease := mustAcquire(t, paused, newID(), openai)

		for range 2 { // time passes for all but the one
			set(shortLease / 2)
			others.suspend(shortLease / 2)
			if err := awake.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		vm.setWall(shortLease)
		if err := lease.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("after the pause a request may be sent: %v", err)
		}
		wantFenced(t, paused)
		select {
		case <-awake.Fenced():
			t.Error("the other worker fenced itself")
		default:
		}
	})
}

// A wall clock is set: a call in flight keeps its lease, and calls start again after a renewal.
func TestWallClockIsSet(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 2))
		host := &machine{}
		const long = time.Minute
		p := startOn(t, host, connect(), Config{Worker: "w", Lease: long})
		lease := mustAcquire(t, p, newID(), openai)
		for _, by := range []time.Duration{time.Second, -time.Hour, 2 * time.Hour} {
			host.setWall(by)
			if err := lease.Check(); (err != nil) != (by > long) {
				t.Errorf("set by %s: %v", by, err)
			}
			another := mustAcquire(t, p, newID(), openai)
			if err := another.Check(); err != nil {
				t.Errorf("set by %s: a new call may not be sent: %v", by, err)
			}
			mustRelease(t, another)
			testrun.Eventually(t, "the lease is renewed", func() bool { return lease.Check() == nil })
		}
		mustRelease(t, lease)
		if lost := p.Health().Lost; lost > 0 {
			t.Errorf("%d leases were lost", lost)
		}
	})
}

// While leases are in doubt, Redis renews only those that it holds: others may have got what it
// has forgotten.
func TestDoubtfulLeasesAreNotTakenOnTrust(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", inFlight(Scope{}, 1))
		for _, doubtful := range []bool{false, true} {
			vm := &machine{}
			p := startOn(t, vm, connect(), Config{Worker: newID(), Lease: time.Minute})
			lease := mustAcquire(t, p, newID(), openai)
			keys := client.Keys(t.Context(), "{ef}:*").Val()
			keys = removed(keys, "{ef}:limits")
			if err := client.Del(t.Context(), keys...).Err(); err != nil {
				t.Fatal(err)
			}
			blind := time.Now().Add(time.Hour).UnixMicro()
			if err := client.HSet(t.Context(), "{ef}:limits", "epoch", newID(), "blind", blind).Err(); err != nil {
				t.Fatal(err)
			}
			if doubtful {
				vm.setWall(time.Hour)
			}
			if err := p.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := lease.Check(); (err != nil) != doubtful {
				t.Errorf("doubtful %t: %v", doubtful, err)
			}
			if err := client.HDel(t.Context(), "{ef}:limits", "blind").Err(); err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lease)
		}
	})
}

func removed(list []string, one string) (rest []string) {
	for _, s := range list {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

// The machine's clock runs with Go's.
func TestSinceBoot(t *testing.T) {
	t.Parallel()
	earliest := time.Now()
	before := sinceBoot()
	latest := time.Now()
	if before == 0 {
		if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
			t.Fatal("no clock counts the time for which the machine is suspended")
		}
		t.Skip("Go's clock counts it")
	}
	time.Sleep(20 * time.Millisecond)
	least := time.Since(latest)
	passed := sinceBoot() - before
	most := time.Since(earliest)
	const step = time.Millisecond // either clock may be slewed
	if passed < least-step || passed > most+step {
		t.Errorf("%s passed, want %s to %s", passed, least, most)
	}
}

func BenchmarkOwnClock(b *testing.B) {
	began, boot := time.Now(), sinceBoot()
	for b.Loop() {
		_ = instant{ran: max(time.Since(began), sinceBoot()-boot)}
	}
}
