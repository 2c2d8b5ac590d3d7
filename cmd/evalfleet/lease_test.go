package main

import (
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// slowly relays connections to a server and delays each of its answers by a random time below most.
// It returns the URL of the relay.
func slowly(t *testing.T, server *redistest.Server, most time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	relay := func(to, from net.Conn, most time.Duration) {
		defer to.Close()
		data := make([]byte, 64<<10)
		for {
			n, err := from.Read(data)
			if err != nil {
				return
			}
			if most > 0 {
				time.Sleep(rand.N(most))
			}
			if _, err := to.Write(data[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server.Address())
			if err != nil {
				_ = client.Close()
				continue
			}
			go relay(to, client, 0)
			go relay(client, to, most)
		}
	}()
	return "redis://" + listener.Addr().String()
}

// A worker whose lease is too short for the way to Redis does not start, and says which would work.
func TestWorkerRefusesALeaseThatIsTooShort(t *testing.T) {
	t.Parallel()
	url := slowly(t, redistest.NewTCP(t), 300*time.Millisecond)
	dir := tree(t, map[string]string{"fleet.yaml": "concurrency: {lease: 1s}\n"})
	code, _, stderr := evalfleet(t, nil, "worker", "--redis", url, "--config", dir+"/fleet.yaml")
	if code != int(exitUsage) || !strings.Contains(stderr, "fleet.yaml: concurrency.lease: 1s is too short for this Redis") {
		t.Errorf("exit code %d, want %d and the reason: %s", code, exitUsage, stderr)
	}
}
