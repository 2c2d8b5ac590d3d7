package worker

import "context"

// longAnswers bounds the bytes of answers that one process handles at once, beside
// providers.SmallAnswer for each call in flight. Processing an answer, until it is recorded,
// takes a few times as much.
const longAnswers = 64 << 20

// takeRoom waits until there is room for a long answer, which the run keeps until it
// asks again or ends.
func (r *run) takeRoom(ctx context.Context) error {
	if r.room > 0 {
		return nil
	}
	most := min(int64(r.cfg.MaxAnswer), longAnswers)
	if err := r.rooms.Acquire(ctx, most); err != nil {
		return err
	}
	r.room = most
	return nil
}

func (r *run) leaveRoom() {
	r.rooms.Release(r.room)
	r.room = 0
}
