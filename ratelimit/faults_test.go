package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/redis/go-redis/v9"
)

// fault is a go-redis hook between a client and its Redis.
type fault struct {
	mu sync.Mutex
	// thaw is closed when commands may continue; nil: they may.
	thaw chan struct{}
	cut  bool // commands fail
	// twice sends every script twice, as a client does that lost the first
	// answer.
	twice bool
	// lost is the share of scripts whose answer is lost.
	lost float64
	// ran is how many scripts were sent.
	ran int
}

func (f *fault) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran
}

var errCut = errors.New("connection cut")

// set changes the fault.
func (f *fault) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fault) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fault) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f.mu.Lock()
		thaw, cut, twice, lost := f.thaw, f.cut, f.twice, f.lost > rand.Float64()
		f.mu.Unlock()
		if thaw != nil {
			<-thaw
		}
		if cut {
			cmd.SetErr(errCut)
			return errCut
		}
		script := cmd.Name() == "evalsha" || cmd.Name() == "eval"
		if script {
			f.set(func() { f.ran++ })
		}
		if script && twice {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		err := next(ctx, cmd)
		if script && lost && err == nil {
			cmd.SetErr(errCut)
			return errCut
		}
		return err
	}
}

func (f *fault) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// faulty is a client whose way to Redis can be broken.
func faulty(client *redis.Client) (*redis.Client, *fault) {
	f := &fault{}
	client.AddHook(f)
	return client, f
}
