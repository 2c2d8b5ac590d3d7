//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// awaiting is a service that waits for its Redis.
type awaiting struct {
	*program
	redis   *redistest.Server
	address string // of its metrics
}

// startsBeforeRedis starts a service, and waits until it says that it waits for Redis.
func startsBeforeRedis(t *testing.T, service ...string) awaiting {
	t.Helper()
	w := awaiting{redis: redistest.NewTCP(t), address: testrun.FreeAddress(t)}
	w.redis.Kill()
	w.program = launch(t, t.TempDir(), append(service, "--redis", w.redis.URL(), "--metrics-addr", w.address)...)
	testrun.EventuallyGot(t, "it says that it waits", func() (string, bool) {
		said := w.stderr.String()
		return said, strings.Contains(said, "waiting up to 1m0s for Redis")
	})
	return w
}

// status waits until the service answers a path with a status.
func (w awaiting) status(path string, want int) {
	w.t.Helper()
	testrun.EventuallyGot(w.t, fmt.Sprintf("%s is answered with %d", path, want), func() (string, bool) {
		answer, err := http.Get("http://" + w.address + path)
		if err != nil {
			return err.Error(), false
		}
		defer answer.Body.Close()
		return answer.Status, answer.StatusCode == want
	})
}

var waitingServices = map[string][]string{"worker": {"worker"}, "controller": {"controller", "--listen", "off"}}

// A service that starts before Redis says once what it waits for, is alive but not ready, and works once Redis answers.
func TestServicesWaitForRedisAtStart(t *testing.T) {
	t.Parallel()
	for name, service := range waitingServices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startsBeforeRedis(t, service...)
			w.status(metrics.HealthPath, http.StatusOK)
			w.status(metrics.ReadyPath, http.StatusServiceUnavailable)
			w.redis.Start()
			w.status(metrics.ReadyPath, http.StatusOK)

			w.signal(syscall.SIGTERM)
			code, said := w.wait(), w.stderr.String()
			if code != int(exitOK) || strings.Count(said, "waiting") != 1 || !strings.Contains(said, "redis at "+w.redis.Address()+": is unreachable") {
				t.Errorf("ended with %d, want %d, and one line about the wait, which names the address", code, exitOK)
			}
		})
	}
}

// A signal ends the wait for Redis as it ends the work.
func TestServicesStopWhileTheyWaitForRedis(t *testing.T) {
	t.Parallel()
	for name, service := range waitingServices {
		for signal, want := range map[syscall.Signal]exit{syscall.SIGTERM: exitOK, syscall.SIGINT: exitInterrupted} {
			t.Run(fmt.Sprintf("%s, %s", name, signal), func(t *testing.T) {
				t.Parallel()
				w := startsBeforeRedis(t, service...)
				w.signal(signal)
				code, says := w.wait(), "stopped before Redis at "+w.redis.Address()+" answered"
				if code != int(want) || !strings.Contains(w.stderr.String(), says) {
					t.Errorf("ended with %d, want %d and the message %q", code, want, says)
				}
			})
		}
	}
}

// A Redis that refuses the password has started: a service ends at once.
func TestServicesDoNotWaitForAnotherPassword(t *testing.T) {
	t.Parallel()
	server := redistest.NewTCP(t)
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	for name, service := range waitingServices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, t.TempDir(), append(service, "--redis", server.URL())...)
			code, said := p.wait(), p.stderr.String()
			if code != int(exitUnreachable) || !strings.Contains(said, "refuses the password") || strings.Contains(said, "waiting") {
				t.Errorf("ended with %d, want %d without a wait", code, exitUnreachable)
			}
		})
	}
}

// A service that has waited for long enough ends with the error, so that what started it can see that something is wrong.
func TestServicesWaitForRedisWithinBounds(t *testing.T) {
	t.Parallel()
	redis, err := open(dial.Settings{URL: "redis://" + testrun.FreeAddress(t)}, "ef", dial.Worker, 0, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	redis.within = 10 * time.Millisecond
	ctx, cancel := context.WithDeadline(t.Context(), testrun.Deadline(t))
	defer cancel()
	err = redis.await(ctx)
	if failure.KindOf(err) != failure.Unavailable || !strings.Contains(err.Error(), "is unreachable") {
		t.Errorf("%v, want that Redis is unreachable", err)
	}
}
