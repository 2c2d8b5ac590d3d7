package call

import (
	"context"

	"github.com/evalfleet/evalfleet/providers"
)

// LongAnswers bounds the bytes of answers that one process handles at once, in addition to providers.SmallAnswer for
// each call in flight. Processing an answer, until it is recorded, takes a few times as much memory.
const LongAnswers = 64 << 20

// takeRoom waits until there is room for a long answer. The run keeps the room until it makes its next call or ends.
func (c *Calls) takeRoom(ctx context.Context) error {
	if c.room > 0 {
		return nil
	}
	most := min(int64(c.by.MaxAnswer), LongAnswers)
	if err := c.by.rooms.Acquire(ctx, most); err != nil {
		return err
	}
	c.room = most
	return nil
}

// Reading limits what the run's calls read: many long answers at once wait for each other.
func (c *Calls) Reading() providers.Reading {
	return providers.Reading{Most: c.by.MaxAnswer, Room: c.takeRoom}
}

// LeaveRoom releases the room for a long answer.
func (c *Calls) LeaveRoom() {
	c.by.rooms.Release(c.room)
	c.room = 0
}
