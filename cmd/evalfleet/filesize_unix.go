//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreFileSizeSignal makes a file that reaches the size that the system allows
// (ulimit -f, RLIMIT_FSIZE) an error of the write, as on a full disk. The signal
// would end the process in the middle of it.
func ignoreFileSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }
