package ratelimit

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// bubble is a test that runs in a bubble of testing/synctest, where the test
// binary's own deadline means nothing.
type bubble struct{ testing.TB }

// exact reports whether the test runs on such a clock. Only there does a test
// say how long something may take.
func exact(t testing.TB) bool {
	_, ok := t.(bubble)
	return ok
}

// embedded runs a test against the embedded Redis on a clock of their own,
// which moves on only when every goroutine of the test waits. Such a test takes
// no time, whatever it waits for, and cannot be late.
func embedded(t *testing.T, test func(t testing.TB, connect func() *redis.Client)) {
	t.Helper()
	onServer(t, func(t testing.TB, _ *miniredis.Miniredis, connect func() *redis.Client) { test(t, connect) })
}

func onServer(t *testing.T, test func(t testing.TB, server *miniredis.Miniredis, connect func() *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		server := miniredis.NewMiniRedis()
		t.Cleanup(server.Close)
		connect := func() *redis.Client {
			client := redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:0", // go-redis looks a name up
				Dialer: func(context.Context, string, string) (net.Conn, error) {
					conn, err := server.Dial()
					if err != nil {
						return nil, err
					}
					return slow(conn), nil
				},
				PoolSize: 100, // go-redis shares the timers of a full pool among all tests
			})
			t.Cleanup(func() { _ = client.Close() })
			return client
		}
		test(bubble{t}, server, connect)
	})
}

// slow puts a wire before a connection, on which what is sent takes time: on a clock
// that moves on only when all wait, everything would happen in the same microsecond.
// The wire takes what is sent at once, because go-redis sends under a lock, and a
// goroutine that waits for a lock does not let the bubble's clock move on.
func slow(server net.Conn) net.Conn {
	return slowBy(server, func([]byte) time.Duration { return 100 * time.Microsecond })
}

// slowBy is slow with the time that what is sent takes.
func slowBy(server net.Conn, takes func(sent []byte) time.Duration) net.Conn {
	client, end := net.Pipe()
	sent := make(chan []byte, 1000)
	go func() {
		defer close(sent)
		for {
			chunk := make([]byte, 4096)
			n, err := end.Read(chunk)
			if err != nil {
				return
			}
			sent <- chunk[:n]
		}
	}()
	go func() {
		defer server.Close()
		for chunk := range sent {
			time.Sleep(takes(chunk))
			_, _ = server.Write(chunk) // a closed one ends the copy below, and that the loop above
		}
	}()
	go func() {
		defer end.Close()
		_, _ = io.Copy(end, server)
	}()
	return client
}
