// Package parquet reads the rows of Apache Parquet files as JSON objects. Columns are keys; lists, structures and maps
// are nested as in JSON.
//
// Its files come from strangers. It reads one page of each column at a time and decodes values one by one, so that no
// length that a file states is believed before the bytes are there, and what it holds and returns has bounds. It reads
// no checksums, indexes or statistics, writes nothing, and does not know what rows mean.
package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bounds on files.
const (
	maxColumns   = 1000
	maxRowGroups = 1 << 15   // of the format
	maxPage      = 256 << 20 // bytes of one page, unpacked
	maxHeld      = 512 << 20 // bytes of the pages of all columns that are held at a time
	maxRow       = 48 << 20  // bytes of one row as JSON
	maxRows      = 1 << 30   // bytes of all rows as JSON
	maxPages     = 4 << 30   // bytes of all pages, unpacked
)

const magic = "PAR1"

// Is reports whether a file that begins with head is a Parquet file.
func Is(head []byte) bool {
	return bytes.HasPrefix(head, []byte(magic)) || bytes.HasPrefix(head, []byte("PARE"))
}

// Error is a problem of a file.
type Error struct {
	Row     int    // from 1; 0: the file as a whole
	Column  string // the path of a column, with dots; may be empty
	Message string
	Fix     string // may be empty
}

// Error returns the problem as one line.
func (e *Error) Error() string {
	text := e.Message
	if e.Column != "" {
		text = "column " + e.Column + ": " + text
	}
	if e.Row > 0 {
		text = fmt.Sprintf("row %d: %s", e.Row, text)
	}
	return text
}

// File is a Parquet file.
type File struct {
	from   io.ReaderAt
	size   int64
	root   *node
	leaves []*leaf
	groups []group
	most   int // bytes of all rows as JSON
}

// group is a group of rows.
type group struct {
	rows   int64
	chunks []chunk // of each of File.leaves
}

// chunk is the part of a column that a group of rows has.
type chunk struct {
	codec, size, data, dictionary int64
	elsewhere                     bool // in another file
	encrypted                     bool
	kind                          int64
}

// broken returns the error of a file that does not follow the format.
func broken(format string, args ...any) *Error {
	return &Error{Message: "the Parquet file is damaged: " + fmt.Sprintf(format, args...),
		Fix: "the program that wrote it may have been interrupted"}
}

// Open reads a file's metadata. Its error, as all errors of this package, is of type *Error.
func Open(from io.ReaderAt, size int64) (*File, error) {
	f := &File{from: from, size: size, most: maxRows}
	const ends = int64(len(magic))
	tail := make([]byte, 4+ends)
	if size < ends+int64(len(tail)) {
		return nil, broken("it has only %d bytes", size)
	}
	if _, err := from.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{Message: err.Error()}
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	start := size - int64(len(tail)) - length
	switch end := string(tail[4:]); {
	case end == "PARE":
		return nil, &Error{Message: "the Parquet file is encrypted", Fix: "write it without encryption"}
	case end != magic:
		return nil, broken("its end is missing")
	case start < ends:
		return nil, broken("its metadata has %d bytes, more than the file", length)
	case length > maxMetadata:
		return nil, &Error{Message: fmt.Sprintf("metadata of %d bytes is too large: at most %d are read", length, maxMetadata)}
	}

	t := newThrift(io.NewSectionReader(from, start, length), int(length))
	var wrong error
	t.structure(func(id int64, kind byte) bool {
		switch {
		case id == 2 && kind == isList:
			wrong = f.schema(t)
		case id == 4 && kind == isList && f.root != nil:
			wrong = f.rowGroups(t)
		default:
			return false
		}
		if wrong != nil {
			t.fail(wrong)
		}
		return true
	})
	var explained *Error
	switch {
	case errors.As(t.err, &explained):
		return nil, explained
	case t.err != nil:
		return nil, broken("%v", t.err)
	case f.root == nil:
		return nil, broken("it has no columns")
	}
	return f, nil
}

// rowGroups reads the list of groups.
func (f *File) rowGroups(t *thrift) error {
	n, kind := t.list()
	if kind != isStruct && n > 0 {
		return errMetadata
	}
	if n > maxRowGroups {
		return &Error{Message: fmt.Sprintf("the Parquet file has %d groups of rows: at most %d are read", n, maxRowGroups)}
	}

	for i := 0; i < n && t.err == nil; i++ {
		g := group{rows: -1}
		t.structure(func(id int64, kind byte) bool {
			switch {
			case id == 1 && kind == isList:
				f.columnChunks(t, &g)
			case id == 3:
				return t.number(&g.rows, kind)
			default:
				return false
			}
			return true
		})
		if t.err == nil && (g.rows < 0 || len(g.chunks) != len(f.leaves)) {
			return broken("group %d of its rows has %d columns of %d", i+1, len(g.chunks), len(f.leaves))
		}
		f.groups = append(f.groups, g)
	}
	return nil
}

// columnChunks reads the chunks of a group.
func (f *File) columnChunks(t *thrift, g *group) {
	n, kind := t.list()
	if n != len(f.leaves) || kind != isStruct {
		t.fail(errMetadata)
		return
	}
	for i := 0; i < n && t.err == nil; i++ {
		c := chunk{kind: -1}
		t.structure(func(id int64, kind byte) bool {
			switch {
			case id == 1:
				c.elsewhere = true
			case id == 8:
				c.encrypted = true
			case id == 3 && kind == isStruct:
				t.structure(func(id int64, kind byte) bool { return c.field(t, id, kind) })
				return true
			}
			return false
		})
		g.chunks = append(g.chunks, c)
	}
}

// field reads a field of a chunk's metadata.
func (c *chunk) field(t *thrift, id int64, kind byte) bool {
	into := map[int64]*int64{1: &c.kind, 4: &c.codec, 7: &c.size, 9: &c.data, 11: &c.dictionary}[id]
	return into != nil && t.number(into, kind)
}
