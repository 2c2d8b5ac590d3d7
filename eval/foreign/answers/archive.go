package answers

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds on what an archive unpacks to, whatever its headers say.
const (
	maxEntries = 200_000
	maxEntry   = 64 << 20 // bytes of one sample
	maxArchive = 1 << 30  // bytes of all that is read
)

// zstandard is the compression of newer inspect logs.
const zstandard = 93

// ErrArchive is the error of a file that is no inspect log.
var ErrArchive = errors.New("not an inspect log: want an archive with header.json and samples")

// Archive is an inspect log: an archive of a header and of samples, one file each. It is never unpacked to files.
type Archive struct {
	files []*zip.File
	left  int64 // bytes that may still be unpacked
}

// IsArchive reports whether a file begins like an archive.
func IsArchive(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// OpenArchive reads the list of an archive's files.
func OpenArchive(from io.ReaderAt, size int64) (*Archive, error) {
	r, err := zip.NewReader(from, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if len(r.File) > maxEntries {
		return nil, fmt.Errorf("the archive has %d files: at most %d are read", len(r.File), maxEntries)
	}
	r.RegisterDecompressor(zstandard, zstd.ZipDecompressor(zstd.WithDecoderMaxMemory(maxEntry)))
	return &Archive{files: r.File, left: maxArchive}, nil
}

// Head returns what the log says about all samples.
func (a *Archive) Head() (map[string]any, error) {
	for _, name := range []string{"header.json", "start.json", "_journal/start.json"} {
		for _, file := range a.files {
			if file.Name != name {
				continue
			}
			text, err := a.read(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			var head map[string]any
			if err := json.Unmarshal(text, &head); err != nil {
				return nil, fmt.Errorf("%s: not a JSON object: %w", name, err)
			}
			return head, nil
		}
	}
	return nil, ErrArchive
}

// Samples calls take with the name and the JSON of each sample, in the order of the archive, until one cannot be
// read.
func (a *Archive) Samples(take func(name string, text []byte)) error {
	for _, file := range a.files {
		if !strings.HasPrefix(file.Name, "samples/") || !strings.HasSuffix(file.Name, ".json") {
			continue
		}
		text, err := a.read(file)
		if err != nil {
			return fmt.Errorf("%.200q: %w", file.Name, err)
		}
		take(file.Name, text)
	}
	return nil
}

// read unpacks one file.
func (a *Archive) read(file *zip.File) ([]byte, error) {
	from, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	bound := min(maxEntry, a.left)
	text, err := io.ReadAll(io.LimitReader(from, bound+1))
	a.left -= int64(len(text))
	switch {
	case int64(len(text)) > bound && bound < maxEntry:
		return nil, fmt.Errorf("the archive unpacks to more than %d bytes", int64(maxArchive))
	case int64(len(text)) > bound:
		return nil, fmt.Errorf("it unpacks to more than %d bytes", int64(maxEntry))
	}
	return text, err
}
