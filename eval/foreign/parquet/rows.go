package parquet

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// reader reads the rows of a file.
type reader struct {
	*File
	odd     string
	cursors []*cursor
	zstd    *zstd.Decoder // nil: not needed yet
	held    int
	row     int
	total   int   // bytes of all rows
	pages   int64 // bytes of all pages
}

// Rows passes each row to take as a JSON object, which take must not keep, until it returns false. Rows count from 1.
// odd stands for values that JSON does not have: NaN, infinities, and bytes that are not text.
func (f *File) Rows(odd string, take func(row int, object []byte) (more bool)) error {
	r := &reader{File: f, odd: odd}
	defer r.close()
	var object []byte
	for i := range f.groups {
		if err := r.open(&f.groups[i]); err != nil {
			return err
		}
		for range f.groups[i].rows {
			r.row++
			var err error
			if object, err = r.append(object[:0]); err != nil {
				return r.placed(err)
			}
			if !take(r.row, object) {
				return nil
			}
		}
		if err := r.ended(); err != nil {
			return r.placed(err)
		}
	}
	return nil
}

func (r *reader) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
}

// placed adds the row to an error.
func (r *reader) placed(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Message: err.Error()}
	}
	e.Row = r.row
	return e
}

// open begins a group of rows.
func (r *reader) open(g *group) error {
	r.cursors, r.held = make([]*cursor, len(r.leaves)), 0
	for i, l := range r.leaves {
		c := g.chunks[i]
		fail := func(message, fix string) error {
			return &Error{Row: r.row + 1, Column: l.path, Message: message, Fix: fix}
		}
		start := c.data
		if c.dictionary > 0 {
			start = min(start, c.dictionary)
		}
		switch {
		case c.encrypted:
			return fail("it is encrypted", "write it without encryption")
		case c.elsewhere:
			return fail("its values are in another file", "write one file")
		case c.kind != l.kind || start < 0 || c.size < 0 || start > r.size || c.size > r.size-start:
			return fail("the Parquet file is damaged: its pages are outside of the file", "the program that wrote it may have been interrupted")
		}
		section := io.NewSectionReader(r.from, start, c.size)
		r.cursors[i] = &cursor{leaf: l, reader: r, codec: c.codec, pages: bufio.NewReaderSize(section, 1<<12), size: c.size}
	}
	return nil
}

// hold bounds the bytes that all columns hold.
func (r *reader) hold(c *cursor, bytes int) error {
	r.held += bytes - c.held
	c.held = bytes
	if r.pages += int64(bytes); r.pages > maxPages {
		return tooMuch(maxPages)
	}
	if r.held > maxHeld {
		return &Error{
			Message: fmt.Sprintf("the pages of its columns have more than %d bytes", maxHeld),
			Fix:     "write the file with smaller groups of rows, or with fewer columns",
		}
	}
	return nil
}

// ended returns an error if the group has more values than rows.
func (r *reader) ended() error {
	for _, c := range r.cursors {
		if ended, err := c.load(); err != nil {
			return err
		} else if !ended {
			return c.fail("it has more values than rows")
		}
	}
	return nil
}

// append appends the next row.
func (r *reader) append(to []byte) ([]byte, error) {
	for _, c := range r.cursors {
		if ended, err := c.load(); err != nil {
			return nil, err
		} else if ended || c.rep != 0 {
			return nil, c.fail("it has other rows than the group says")
		}
	}
	to, err := r.structure(to, r.root)
	r.total += len(to)
	if err == nil && r.total > r.most {
		err = tooMuch(int64(r.most))
	}
	return to, err
}

func tooMuch(bound int64) error {
	return &Error{
		Message: fmt.Sprintf("the file unpacks to more than %d bytes", bound), Fix: "split it, or write only the columns that are needed",
	}
}

// structure appends the fields of a structure that is present.
func (r *reader) structure(to []byte, n *node) (_ []byte, err error) {
	to = append(to, '{')
	for i, child := range n.children {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendText(to, child.name), ':')
		if to, err = r.field(to, child); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

// field appends what a node has at the current place: a list if it is repeated, or a value or null.
func (r *reader) field(to []byte, n *node) ([]byte, error) {
	if len(to) > maxRow {
		return nil, &Error{Message: fmt.Sprintf("the row has more than %d bytes", maxRow)}
	}
	c := r.cursors[n.first.position]
	switch {
	case n.repetition == repeated:
		return r.list(to, n, r.value)
	case c.def < n.def:
		return append(to, "null"...), r.drop(n, n.def)
	}
	return r.value(to, n)
}

// value appends a node that is present, once.
func (r *reader) value(to []byte, n *node) ([]byte, error) {
	if n.leaf != nil {
		c := r.cursors[n.leaf.position]
		raw, err := c.take()
		if err != nil {
			return nil, err
		}
		if to, err = r.scalar(to, n.leaf, raw); err != nil {
			return nil, err
		}
		if len(to) > maxRow {
			return nil, &Error{Column: n.leaf.path, Message: fmt.Sprintf("the row has more than %d bytes", maxRow)}
		}
		return to, r.ahead(c)
	}

	if list := n.elements(); list != nil {
		if inner := n.children[0]; list != inner {
			return r.list(to, inner, func(to []byte, inner *node) ([]byte, error) { return r.field(to, inner.children[0]) })
		}
		return r.list(to, list, r.value)
	}
	if entries := n.entries(); entries != nil {
		return r.entries(to, entries)
	}
	return r.structure(to, n)
}

// ahead loads the levels of a column's next value, which say whether a list continues.
func (r *reader) ahead(c *cursor) error {
	ended, err := c.load()
	if ended {
		c.rep, c.def = 0, 0 // the row ends
	}
	return err
}

// drop reads over a node that is not present, because its level is below def.
func (r *reader) drop(n *node, def int) error {
	if n.leaf != nil {
		c := r.cursors[n.leaf.position]
		if c.def >= def {
			return c.fail("it has a value where its structure has none")
		}
		if _, err := c.take(); err != nil {
			return err
		}
		return r.ahead(c)
	}
	for _, child := range n.children {
		if err := r.drop(child, def); err != nil {
			return err
		}
	}
	return nil
}

// list appends the repetitions of a node.
func (r *reader) list(to []byte, n *node, value func([]byte, *node) ([]byte, error)) ([]byte, error) {
	return r.repetitions(to, n, '[', ']', value)
}

// entries appends a map.
func (r *reader) entries(to []byte, n *node) ([]byte, error) {
	return r.repetitions(to, n, '{', '}', func(to []byte, n *node) ([]byte, error) {
		to, err := r.field(to, n.children[0])
		if err != nil {
			return nil, err
		}
		return r.field(append(to, ':'), n.children[1])
	})
}

// repetitions appends the repetitions of a node between two brackets.
func (r *reader) repetitions(to []byte, n *node, opens, closes byte, value func([]byte, *node) ([]byte, error)) (_ []byte, err error) {
	c := r.cursors[n.first.position]
	to = append(to, opens)
	if c.def < n.def {
		return append(to, closes), r.drop(n, n.def)
	}
	for i := 0; i == 0 || c.loaded && c.rep == n.rep; i++ {
		if i > 0 {
			to = append(to, ',')
		}
		if !c.loaded || c.def < n.def {
			return nil, c.fail("its lists have other levels than its values")
		}
		if to, err = value(to, n); err != nil {
			return nil, err
		}
		if len(to) > maxRow {
			return nil, &Error{Column: c.path, Message: fmt.Sprintf("the row has more than %d bytes", maxRow)}
		}
	}
	return append(to, closes), nil
}
