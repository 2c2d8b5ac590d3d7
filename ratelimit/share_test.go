package ratelimit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Processes that reserve alike share a window of tokens evenly, whenever they started:
// on average, for which process has most of one window is chance.
func TestTokensAreSharedByNewcomers(t *testing.T) {
	t.Parallel()
	embedded(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		limit := tokens(200_000, time.Minute, 0)
		register(t, client, "fleet", limit)
		const each = 1500
		var mu sync.Mutex
		counting, used := false, map[string]int{}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		worker := func(name string) {
			p := start(t, connect(), name)
			for range 20 {
				group.Go(func() {
					for ctx.Err() == nil {
						lease, err := p.Acquire(ctx, Request{ID: newID(), Call: openai, Input: each})
						if err != nil {
							return
						}
						mu.Lock()
						if counting {
							used[name] += each
						}
						mu.Unlock()
						sleep(ctx, 2*time.Second)
						lease.Settle(Settlement{Used: &Used{Input: each}})
						lease.End()
					}
				})
			}
		}
		worker("a")
		time.Sleep(90 * time.Second)
		for _, name := range []string{"b", "c", "d", "e"} {
			worker(name)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		counting = true
		mu.Unlock()
		time.Sleep(12 * time.Minute)
		cancel()
		group.Wait()
		all := 0
		for _, n := range used {
			all += n
		}
		if all < 12*190_000 {
			t.Errorf("%d tokens in 12 minutes, want nearly 2,400,000", all)
		}
		for name, n := range used {
			if 10*n < all || 10*n > 3*all {
				t.Errorf("process %s used %d of %d tokens, want about a fifth", name, n, all)
			}
		}
	})
}
