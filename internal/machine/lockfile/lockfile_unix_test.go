//go:build unix

package lockfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What another user has put in the place of a lock is refused at once: a pipe is not waited for,
// and no link is followed.
func TestOnlyRegularFilesAreLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "created")
	for name, plant := range map[string]func(string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":   func(path string) error { return os.Symlink(target, path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, name)
		if err := plant(path); err != nil {
			t.Fatal(err)
		}
		held, err := New(path).TryLock()
		if held || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: held %v, error %v; want an error with the path", name, held, err)
		}
		// A path that changes after the check is opened with these flags.
		if file, err := os.OpenFile(path, openFlags, 0o600); err == nil {
			if info, err := file.Stat(); err != nil || name == "link" || info.Mode().IsRegular() {
				t.Errorf("%s: opened %v, %v", name, info, err)
			}
			file.Close()
		}
	}
	if _, err := os.Lstat(target); !os.IsNotExist(err) {
		t.Errorf("the link's target was created: %v", err)
	}
}

// One of two holds a lock, and notices when its file has gone.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	one, other := New(path), New(path)
	if held, err := one.TryLock(); !held || err != nil {
		t.Fatalf("held %v, %v", held, err)
	}
	if held, err := other.TryLock(); held || err != nil {
		t.Errorf("the second: held %v, %v; want neither", held, err)
	}
	if !one.InPlace() {
		t.Error("the lock is not in place")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if one.InPlace() {
		t.Error("a removed lock is in place")
	}
	if err := one.Unlock(); err != nil {
		t.Error(err)
	}
	if held, err := other.TryLock(); !held || err != nil || !other.InPlace() {
		t.Errorf("after the first: held %v, %v", held, err)
	}
	_ = other.Unlock()
}
