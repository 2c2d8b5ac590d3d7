//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreFileSizeSignal makes a write fail with an error if its file reaches the size that the system allows (ulimit -f,
// RLIMIT_FSIZE), as on a full disk. Otherwise the signal would end the process in the middle of the write.
func ignoreFileSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }
