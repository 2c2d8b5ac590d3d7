package upload_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// fuzzBytes bounds the files of a fuzzed upload.
const fuzzBytes = 4 << 20

// ownTemporaryFolder gives this process a temporary folder of its own, so that unpackFuzzed sees
// all that remains there.
func ownTemporaryFolder(f *testing.F) {
	folder := f.TempDir()
	for _, name := range []string{"TMPDIR", "TMP"} { // the second is Windows's
		f.Setenv(name, folder)
	}
}

// unpackFuzzed receives a fuzzed upload, and checks that no file, folder or descriptor is left.
func unpackFuzzed(t *testing.T, r io.Reader, mediaType string) (map[string]string, error) {
	before := descriptors(t)
	_, files, err := received(t, r, mediaType, fuzzBytes)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are left open", after-before)
	}
	if inodes, size := remaining(t); inodes > 0 {
		t.Errorf("%d files and folders with %d bytes remain in the temporary folder", inodes, size)
	}

	var bytes int
	for _, text := range files {
		bytes += len(text)
	}
	if bytes > fuzzBytes+1 {
		t.Errorf("wrote %d bytes, want at most %d", bytes, fuzzBytes)
	}
	return files, err
}

// remaining counts the files and folders in the temporary folder, and their bytes.
func remaining(t *testing.T) (inodes int, size int64) {
	t.Helper()
	err := filepath.WalkDir(os.TempDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == os.TempDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			inodes, size = inodes+1, size+info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return inodes, size
}

// withChecksums sets the checksum of each header in an archive, which a change has made wrong.
func withChecksums(archive []byte) []byte {
	archive = bytes.Clone(archive)
	for header := range slices.Chunk(archive, 512) {
		if len(header) < 512 || string(header[257:262]) != "ustar" {
			continue
		}
		copy(header[148:156], "        ")
		sum := 0
		for _, c := range header {
			sum += int(c)
		}
		copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
	return archive
}

func FuzzTar(f *testing.F) {
	ownTemporaryFolder(f)
	f.Add(archive(f, regular("a/b", 3), regular("c", 600)))
	f.Add(archive(f, &tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}))
	f.Add(archive(f, regular(strings.Repeat("deep/", 40)+"x", 1)))
	f.Add(archive(f, &tar.Header{Name: "a", Size: 1, Format: tar.FormatPAX, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}))
	f.Add(archive(f, &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		fixed := withChecksums(raw)
		plain, plainErr := unpackFuzzed(t, bytes.NewReader(fixed), upload.Tar)
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = w.Write(fixed)
		_ = w.Close()
		squeezed, squeezedErr := unpackFuzzed(t, &compressed, upload.Gzip)
		if (plainErr == nil) != (squeezedErr == nil) || plainErr == nil && !cmp.Equal(plain, squeezed) {
			t.Errorf("as tar: %d files, %v; compressed: %d files, %v", len(plain), plainErr, len(squeezed), squeezedErr)
		}
	})
}

func FuzzGzip(f *testing.F) {
	ownTemporaryFolder(f)
	for _, raw := range [][]byte{archive(f, regular("a/b", 3)), make([]byte, 1<<20), nil} {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = w.Write(raw)
		_ = w.Close()
		f.Add(compressed.Bytes())
		f.Add(append(bytes.Clone(compressed.Bytes()), compressed.Bytes()...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { _, _ = unpackFuzzed(t, bytes.NewReader(raw), upload.Gzip) })
}

// What is unpacked from JSON is what encoding/json reads.
func FuzzJSON(f *testing.F) {
	ownTemporaryFolder(f)
	f.Add([]byte(`{"files": {"a/b.md": "text", "c": ""}}`))
	f.Add([]byte(`{"files": {"a": "\u00e4\ud83d\ude00\ud83d \n\"\\\/", "\u0062": "ä😀` + "\xff" + `"}}`))
	f.Add([]byte(`{"files": {}}`))
	f.Add([]byte(`{"files": {"a": "x"`))
	f.Add([]byte(` { } `))
	f.Add([]byte(`{"files": {"a/../../b": "x", "a": null}, "other": 1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, err := unpackFuzzed(t, bytes.NewReader(raw), upload.JSON)
		var want struct {
			Files map[string]string `json:"files"`
		}
		wantErr := json.Unmarshal(raw, &want)
		if err != nil {
			return // paths and keys have rules of their own
		}
		if len(want.Files) == 0 {
			want.Files = map[string]string{}
		}
		if wantErr != nil || len(want.Files) != len(files) {
			t.Fatalf("unpacked %d files of what encoding/json reads as %d, %v", len(files), len(want.Files), wantErr)
		}
		for name, text := range want.Files {
			if got, ok := files[path.Clean(name)]; !ok || got != text {
				t.Errorf("%q is %q, want %q", name, got, text)
			}
		}
	})
}
