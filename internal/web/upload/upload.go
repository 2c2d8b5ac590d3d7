// Package upload packs the files of an evaluation for sending, and unpacks received ones into a
// folder. Received data is not trusted: nothing is written outside the folder, and sizes are
// bounded.
package upload

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Media types of an upload: a tar archive, the same compressed with gzip, and a JSON object
// {"files": {"path": "text"}}.
const (
	Tar  = "application/x-tar"
	Gzip = "application/gzip"
	JSON = "application/json"
)

// MaxFiles is the largest number of files and folders in an upload, including the folders that
// only paths mention.
const MaxFiles = 100_000

// ErrTooLarge means that an upload has too many bytes or files.
var ErrTooLarge = errors.New("the upload is too large")

// ErrType means that Unpack does not support a media type.
var ErrType = fmt.Errorf("unknown media type: want %s, %s or %s", Tar, Gzip, JSON)

// Pack writes a gzip-compressed tar archive of regular files. paths are relative to folder and must
// be below it, even after following symbolic links. Repeated paths are packed once.
func Pack(w io.Writer, folder string, paths []string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	defer root.Close()
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if err := pack(archive, root, name); err != nil {
			return fmt.Errorf("pack: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

func pack(archive *tar.Writer, root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{
		Name: filepath.ToSlash(name), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime(), Format: tar.FormatPAX,
	}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
