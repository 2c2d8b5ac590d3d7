package main

import (
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
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
	server := redistest.NewTCP(t)
	url := slowly(t, server, 300*time.Millisecond)
	dir := tree(t, map[string]string{"fleet.yaml": "concurrency: {lease: 1s}\n"})
	client := server.Client()

	var p *program
	for refused := false; !refused; { // a worker starts if Redis is too slow for it to measure the way
		p = launch(t, dir, "worker", "--redis", url, "--config", "fleet.yaml")
		testrun.Eventually(t, "the worker is refused or starts", func() bool {
			select {
			case <-p.ended:
				refused = true
			default:
			}
			return refused || client.ZCard(t.Context(), "{ef}:alive").Val() > 0
		})
		if !refused {
			_ = p.cmd.Process.Kill()
			<-p.ended
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}

	code, stderr := p.wait(), p.stderr.String()
	if code != int(exitUsage) || !strings.Contains(stderr, "fleet.yaml: concurrency.lease: 1s is too short for this Redis") {
		t.Errorf("exit code %d, want %d and the reason: %s", code, exitUsage, stderr)
	}
}
