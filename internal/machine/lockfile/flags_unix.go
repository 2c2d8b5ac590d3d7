//go:build unix

package lockfile

import (
	"os"
	"syscall"
)

const openFlags = os.O_CREATE | os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
