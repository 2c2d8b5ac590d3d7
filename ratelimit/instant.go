package ratelimit

import "time"

// instant is a moment on an ownClock. The zero instant is none.
type instant struct {
	// ran is the time since the clock was made, including the time for which the process
	// was frozen or the machine suspended.
	ran time.Duration
	// wall is the time of day, which may be set.
	wall time.Duration
}

func (i instant) add(d time.Duration) instant { return instant{i.ran + d, i.wall + d} }

func (i instant) sub(earlier instant) time.Duration { return i.ran - earlier.ran }

func (i instant) isZero() bool { return i == instant{} }

// reached reports whether moment has come.
func (i instant) reached(moment instant) bool { return i.ran >= moment.ran }

// mayHaveReached reports whether moment has come, or has come if the wall clock is right. A virtual machine that was
// paused notices only by its wall clock, which is set when it continues. A wall clock that was set for another reason
// looks the same.
func (i instant) mayHaveReached(moment instant) bool {
	return i.reached(moment) || i.wall >= moment.wall
}

func earlier(a, b instant) instant {
	if b.ran < a.ran {
		return b
	}
	return a
}

// ownClock returns the current instant. time.Now does not show how time passes for this process: Go's monotonic clock
// stops while a Linux or macOS machine is suspended, while time passes for Redis and the provider.
type ownClock func() instant

// machineClock is the clock that newOwnClock reads in addition to time.Now; it returns 0 if there is none. Tests
// replace it, because a bubble of testing/synctest has only time.Now.
var machineClock = sinceBoot

func newOwnClock() ownClock {
	began, boot := time.Now(), machineClock()
	return func() instant {
		now := time.Now()
		ran := now.Sub(began)
		if since := machineClock(); since > 0 {
			ran = max(ran, since-boot)
		}
		return instant{ran: ran, wall: time.Duration(now.UnixNano())}
	}
}
