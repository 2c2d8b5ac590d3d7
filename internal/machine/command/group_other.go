//go:build !unix

package command

import "os/exec"

// together does nothing: only the program itself is killed when its context ends.
func together(*exec.Cmd) {}

// endAll does nothing, as together.
func endAll(*exec.Cmd) {}
