package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/config"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want exit
	}{
		{"nothing", nil, 0},
		{"given", withCode(exitRunsFailed, errors.New("3 runs failed")), 1},
		{"given and wrapped", fmt.Errorf("run: %w", withCode(exitInterrupted, errors.New("resume with …"))), 130},
		{"given over what can be told", withCode(exitUnreachable, context.Canceled), 3},
		{"command line", usageError("no flag"), 2},
		{"problems", config.Problems{{Message: "wrong"}}, 2},
		{"cancelled", fmt.Errorf("drain: %w", context.Canceled), 130},
		{"disk full", &fs.PathError{Op: "write", Path: "results.db", Err: syscall.ENOSPC}, 3},
		{"not writable", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, 2},
		{"read-only", &os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, 2},
		{"missing", os.ErrNotExist, 2},
		{"unreachable", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 3},
		{"unforeseen", errors.New("?"), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := codeOf(c.err); got != c.want {
				t.Errorf("codeOf(%v) = %d, want %d", c.err, got, c.want)
			}
		})
	}
	if withCode(exitUsage, nil) != nil {
		t.Error("withCode(nil) is an error")
	}
}
