//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// together puts a program into a process group of its own, and kills the whole group when its context ends. Ctrl-C at the
// terminal reaches it only that way.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endAll kills the processes that a program has left behind.
func endAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
