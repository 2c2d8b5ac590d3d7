package ratelimit

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// aheadFor is how much later than this process's lease allows a heartbeat may end before the clock counts as set back:
// other processes may have a longer lease, but none this long.
const aheadFor = 5 * time.Minute

// correctClock corrects stored times for a server whose clock was ahead when they were stored, and was set back while
// the server was down. Otherwise leases, rates and cooldowns would last for as long as the clock was ahead, and no
// process would notice if all were restarted with the machine. A heartbeat shows it, because it ends one lease after it
// was renewed. Other processes that predict the clock find that it was set.
func (a access) correctClock(ctx context.Context, c askable) error {
	now, err := c.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("read redis's clock: %w", err)
	}
	beats, err := c.ZRangeWithScores(ctx, a.keys.alive(), 0, -1).Result()
	if err != nil {
		return fmt.Errorf("read heartbeats: %w", err)
	}
	if len(beats) == 0 {
		return nil
	}
	ahead := time.UnixMicro(int64(beats[len(beats)-1].Score)).Sub(now) - a.cfg.Lease
	if ahead < aheadFor {
		return nil
	}

	reply, err := readScript.RunRO(ctx, c, a.keys.read(), "").StringSlice()
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	registry, err := (&registry{}).update(a.keys, reply)
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	fields, err := c.HMGet(ctx, a.keys.registry(), clockField).Result()
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	set, ok := fields[0].(string)
	if !ok {
		set = "0"
	}
	ledgers := []string{backgroundCalls}
	for _, beat := range beats {
		ledgers = append(ledgers, beat.Member.(string))
	}

	_, err = a.moveStored(ctx, c, registry, ledgers, now,
		set, -ahead.Microseconds(), -ahead.Microseconds(), a.cfg.Lease.Microseconds(),
		clockEpoch+rand.Text(), "", "", a.keys.wake(""))
	return err
}
