// Package upload packs the files of an evaluation for sending, and unpacks received ones into a
// folder. Received data is not trusted: nothing is written outside the folder, and sizes are
// bounded.
package upload

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Media types of an upload: a tar archive, the same compressed by gzip, and a JSON object
// {"files": {"path": "text"}}.
const (
	Tar  = "application/x-tar"
	Gzip = "application/gzip"
	JSON = "application/json"
)

// MaxFiles is the largest number of files and folders in an upload.
const MaxFiles = 100_000

// ErrTooLarge is the error of an upload with too many bytes or files.
var ErrTooLarge = errors.New("the upload is too large")

// ErrType is the error of a media type that Unpack does not read.
var ErrType = fmt.Errorf("unknown media type: want %s, %s or %s", Tar, Gzip, JSON)

// Pack writes a gzip-compressed tar archive of regular files. paths are relative to
// folder and must be below it, symbolic links followed; repeated ones are packed once.
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
	if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// Unpack writes the files of an upload into folder, which must exist and be empty. It returns
// ErrType, ErrTooLarge if the files have more than maxBytes together, or an error that
// describes the problem of the upload; the caller then removes the written files. Links,
// devices, absolute paths and paths outside the folder are refused.
func Unpack(r io.Reader, mediaType, folder string, maxBytes int64) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	into := &target{root: root, left: maxBytes, seen: map[string]bool{}}
	switch mediaType {
	case Tar:
		return into.tar(r)
	case Gzip:
		uncompressed, err := gzip.NewReader(bufio.NewReader(r))
		if err != nil {
			return fmt.Errorf("read gzip: %w", err)
		}
		return into.tar(uncompressed)
	case JSON:
		return into.json(r)
	}
	return ErrType
}

// target is a folder that files are unpacked into.
type target struct {
	root *os.Root
	left int64 // bytes that may still be written
	seen map[string]bool

	entries int // of the archive
}

func (t *target) tar(r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// Trailing data after the archive is read too: a sender that was cut off is
			// noticed.
			if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
				return fmt.Errorf("read archive: %w", err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if t.entries++; t.entries > MaxFiles {
			return fmt.Errorf("%w: more than %d files and folders", ErrTooLarge, MaxFiles)
		}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
		case tar.TypeReg:
			if err := t.write(header.Name, archive); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q is neither a file nor a folder: replace links with their files (tar --dereference)", header.Name)
		}
	}
}

func (t *target) json(r io.Reader) error {
	// Escapes make JSON longer than its text, at most six times.
	limited := &io.LimitedReader{R: r, N: 6*t.left + 1}
	var upload struct {
		Files map[string]string `json:"files"`
	}
	decoder := json.NewDecoder(limited)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&upload)
	switch {
	case limited.N <= 0:
		return ErrTooLarge
	case err != nil:
		return fmt.Errorf("read JSON: %w", err)
	}
	if len(upload.Files) > MaxFiles {
		return fmt.Errorf("%w: more than %d files", ErrTooLarge, MaxFiles)
	}
	for name, text := range upload.Files {
		if err := t.write(name, strings.NewReader(text)); err != nil {
			return err
		}
	}
	return nil
}

// write writes one file, and the folders that it is in.
func (t *target) write(name string, r io.Reader) error {
	name = path.Clean(name)
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%q: want paths below the archive's top folder", name)
	}
	if t.seen[name] {
		return fmt.Errorf("%q appears twice", name)
	}
	t.seen[name] = true
	local := filepath.FromSlash(name)
	if err := t.root.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return unwritten(name, err)
	}
	file, err := t.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return unwritten(name, err)
	}
	n, err := io.Copy(file, io.LimitReader(r, t.left+1))
	err = errors.Join(err, file.Close())
	if t.left -= n; t.left < 0 {
		return ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	return nil
}

// unwritten is the error of a file that the folder cannot have, which names no path of
// this machine.
func unwritten(name string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%q: %w", name, err)
}
