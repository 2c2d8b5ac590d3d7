package redistest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Meeting is a client's hook that calls Do once, before one of the commands that the client sends. A pipeline counts as
// one command. It is safe for concurrent use.
type Meeting struct {
	Do   func()
	left atomic.Int64 // commands until then; 0 or less: it was called, or none was chosen
}

// Before chooses the n-th command from now, from 1.
func (m *Meeting) Before(n int) { m.left.Store(int64(n)) }

// Met reports whether the command has come.
func (m *Meeting) Met() bool { return m.left.Load() <= 0 }

func (m *Meeting) step() {
	if m.left.Add(-1) == 0 {
		m.Do()
	}
}

// DialHook changes nothing.
func (m *Meeting) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (m *Meeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.step()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline.
func (m *Meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		m.step()
		return next(ctx, cmds)
	}
}
