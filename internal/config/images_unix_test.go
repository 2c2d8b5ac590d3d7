//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no plain file below the evaluation's folder is not read as an image either.
func TestImagesOutsideTheFolder(t *testing.T) {
	t.Parallel()
	outside := folder(t, map[string]string{"secret.png": pngOf(t, 4, 3)})
	for name, test := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a link": {func(path string) error { return os.Symlink(filepath.Join(outside, "secret.png"), path) }, "is outside the folder"},
		"a FIFO": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "this is not a regular file"},
		"a bad name": {func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "\xff.png"), []byte(pngOf(t, 4, 3)), 0o600)
		}, "cannot be an id"},
		"no such one": {func(path string) error { return os.Symlink("nothing", path) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{"docs/a.md": "A text.", "eval.yaml": pictures})
			if err := test.make(filepath.Join(dir, "docs", "b.png")); err != nil {
				t.Fatal(err)
			}
			if _, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
