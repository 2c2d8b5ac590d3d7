//go:build unix

package outdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The lock of embedded Redises is below the user's own folder, whatever the temporary folder has.
func TestTheEmbeddedLockIsPrivate(t *testing.T) {
	state, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	owner := NewOwner(func(name string) (string, bool) { return state, name == "XDG_STATE_HOME" })
	unlock, held, err := owner.TryLock("embedded.lock")
	if !held || err != nil {
		t.Fatalf("held %v, %v", held, err)
	}
	defer unlock()
	path := filepath.Join(state, "evalfleet", "embedded.lock")
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the lock is %v, %v; want a file of its owner", info, err)
	}
	if info, err := os.Lstat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder is %v, %v; want a folder of its owner", info, err)
	}
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) != 0 {
		t.Errorf("the temporary folder has %v, %v", entries, err)
	}
	if _, held, err := owner.TryLock("embedded.lock"); held || err != nil {
		t.Errorf("a second run: held %v, %v", held, err)
	}

	pipe := filepath.Join(state, "evalfleet", "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, held, err := owner.TryLock("pipe"); held || err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: held %v, %v", held, err)
	}
	target := filepath.Join(state, "target")
	if err := os.Symlink(target, filepath.Join(state, "evalfleet", "link")); err != nil {
		t.Fatal(err)
	}
	if _, held, err := owner.TryLock("link"); held || err == nil {
		t.Errorf("a link: held %v, %v", held, err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
	nowhere := NewOwner(func(string) (string, bool) { return "", false })
	if _, held, err := nowhere.TryLock("x"); !held || err != nil {
		t.Errorf("without a folder for state: held %v, %v; want no lock in the way", held, err)
	}
}
