package config

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A file that may not be read names the user who may not, which in a container is not the one who wrote it.
func TestUnreadableFileNamesTheUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() < 0 {
		t.Skip("this system has no user ids")
	}
	err := cause(&fs.PathError{Op: "open", Path: "fleet.yaml", Err: syscall.EACCES})
	if want := fmt.Sprintf("permission denied for user %d", os.Getuid()); err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if fix := readable(err); !strings.Contains(fix, "chmod a+r") {
		t.Errorf("the fix is %q", fix)
	}
	if fix := readable(cause(&fs.PathError{Op: "open", Path: "fleet.yaml", Err: syscall.EIO})); fix != "" {
		t.Errorf("after another error the fix is %q", fix)
	}
}
