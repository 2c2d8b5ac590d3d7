//go:build !linux && !darwin

package ratelimit

import "time"

// sinceBoot returns 0: the time since boot is unknown. On Windows, Go's monotonic clock itself (the interrupt time)
// also runs while the machine is suspended.
func sinceBoot() time.Duration { return 0 }
