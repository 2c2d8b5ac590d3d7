package upload_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// filesIn returns the text of each file in a folder.
func filesIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPackedFilesAreUnpacked(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	want := map[string]string{"essays/evaluation.yaml": "name: x", "essays/docs/ä b.md": strings.Repeat("text ", 1000), "essays/empty.md": ""}
	var paths []string
	for name, text := range want {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, name, name)
	}
	var packed bytes.Buffer
	if err := upload.Pack(&packed, from, paths); err != nil {
		t.Fatal(err)
	}
	if err := upload.Unpack(bytes.NewReader(packed.Bytes()), upload.Gzip, to, 1<<20); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, filesIn(t, to)); diff != "" {
		t.Errorf("(-packed +unpacked)\n%s", diff)
	}
	if err := upload.Pack(io.Discard, from, []string{"../other"}); err == nil {
		t.Error("packed a file outside the folder")
	}

	// An upload that ends early, anywhere, is an error.
	for _, length := range []int{0, 1, packed.Len() / 2, packed.Len() - 1} {
		if err := upload.Unpack(bytes.NewReader(packed.Bytes()[:length]), upload.Gzip, t.TempDir(), 1<<20); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", length, packed.Len())
		}
	}
}

// archive returns a tar archive with one entry, whose text is as long as its size says.
func archive(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, header.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func regular(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Size: size, Mode: 0o4755, Typeflag: tar.TypeReg}
}

// Nothing is written outside of the folder, and no more than is allowed.
func TestHostileUploads(t *testing.T) {
	t.Parallel()
	const most = 1000
	asJSON := func(files map[string]string) []byte {
		text, err := json.Marshal(map[string]any{"files": files})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	squeezed := func(raw []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var folders []*tar.Header
	for range upload.MaxFiles + 1 {
		folders = append(folders, &tar.Header{Name: "a/", Typeflag: tar.TypeDir})
	}
	for name, c := range map[string]struct {
		body  []byte
		media string
		want  string
		is    error
	}{
		"above the folder":           {archive(t, regular("../evil", 1)), upload.Tar, "want paths below", nil},
		"above the folder in JSON":   {asJSON(map[string]string{"a/../../evil": "x"}), upload.JSON, "want paths below", nil},
		"an absolute path":           {archive(t, regular("/tmp/evil", 1)), upload.Tar, "want paths below", nil},
		"a backslash":                {archive(t, regular(`..\evil`, 1)), upload.Tar, "want paths below", nil},
		"the folder itself":          {asJSON(map[string]string{".": "x"}), upload.JSON, "want paths below", nil},
		"a symbolic link":            {archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), upload.Tar, "neither a file nor a folder", nil},
		"a hard link":                {archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), upload.Tar, "neither a file nor a folder", nil},
		"a device":                   {archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeChar}), upload.Tar, "neither a file nor a folder", nil},
		"a file twice":               {archive(t, regular("a", 1), regular("./a", 1)), upload.Tar, "appears twice", nil},
		"a file that is a folder":    {archive(t, regular("a", 1), regular("a/b", 1)), upload.Tar, "", nil},
		"too long":                   {archive(t, regular("a", most+1)), upload.Tar, "too large", upload.ErrTooLarge},
		"too long together":          {archive(t, regular("a", most), regular("b", 1)), upload.Tar, "too large", upload.ErrTooLarge},
		"too long in JSON":           {asJSON(map[string]string{"a": strings.Repeat("x", most+1)}), upload.JSON, "too large", upload.ErrTooLarge},
		"much too long in JSON":      {asJSON(map[string]string{"a": strings.Repeat("x", 10*most)}), upload.JSON, "too large", upload.ErrTooLarge},
		"a bomb":                     {squeezed(archive(t, regular("a", 100<<20))), upload.Gzip, "too large", upload.ErrTooLarge},
		"too many entries":           {squeezed(archive(t, folders...)), upload.Gzip, "too large", upload.ErrTooLarge},
		"no archive":                 {[]byte(strings.Repeat("name: x\n", 100)), upload.Tar, "read archive", nil},
		"no gzip":                    {[]byte("name: x"), upload.Gzip, "read gzip", nil},
		"no JSON":                    {[]byte("name: x"), upload.JSON, "read JSON", nil},
		"an unknown key in JSON":     {[]byte(`{"file": {}}`), upload.JSON, "read JSON", nil},
		"an unknown kind":            {[]byte("x"), "text/plain", "unknown media type", upload.ErrType},
		"a name with a null in JSON": {asJSON(map[string]string{"a\x00b": "x"}), upload.JSON, "want paths below", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			folder := filepath.Join(outside, "in")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			err := upload.Unpack(bytes.NewReader(c.body), c.media, folder, most)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			var bytes int
			for path, text := range filesIn(t, outside) {
				bytes += len(text)
				if !strings.HasPrefix(path, "in/") {
					t.Errorf("wrote %s outside of the folder", path)
				}
			}
			if bytes > most+1 {
				t.Errorf("wrote %d bytes, want at most %d", bytes, most+1)
			}
		})
	}
}

// Files get no more rights than their owner's reading and writing.
func TestModesAreIgnored(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := upload.Unpack(bytes.NewReader(archive(t, regular("a/b", 1))), upload.Tar, folder, 10); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(folder, "a", "b"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want -rw-------", info.Mode(), err)
	}
}
