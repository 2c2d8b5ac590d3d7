package results

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// WriteFile uses write to write a file at name below root, and syncs it to disk. On an error it
// leaves an existing file unchanged. Only the file's owner may read it. It creates missing folders.
// The error names the path; it is ErrFull if there is no room.
func WriteFile(root *os.Root, name string, write func(io.Writer) error) error {
	if err := writeFile(root, name, write); err != nil {
		return explainFile(filepath.Join(root.Name(), name), err)
	}
	return nil
}

func writeFile(root *os.Root, name string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary := filepath.Join(dir, ".evalfleet-"+rand.Text())
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = root.Remove(temporary)
		}
	}()

	buffered := bufio.NewWriterSize(file, 1<<16)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return err
	}

	// The name must reach the disk, too. Not every system can sync a folder.
	if folder, err := root.Open(dir); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}

	return nil
}

func explainFile(path string, err error) error {
	if OutOfRoom(err) {
		return fmt.Errorf("write %s: %w: make room and export again: %w", path, ErrFull, err)
	}
	return fmt.Errorf("write %s: %w", path, err)
}

// OutOfRoom reports whether an error means that the disk is full, or a quota or a limit on the size
// of files is reached.
func OutOfRoom(err error) bool {
	return errors.Is(err, ErrFull) || slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}

var fullErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
