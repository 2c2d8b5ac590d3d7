package ratelimit

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// scriptsTake delays scripts by a random time. go-redis holds a lock while it opens a connection, and
// the other commands of that take no longer than usual.
func scriptsTake(most time.Duration) func([]byte) time.Duration {
	return func(sent []byte) time.Duration {
		if bytes.Contains(sent, []byte("evalsha")) {
			return rand.N(most)
		}
		return 100 * time.Microsecond
	}
}

// The way to Redis takes 0 to 300 ms. The log says that a lease of 1 s is too short for it, and
// which is not; with that one, calls start and nothing is said.
func TestLeaseTooShortForTheWayToRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease time.Duration
		says  int // how often
	}{
		{time.Second, 1},
		{6 * time.Second, 0},
	} {
		onServer(t, func(t testing.TB, server *miniredis.Miniredis, connect func() *redis.Client) {
			register(t, connect(), "fleet", inFlight(Scope{}, 4))
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", PoolSize: 100, Dialer: func(context.Context, string, string) (net.Conn, error) {
				conn, err := server.Dial()
				if err != nil {
					return nil, err
				}
				return slowBy(conn, scriptsTake(300*time.Millisecond)), nil
			}})
			t.Cleanup(func() { _ = client.Close() })

			said, calls, sessions := &logLines{}, 0, 0
			var l *Limiter
			end := time.Now().Add(time.Minute)
			for time.Now().Before(end) && said.count("least_lease") < 1 {
				sessions++
				ctx, cancel := context.WithDeadline(t.Context(), end)
				l = New(client, Config{Worker: newID(), Lease: c.lease, Log: zerolog.New(said)})
				done := make(chan error, 1)
				go func() { done <- l.Run(ctx) }()
				for {
					lease, err := l.Acquire(ctx, Request{Call: openai})
					if err != nil {
						break
					}
					if lease.Check() == nil {
						calls++
					}
					lease.End()
				}
				cancel()
				if err := <-done; err != nil {
					t.Logf("the session ended: %v", err)
				}
			}
			t.Logf("lease %s: %d calls, %d sessions: %s", c.lease, calls, sessions, said.text.String())
			if n := said.count(`"least_lease":"`); n != c.says {
				t.Errorf("the log names a lease %d times, want %d", n, c.says)
			}
			if c.says == 0 && (calls == 0 || sessions > 1) {
				t.Errorf("%d calls in %d sessions, want calls in one", calls, sessions)
			}
		})
	}
}
