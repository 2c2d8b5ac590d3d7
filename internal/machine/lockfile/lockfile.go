// Package lockfile locks files in folders that other users or received data may have prepared: it
// follows no symbolic link and never waits for a pipe.
package lockfile

import (
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// Lock is a lock between processes, which the end of its process releases.
type Lock struct{ flock *flock.Flock }

// New returns a lock on a file, which TryLock creates.
func New(path string) *Lock {
	return &Lock{flock.New(path, flock.SetFlag(openFlags), flock.SetPermissions(0o600))}
}

// TryLock locks the file unless another process holds it. A path that is not a regular file is an
// error.
func (l *Lock) TryLock() (held bool, err error) {
	path := l.flock.Path()
	// Windows opens links whatever the flags say. Elsewhere this improves the message.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file: remove it", path)
	}
	if held, err = l.flock.TryLock(); err != nil || !held {
		return held, errors.Join(err, l.flock.Close())
	}
	if info, err := l.flock.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, errors.Join(err, fmt.Errorf("%s is not a regular file: remove it", path), l.flock.Close())
	}
	return true, nil
}

// InPlace reports whether the locked file is still the one at its path.
func (l *Lock) InPlace() bool {
	mine, err := l.flock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.flock.Path())
	return err == nil && os.SameFile(mine, there)
}

// Unlock releases the lock. The file remains: removed, it could be the one that another process
// has just locked.
func (l *Lock) Unlock() error { return l.flock.Unlock() }
