package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval/foreign/parquet"
)

// Bounds on files read whole.
const (
	maxSettings = 1 << 20 // a fleet file, a .env
	maxText     = 8 << 20 // a document, a template, a line of JSONL, a file that may list runs
)

var byteOrderMark = []byte("\ufeff")

// readText reads a whole text file: UTF-8, at most limit bytes, without its byte order mark. If ok
// is false, it has reported the problem, placed at the file itself.
func (f *findings) readText(path string, limit int64) (text []byte, ok bool) {
	at := place{file: path}
	file, err := f.open(path)
	if err != nil {
		f.refuse(at, readable(err), "%v", err)
		return nil, false
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		f.refuse(at, "", "%v", cause(err))
		return nil, false
	}

	if int64(len(text)) > limit {
		size := "more"
		if info, err := file.Stat(); err == nil {
			size = fmt.Sprintf("%d bytes", info.Size())
		}
		f.refuse(at, "", "%s is too large: at most %d bytes are read", size, limit)
		return nil, false
	}

	offset := invalidUTF8(text)
	if what, fix := noText(text, offset >= 0); what != "" {
		f.refuse(at, fix, "not a text: %s", what)
		return nil, false
	}
	if offset >= 0 {
		f.refuse(at, "save it as UTF-8", "not UTF-8: byte %d is not part of a character", offset)
		return nil, false
	}
	return bytes.TrimPrefix(text, byteOrderMark), true
}

// noText returns what a file is, and how to make a text of it, if its first bytes tell; empty if they do not. binary
// means that it is not UTF-8: only then do first bytes tell that a text cannot begin with them. A PDF may be ASCII.
func noText(content []byte, binary bool) (what, fix string) {
	kind := http.DetectContentType(content)
	switch major, _, _ := strings.Cut(kind, "/"); {
	case kind == "application/pdf":
		return "a PDF", "convert it, for example with pdftotext"
	case !binary:
		return "", ""
	case strings.Contains(kind, "charset=utf-16"):
		return "UTF-16", "save it as UTF-8"
	case parquet.Is(content):
		return "a Parquet file", "it is read as answers, items or verdicts"
	case kind == "application/zip":
		return "a zip archive, as documents of Word are", "save it as text or Markdown"
	case kind == "application/x-gzip":
		return "compressed with gzip", "unpack it"
	case major == "image", major == "audio", major == "video", major == "font":
		return kind, "remove it, or name only the texts"
	}
	return "", ""
}

// textAt reads a file that another file names, as readText does. It reports problems at the place
// of the name, where they have to be fixed.
func (f *findings) textAt(at place, path string, limit int64) (text []byte, ok bool) {
	before := len(f.problems)
	text, ok = f.readText(path, limit)
	for i := range f.problems[before:] {
		p := &f.problems[before+i]
		*p = at.problem(p.Fix, "%s: %s", p.File, p.Message)
	}
	return text, ok
}

// open opens a file that is part of the submission.
func (f *findings) open(path string) (*os.File, error) {
	file, err := OpenRegular(path)
	if err == nil && f.opened != nil {
		f.opened(path)
	}
	return file, err
}

// OpenRegular opens a file that is neither a folder nor a device. Its errors do not repeat the path.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("no such file")
	case err != nil:
		return nil, cause(err)
	case info.IsDir():
		return nil, errors.New("this is a folder, not a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("this is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	return file, nil
}

// cause returns err without the path, which the problem's place already names, and with the user who may not read the
// file: in a container it is not the one who wrote it.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if user := os.Getuid(); errors.Is(err, fs.ErrPermission) && user >= 0 {
		return fmt.Errorf("%w for user %d", err, user)
	}
	return err
}

// readable returns how a file that this process may not read becomes readable; empty after another error.
func readable(err error) string {
	if !errors.Is(err, fs.ErrPermission) || os.Getuid() < 0 {
		return ""
	}
	return "chmod a+r the file, and chmod a+x its folders; in a container, those that are mounted"
}

// invalidUTF8 returns the offset of the first byte that is not part of a character, or -1 if there
// is none.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	offset := 0
	for offset < len(text) {
		r, size := utf8.DecodeRune(text[offset:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		offset += size
	}
	return offset
}

// beside returns the path of a file that the evaluation file names relative to itself. ok is false
// if that file must not be read.
func (s *draft) beside(at place, path string) (beside string, ok bool) {
	beside = inFolder(s.dir, path)
	return beside, s.mayRead(at, s.dir, beside)
}

// pathOf returns the path of the file that v names. ok is false if v names none, or the file must
// not be read.
func (s *draft) pathOf(y *yamlFile, v value) (path string, ok bool) {
	name := y.text(v)
	if name == "" {
		return "", false
	}
	return s.beside(v.place, name)
}
