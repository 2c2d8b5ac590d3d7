//go:build unix

package endpoints

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// counting is a program that prints another key each time that it runs.
func counting(t *testing.T) (catalog.KeySource, func() int) {
	t.Helper()
	dir := t.TempDir()
	source := catalog.KeySource{Command: []string{"sh", "-c", "echo x >> runs; echo key-$(wc -l < runs | tr -d ' ')"}, Dir: dir}
	return source, func() int {
		raw, err := os.ReadFile(filepath.Join(dir, "runs"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "x")
	}
}

// A program runs again in the background when its key is due: the request that notices does not wait.
func TestKeyOfAProgram(t *testing.T) {
	t.Parallel()
	source, runs := counting(t)
	k := opened(t, source)
	if got := k.Key(); got != "key-1" || runs() != 1 {
		t.Errorf("got %q after %d runs, want the first", got, runs())
	}

	k.mu.Lock()
	k.read = time.Now().Add(-programEvery)
	k.mu.Unlock()
	testrun.EventuallyGot(t, "the second key is there", func() (string, bool) {
		got := k.Key()
		return got, got == "key-2"
	})
}

// Many calls whose keys are refused together run the program once, and one whose new key is refused, too, not again.
func TestRefusedKeysRunAProgramOnce(t *testing.T) {
	t.Parallel()
	source, runs := counting(t)
	k := opened(t, source)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if !k.Renew(t.Context(), "key-1") {
				t.Error("no other key")
			}
		})
	}
	all.Wait()
	if runs() != 2 || k.Key() != "key-2" {
		t.Errorf("%d runs, key %q; want the second of 2", runs(), k.Key())
	}
	if k.Renew(t.Context(), "key-2") || runs() != 2 {
		t.Errorf("%d runs after a new key was refused, want 2", runs())
	}

	k.renewed = time.Now().Add(-renewApart)
	if !k.Renew(t.Context(), "key-2") || runs() != 3 {
		t.Errorf("%d runs after the key was refused later, want 3", runs())
	}
}

// A program that fails says why, without what it prints, and the last key stays.
func TestProgramWithoutKey(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo secret; echo no token >&2; exit 3": "no token",
		"echo secret; exit 3":                    "exit status 3",
		"true":                                   "is empty",
	} {
		_, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &catalog.KeySource{Command: []string{"sh", "-c", script}}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
	}
	_, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &catalog.KeySource{Command: []string{"no-such-program"}}})
	if err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("got %v, want the program that is not there", err)
	}

	dir := t.TempDir()
	k := opened(t, catalog.KeySource{Command: []string{"sh", "-c", "test ! -e gone && touch gone && echo first"}, Dir: dir})
	if k.Renew(t.Context(), "first") || k.Key() != "first" {
		t.Errorf("got %q after a failure, want the first key", k.Key())
	}
}

// A file that may never end, such as a pipe, is not read.
func TestKeyOfAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &catalog.KeySource{File: path}})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want a refusal of the pipe", err)
	}
}
