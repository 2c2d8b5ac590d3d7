package ratelimit

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, suspended or not; 0: unknown. On macOS,
// CLOCK_MONOTONIC_RAW is mach_continuous_time. CLOCK_MONOTONIC also counts sleep, but is set
// together with the wall clock.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
