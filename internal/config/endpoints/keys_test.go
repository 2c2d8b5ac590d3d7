package endpoints

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// opened returns the key of an entry with a source.
func opened(t *testing.T, source catalog.KeySource) *sourcedKeys {
	t.Helper()
	keys, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &source})
	if err != nil {
		t.Fatal(err)
	}
	return keys.(*sourcedKeys)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A key is that of its file: later, when it is due, and at once if it is refused. What cannot be read changes nothing.
func TestKeyOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, " one\n")
	k := opened(t, catalog.KeySource{File: path})
	if k.every = time.Hour; k.Key() != "one" {
		t.Errorf("got %q, want the key without space around it", k.Key())
	}

	write(t, path, "two")
	if got := k.Key(); got != "one" {
		t.Errorf("got %q before the file is due", got)
	}
	if !k.Renew(t.Context(), "one") || k.Key() != "two" {
		t.Errorf("got %q after a refusal, want the new key", k.Key())
	}
	if k.Renew(t.Context(), "two") {
		t.Error("another key is said to be there than the one that was refused")
	}

	k.every = 0
	write(t, path, "three")
	if got := k.Key(); got != "three" {
		t.Errorf("got %q when the file is due", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := k.Key(); got != "three" || k.Renew(t.Context(), "three") {
		t.Errorf("got %q without the file, want the last key, and no other", got)
	}
}

// Kubernetes changes a mounted secret by a symbolic link to a folder.
func TestKeyOfAMountedSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, key := range []string{"one", "two"} {
		version := filepath.Join(dir, fmt.Sprint("..", i))
		if err := os.Mkdir(version, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(version, "key"), key)
	}
	link := func(version string) {
		if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("..0")
	k := opened(t, catalog.KeySource{File: filepath.Join(dir, "..data", "key")})
	k.every = 0
	link("..1")
	if got := k.Key(); got != "two" {
		t.Errorf("got %q, want the key of the new version", got)
	}
}

// What is no key is refused at the start, with its place, and never shown.
func TestNoKeyInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		" \n":                                "is empty",
		"secret\nline":                       "line break",
		strings.Repeat("secret", longestKey): "longer than",
	} {
		path := filepath.Join(dir, "key")
		write(t, path, text)
		_, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &catalog.KeySource{File: path}})
		if providers.ClassOf(err) != providers.Auth || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%.10q: got %v, want %q of the file, and nothing of the key", text, err, want)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		_, err := openKeys(t.Context(), catalog.Entry{Name: "p", KeySource: &catalog.KeySource{File: path}})
		if providers.ClassOf(err) != providers.Auth || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want that %s has no key", err, path)
		}
	}
}
