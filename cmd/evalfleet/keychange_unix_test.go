//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// rotated is a provider whose key changes without a moment in which both are valid: once it has answered some calls, it
// waits for change, and refuses the old key.
type rotated struct {
	judges *simulator.Simulator
	after  int // answers
	change func()

	mu       sync.Mutex // guards all below
	keys     []string   // the valid one first
	answered int
	refused  int
}

func (c *rotated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if c.answered == c.after && len(c.keys) > 1 {
		c.change()
		c.keys = c.keys[1:]
	}
	valid := r.Header.Get("X-Team-Key") == c.keys[0]
	if valid {
		c.answered++
	} else {
		c.refused++
	}
	c.mu.Unlock()

	if !valid {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"the key `+r.Header.Get("X-Team-Key")+` is revoked"}}`)
		return
	}
	c.judges.ServeHTTP(w, r)
}

// A key in a file, and one that a program prints, change while workers make calls. No run fails, no attempt is lost, the
// provider is not paused, and neither key is in Redis, a log or a result.
func TestKeysChangeWhileCallsAreMade(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"file":    `api_key_file: key`,
		"program": `api_key_command: [cat, key]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const before, after = "planted-before-0123456789", "planted-after-0123456789"
			f := newFleetWith(t)
			provider := &rotated{
				judges: simulator.New(simulator.Config{Models: map[string]simulator.Model{"careful": {}}}),
				after:  10, keys: []string{before, after},
				change: func() {
					next := f.write("key.next", after+"\n")
					if err := os.Rename(next, filepath.Join(f.dir, "key")); err != nil {
						t.Error(err)
					}
				},
			}
			server := httptest.NewServer(provider)
			t.Cleanup(server.Close)
			f.write("key", before+"\n")
			f.write("fleet.yaml", `providers: {team: {base_url: "`+server.URL+`/v1", api_key_header: x-team-key, `+source+"}}\n")
			f.documents(5)
			file := f.evaluation("keys", "team:careful", 2, 2)

			seen := f.monitor()
			worker := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--log-level", "debug")
			enqueue := launch(t, f.dir, "enqueue", file, "--wait", "--redis", f.redis.URL(), "--out-dir", "out", "--config", "fleet.yaml")
			if code := enqueue.wait(); code != 0 {
				t.Errorf("enqueue --wait ended with %d: %s", code, enqueue.stderr.String())
			}
			worker.signal(syscall.SIGTERM)
			worker.wait()
			told := map[string]string{
				"the worker's log": worker.stderr.String() + worker.stdout.String(), "enqueue": enqueue.stderr.String() + enqueue.stdout.String(),
				"commands to Redis": seen(),
			}
			for place, text := range everyFile(t, f.dir, "key") {
				told[place] = text
			}

			if got := rowsOf(t, filepath.Join(f.dir, "out"), `SELECT state || ' ' || count(*) FROM runs GROUP BY state`); strings.Join(got, ",") != "succeeded 20" {
				t.Errorf("runs: got %q, want 20 that succeeded", got)
			}
			if got := rowsOf(t, filepath.Join(f.dir, "out"), `SELECT class || ' ' || attempt FROM calls WHERE class <> '' OR attempt > 1`); len(got) > 0 {
				t.Errorf("calls that failed, or were repeated: %q", got)
			}
			provider.mu.Lock()
			defer provider.mu.Unlock()
			if provider.answered != 20 || len(provider.keys) != 1 || provider.refused == 0 && name == "program" || provider.refused > 2 {
				t.Errorf("%d answers, %d refusals, %d keys left; want 20, at most one for each call in flight, and one", provider.answered, provider.refused, len(provider.keys))
			}
			for place, text := range told {
				for _, key := range []string{before, after} {
					if strings.Contains(text, key) {
						t.Errorf("%s is in %s", key, place)
					}
				}
			}
		})
	}
}

// A worker whose key cannot be read serves the other providers, and says why it does not serve that one. A command that
// needs the key says so and where it is.
func TestKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.write("fleet.yaml", `providers: {team: {base_url: "http://127.0.0.1:1/v1", api_key_file: none}}`+"\n")
	f.documents(2)
	file := f.evaluation("keys", "team:careful", 2, 2)
	worker := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	testrun.EventuallyGot(t, "the worker serves", func() (string, bool) {
		return worker.stderr.String(), strings.Contains(worker.stderr.String(), "serving redis://")
	})
	if said := worker.stderr.String(); !strings.Contains(said, "provider team has no key: ") || !strings.Contains(said, filepath.Join(f.dir, "none")) {
		t.Errorf("the worker says %q, want which provider has no key, and its file", said)
	}
	run := launch(t, f.dir, "run", file, "--config", "fleet.yaml", "--out-dir", "out", "--yes")
	if code := run.wait(); code != int(exitUsage) || !strings.Contains(run.stderr.String(), "provider team has no key: ") {
		t.Errorf("run ended with %d and %q, want %d and the missing key", code, run.stderr.String(), exitUsage)
	}
}
