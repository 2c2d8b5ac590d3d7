package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evalfleet/evalfleet/internal/machine/lockfile"
)

// Files of a Folder.
const (
	prefix   = "evalfleet-upload-"
	lockName = "lock"
	inside   = "files"
)

// Folder is a temporary folder for the files of one upload. A lock in it shows other processes
// that it is in use.
type Folder struct {
	Path string // empty at first
	top  string
	lock *lockfile.Lock
}

// NewFolder creates a folder. Its error is an ErrStorage.
func NewFolder() (*Folder, error) {
	temporary, err := filepath.EvalSymlinks(os.TempDir()) // so that paths in messages begin with that of the folder
	if err != nil {
		return nil, storage(err)
	}

	// Another process may delete a folder without a lock as a leftover.
	for range 10 {
		top, err := os.MkdirTemp(temporary, prefix)
		if err != nil {
			return nil, storage(err)
		}
		f := &Folder{Path: filepath.Join(top, inside), top: top, lock: lockfile.New(filepath.Join(top, lockName))}
		held, err := f.lock.TryLock()
		if err == nil && held {
			err = os.Mkdir(f.Path, 0o700)
		}
		if err == nil && held && f.lock.InPlace() {
			return f, nil
		}
		if err = errors.Join(err, f.Remove()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, storage(err)
		}
	}

	return nil, storage(errors.New("another process removes its temporary folders"))
}

// Remove removes the folder and its files.
func (f *Folder) Remove() error {
	// Unlock last, so that Sweep can remove what an error leaves.
	if err := errors.Join(os.RemoveAll(f.Path), f.lock.Unlock()); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	return os.RemoveAll(f.top)
}

// Sweep removes this user's folders that processes have left behind.
func Sweep() (removed int, err error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return 0, err
	}
	for _, top := range left {
		info, failed := os.Lstat(top)
		if failed != nil || !info.IsDir() || !owned(info) {
			continue
		}
		gone, failed := sweep(top)
		if gone {
			removed++
		}
		err = errors.Join(err, failed)
	}
	return removed, err
}

// sweep removes a folder unless a process uses it.
func sweep(top string) (gone bool, err error) {
	lock := lockfile.New(filepath.Join(top, lockName))
	held, err := lock.TryLock()
	if err != nil || !held {
		return false, err
	}
	// A process that has just created the folder fails to lock it under this name.
	swept := top + ".swept"
	err = os.Rename(top, swept)
	if err = errors.Join(err, lock.Unlock()); errors.Is(err, fs.ErrNotExist) {
		return false, nil // its process has just removed it
	}
	if err != nil {
		return false, err
	}
	err = os.RemoveAll(swept)
	return err == nil, err
}
