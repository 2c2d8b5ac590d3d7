package upload_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// mostHeap is what receiving an upload may hold of the memory, garbage included.
const mostHeap = 64 << 20

// mostFiles is upload.MaxFiles for these tests.
const mostFiles = 2000

// heap returns what is allocated, garbage included.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// watched is an upload under way: it measures the heap while it is read.
type watched struct {
	from       io.Reader
	heap, read int64
}

func (w *watched) Read(p []byte) (int, error) {
	w.heap = max(w.heap, heap())
	n, err := w.from.Read(p)
	w.read += int64(n)
	return n, err
}

// received unpacks an upload into a folder of its own. It fails if that takes much memory or many
// files, or if something remains.
func received(t *testing.T, r io.Reader, mediaType string, maxBytes int64) (read int64, files map[string]string, err error) {
	t.Helper()
	folder, err := upload.NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	in := &watched{from: r}
	before := heap()
	err = upload.UnpackFew(in, mediaType, folder.Path, maxBytes, mostFiles)
	inodes := 0
	files = map[string]string{}
	walked := filepath.WalkDir(folder.Path, func(path string, entry fs.DirEntry, err error) error {
		if inodes++; err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder.Path, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err := errors.Join(walked, folder.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(folder.Path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the upload remains: %v", err)
	}
	if inodes > mostFiles+2 {
		t.Errorf("the upload took %d files and folders, want at most %d", inodes, mostFiles)
	}
	if in.heap-before > mostHeap {
		t.Errorf("the upload took %d MiB of memory, want at most %d", (in.heap-before)>>20, mostHeap>>20)
	}
	if err != nil && strings.Contains(err.Error(), filepath.Dir(folder.Path)) {
		t.Errorf("the error names a folder of this machine: %v", err)
	}
	return in.read, files, err
}

// packed returns a compressed tar archive.
func packed(t *testing.T, write func(w *tar.Writer) error) io.Reader {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	if err := errors.Join(write(archive), archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // what making it took does not count
	return &out
}

// A path is as long and deep as those of documents are, and the folders that it implies count.
func TestPathsAreBounded(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("a/", n-1) + "x" }
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"deepest":       {deep(32), ""},
		"too deep":      {deep(33), "too deep"},
		"much too deep": {deep(150_000), "too long"},
		"longest":       {strings.Repeat(strings.Repeat("n", 204)+"/", 4) + strings.Repeat("n", 204), ""},
		"too long":      {strings.Repeat("n/", 512) + "n", "too long"},
		"long and flat": {strings.Repeat("./", 512) + "n", "too long"},
		"a long part":   {strings.Repeat("n", 300), "file name too long"},
	} {
		for kind, r := range map[string]io.Reader{
			upload.Gzip: packed(t, func(w *tar.Writer) error { return w.WriteHeader(regular(c.path, 0)) }),
			upload.JSON: strings.NewReader(fmt.Sprintf(`{"files": {%q: ""}}`, c.path)),
		} {
			_, files, err := received(t, r, kind, 1000)
			switch {
			case c.want == "" && (err != nil || len(files) != 1):
				t.Errorf("%s (%s): got %v and %d files", name, kind, err, len(files))
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500):
				t.Errorf("%s (%s): got %.500v, want %q", name, kind, err, c.want)
			}
		}
	}
}

// Folders that only paths mention count as files do.
func TestImpliedFoldersAreBounded(t *testing.T) {
	_, _, err := received(t, packed(t, func(w *tar.Writer) error {
		for i := range mostFiles/30 + 1 {
			if err := w.WriteHeader(regular(fmt.Sprintf("%d/%sx", i, strings.Repeat("a/", 30)), 0)); err != nil {
				return err
			}
		}
		return nil
	}), upload.Gzip, 1000)
	if !errors.Is(err, upload.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, upload.ErrTooLarge)
	}
}

// What an archive unpacks to is bounded, not only what its files have.
func TestHeadersAreBounded(t *testing.T) {
	const most = 1 << 20
	for name, write := range map[string]func(w *tar.Writer) error{
		"records of files": func(w *tar.Writer) error {
			header := regular("a", 0)
			header.PAXRecords = map[string]string{"EVALFLEET.x": strings.Repeat("x", 900<<10)}
			for i := range 40 {
				header.Name = fmt.Sprint(i)
				if err := w.WriteHeader(header); err != nil {
					return err
				}
			}
			return nil
		},
		"global records": func(w *tar.Writer) error {
			header := &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"EVALFLEET.x": strings.Repeat("x", 900<<10)}}
			for range 40 {
				if err := w.WriteHeader(header); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		read, _, err := received(t, packed(t, write), upload.Gzip, most)
		if !errors.Is(err, upload.ErrTooLarge) || read > most {
			t.Errorf("%s: read %d bytes, got %v; want %v", name, read, err, upload.ErrTooLarge)
		}
	}
	// The bound leaves room for the headers that tar writes.
	longest := strings.Repeat(strings.Repeat("n", 199)+"/", 5)
	_, files, err := received(t, packed(t, func(w *tar.Writer) error {
		for i := range 500 {
			header := regular(longest+fmt.Sprint(i), 1)
			header.Format, header.PAXRecords = tar.FormatPAX, map[string]string{"SCHILY.xattr.user.origin": strings.Repeat("x", 500)}
			if err := errors.Join(w.WriteHeader(header), write1(w)); err != nil {
				return err
			}
		}
		return nil
	}), upload.Gzip, 500)
	if err != nil || len(files) != 500 {
		t.Errorf("long names: got %d files, %v", len(files), err)
	}
}

func write1(w io.Writer) error {
	_, err := w.Write([]byte("x"))
	return err
}

// endless yields a text again and again.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		copied := copy(p[n:], e.text[e.at:])
		n, e.at = n+copied, (e.at+copied)%len(e.text)
	}
	return n, nil
}

// numbered yields keys of an object, each another.
type numbered struct {
	next int
	line bytes.Buffer
}

func (k *numbered) Read(p []byte) (int, error) {
	for k.line.Len() < len(p) {
		fmt.Fprintf(&k.line, `"%d":"",`, k.next)
		k.next++
	}
	return k.line.Read(p)
}

// A JSON upload is read token by token: no text is held, and reading ends at the bound.
func TestJSONIsNotHeld(t *testing.T) {
	runtime.GC()
	const most = 2 << 20
	for name, c := range map[string]struct {
		rest io.Reader
		read int64 // at most
	}{
		"one name":          {io.MultiReader(strings.NewReader(`"`), &endless{text: "x"}), 1 << 20},
		"one text":          {io.MultiReader(strings.NewReader(`"a":"`), &endless{text: "text "}), most + 1<<20},
		"a text of escapes": {io.MultiReader(strings.NewReader(`"a":"`), &endless{text: `\u0041`}), 6*most + 1<<20},
		"white space":       {io.LimitReader(&endless{text: " \n"}, 4*most), 4*most + 100},
	} {
		read, _, err := received(t, io.MultiReader(strings.NewReader(`{"files":{`), c.rest), upload.JSON, most)
		if err == nil || read > c.read {
			t.Errorf("%s: read %d bytes, got %v; want an error after at most %d", name, read, err, c.read)
		}
	}
}

// Of millions of names in JSON, as many are read as files are allowed.
func TestNamesInJSONAreNotHeld(t *testing.T) {
	runtime.GC()
	read, _, err := received(t, io.MultiReader(strings.NewReader(`{"files":{`), io.LimitReader(&numbered{}, 1<<20)), upload.JSON, 64<<20)
	if !errors.Is(err, upload.ErrTooLarge) || read > 200<<10 {
		t.Errorf("read %d bytes, got %v; want %v", read, err, upload.ErrTooLarge)
	}
}

// Folders of ended processes are removed, those in use and those of others are not.
func TestLeftoversAreRemoved(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	used, err := upload.NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(temporary, "evalfleet-upload-123")
	others, outside := filepath.Join(temporary, "evalfleet-upload-456"), filepath.Join(temporary, "other")
	open := filepath.Join(temporary, "evalfleet-upload-789")
	for _, dir := range []string{filepath.Join(left, "files", "a", "b"), filepath.Join(outside, "c"), open} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside, others), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	removed, err := upload.Sweep()
	if err != nil || removed != 1 {
		t.Errorf("removed %d, %v; want 1", removed, err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a leftover remains: %v", err)
	}
	for _, path := range []string{used.Path, others, filepath.Join(outside, "c"), open} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed what is not a leftover: %v", err)
		}
	}
	if err := used.Remove(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) != 3 {
		t.Errorf("got %v, %v; want what is not ours", entries, err)
	}
}
