//go:build unix

package upload

import (
	"io/fs"
	"os"
	"syscall"
)

// owned reports whether a file belongs to this user, so that no other user can change it.
func owned(info fs.FileInfo) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(of.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
