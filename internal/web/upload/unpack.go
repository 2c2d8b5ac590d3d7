package upload

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits on the paths in an upload.
const (
	maxName  = 1024 // bytes
	maxParts = 32   // folders and the file
)

// An archive is longer than its files. An entry has headers and padding, up to 4 KiB with the
// longest name, and the end of the archive may be padded.
const (
	entryBytes   = 4 << 10
	archiveBytes = 4 << 20
)

// ErrStorage means that this machine cannot store an upload, for example because its disk is full.
var ErrStorage = errors.New("this machine cannot store the upload")

// Unpack writes the files of an upload to folder, which must exist and be empty. It refuses links,
// devices, absolute paths and paths outside the folder.
//
// The error is ErrType, ErrTooLarge if the files have more than maxBytes together, or ErrStorage if
// this machine is at fault. Any other error describes the problem of the upload. After an error,
// the caller removes the written files.
//
// Unpack uses a few hundred kilobytes of memory, and two file descriptors.
func Unpack(r io.Reader, mediaType, folder string, maxBytes int64) error {
	return unpack(r, mediaType, folder, maxBytes, MaxFiles)
}

func unpack(r io.Reader, mediaType, folder string, maxBytes int64, maxFiles int) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return storage(err)
	}
	defer root.Close()
	into := &target{root: root, left: maxBytes, most: maxFiles}
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

// target is the folder that files are unpacked into.
type target struct {
	root *os.Root
	left int64 // bytes that may still be written

	most    int // entries
	entries int // files and folders, including folders that only paths mention
}

func (t *target) tar(r io.Reader) error {
	whole := &bounded{from: r, left: t.left + archiveBytes}
	archive := tar.NewReader(whole)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// Read trailing data after the archive, too, to notice an upload that was cut off.
			if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
				return fmt.Errorf("read archive: %w", err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := t.count(); err != nil {
			return err
		}

		whole.left += entryBytes
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
		case tar.TypeReg:
			if err := t.write(header.Name, archive); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a folder: replace links with their files (tar --dereference)", quoted(header.Name))
		}
	}
}

// bounded fails if a stream is longer than its entries account for: compressed headers can unpack
// to far more bytes than were sent.
type bounded struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: its headers are longer than those of its files can be", ErrTooLarge)
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// count counts a file or folder.
func (t *target) count() error {
	if t.entries++; t.entries > t.most {
		return fmt.Errorf("%w: more than %d files and folders", ErrTooLarge, t.most)
	}
	return nil
}

// write writes one file, and creates the folders above it.
func (t *target) write(name string, r io.Reader) error {
	if len(name) > maxName {
		return tooLongName(name)
	}
	shown := quoted(name)
	name = path.Clean(name)
	switch {
	case !fs.ValidPath(name), name == ".", strings.ContainsAny(name, "\\\x00"), !filepath.IsLocal(filepath.FromSlash(name)):
		return fmt.Errorf("%s: want paths below the archive's top folder", shown)
	case strings.Count(name, "/") >= maxParts:
		return fmt.Errorf("%s is too deep: want at most %d folders and file names in a path", shown, maxParts)
	}

	file, err := t.create(filepath.FromSlash(name))
	switch {
	case errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s appears twice", shown)
	case unusable(err):
		return fmt.Errorf("%s: %w", shown, withoutPath(err))
	case err != nil:
		return storage(err)
	}

	sent := &source{from: io.LimitReader(r, t.left+1)}
	n, err := io.Copy(file, sent)
	err = errors.Join(err, file.Close())
	switch t.left -= n; {
	case t.left < 0:
		return ErrTooLarge
	case sent.err != nil:
		return fmt.Errorf("read %s: %w", shown, sent.err)
	case err != nil:
		return storage(err)
	}
	return nil
}

// create creates a file, and the folders above it.
func (t *target) create(name string) (*os.File, error) {
	const once = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := t.root.OpenFile(name, once, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := t.mkdir(filepath.Dir(name)); err != nil {
		return nil, err
	}
	return t.root.OpenFile(name, once, 0o600)
}

// mkdir creates a folder that does not exist, and those above it.
func (t *target) mkdir(name string) error {
	err := t.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := t.mkdir(filepath.Dir(name)); err != nil {
			return err
		}
		err = t.root.Mkdir(name, 0o700)
	}
	if err != nil {
		return err
	}
	return t.count()
}

// source remembers read errors, to distinguish them from write errors.
type source struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unusable reports whether an error of creating a file is due to its name, not to this machine.
func unusable(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EILSEQ, syscall.EINVAL},
		func(of error) bool { return errors.Is(err, of) })
}

// storage returns an ErrStorage with the cause. It contains no path, because submitters read it.
func storage(err error) error { return fmt.Errorf("%w: %w", ErrStorage, withoutPath(err)) }

func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func tooLongName(name string) error {
	return fmt.Errorf("%s: the path is too long; want at most %d bytes", quoted(name), maxName)
}

// quoted returns a name quoted for messages, and shortened if it is long.
func quoted(name string) string {
	const most = 80
	if len(name) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(name[:most], ""))
	}
	return fmt.Sprintf("%q", name)
}
