package parquet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The kinds of pages, the codecs and the encodings of the format that are read.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3

	uncompressed = 0
	codecSnappy  = 1
	codecGzip    = 2
	codecBrotli  = 4
	codecZstd    = 6
	codecLZ4     = 7

	encPlain           = 0
	encPlainDictionary = 2
	encRunLength       = 3
	encDelta           = 5
	encDeltaLength     = 6
	encDeltaBytes      = 7
	encDictionary      = 8
	encSplit           = 9
)

// codecs names those that are not read.
var codecs = map[int64]string{3: "LZO", 5: "LZ4 in frames of Hadoop"}

// header is the header of a page.
type header struct {
	kind, unpacked, packed    int64
	values, encoding          int64
	defEncoding, repEncoding  int64
	defBytes, repBytes        int64
	uncompressedAlthoughCodec bool
}

func readHeader(t *thrift) header {
	h := header{kind: -1, values: -1, encoding: -1, defEncoding: encRunLength, repEncoding: encRunLength}
	number := func(into map[int64]*int64) {
		t.structure(func(id int64, kind byte) bool {
			if id == 7 && kind == isFalse && h.kind == dataPageV2 {
				h.uncompressedAlthoughCodec = true
			}
			field := into[id]
			return field != nil && t.number(field, kind)
		})
	}

	t.structure(func(id int64, kind byte) bool {
		if kind != isStruct {
			into := map[int64]*int64{1: &h.kind, 2: &h.unpacked, 3: &h.packed}[id]
			return into != nil && t.number(into, kind)
		}
		switch id {
		case 5:
			number(map[int64]*int64{1: &h.values, 2: &h.encoding, 3: &h.defEncoding, 4: &h.repEncoding})
		case 7:
			number(map[int64]*int64{1: &h.values, 2: &h.encoding})
		case 8:
			number(map[int64]*int64{1: &h.values, 4: &h.encoding, 5: &h.defBytes, 6: &h.repBytes})
		default:
			return false
		}
		return true
	})

	return h
}

// cursor reads the values of a column in a group of rows.
type cursor struct {
	*leaf
	reader *reader
	codec  int64
	pages  *bufio.Reader
	size   int64 // bytes of pages
	values int64 // of the current page that are left
	held   int   // bytes of the current page and of the dictionary
	known  *dictionary
	reps   hybrid
	defs   hybrid
	from   decoder

	loaded   bool
	rep, def int // of the next value
}

// fail returns an error of the column.
func (c *cursor) fail(format string, args ...any) error {
	e := broken(format, args...)
	e.Column = c.path
	return e
}

// load makes the levels of the next value known. ended means that there is none.
func (c *cursor) load() (ended bool, err error) {
	if c.loaded {
		return false, nil
	}
	for c.values == 0 {
		if ended, err = c.page(); ended || err != nil {
			return ended, err
		}
	}
	c.values--
	rep, ok := c.reps.next()
	def, also := c.defs.next()
	if !ok || !also || rep > uint64(c.leaf.rep) || def > uint64(c.leaf.def) {
		return false, c.fail("its levels are not those of the page")
	}
	c.loaded, c.rep, c.def = true, int(rep), int(def)
	return false, nil
}

// take returns the next value, whose levels are loaded; nil: there is none at this place.
func (c *cursor) take() ([]byte, error) {
	c.loaded = false
	if c.def < c.leaf.def {
		return nil, nil
	}
	raw, ok := c.from.next()
	if !ok {
		return nil, c.fail("a page has fewer values than it says")
	}
	return raw, nil
}

// page reads the next page with values, and dictionaries before it.
func (c *cursor) page() (ended bool, err error) {
	if _, err := c.pages.Peek(1); errors.Is(err, io.EOF) {
		return true, nil
	}
	const bound = 16 << 20 // statistics in headers have texts
	t := &thrift{from: c.pages, left: bound}
	h := readHeader(t)
	if t.err != nil {
		return false, c.fail("a page has no header")
	}
	switch {
	case h.packed < 0 || h.unpacked < 0 || h.repBytes < 0 || h.defBytes < 0 || h.packed > c.size:
		return false, c.fail("a page has %d bytes, unpacked %d", h.packed, h.unpacked)
	case h.packed > maxPage || h.unpacked > maxPage:
		return false, &Error{
			Column: c.path, Message: fmt.Sprintf("a page of %d bytes is too large: at most %d are read", max(h.packed, h.unpacked), maxPage),
			Fix: "write the file with smaller groups of rows",
		}
	}
	if h.kind != dataPage && h.kind != dataPageV2 && h.kind != dictionaryPage {
		_, err := c.pages.Discard(int(h.packed))
		return false, err
	}

	raw := make([]byte, h.packed)
	if _, err := io.ReadFull(c.pages, raw); err != nil {
		return false, c.fail("a page is cut off")
	}
	if err := c.reader.hold(c, c.known.bytes()+int(h.unpacked)); err != nil {
		return false, err
	}
	switch {
	case h.kind != dictionaryPage:
		return false, c.readData(h, raw)
	case c.known != nil:
		return false, c.fail("it has two dictionaries")
	}
	return false, c.readDictionary(h, raw)
}

// readDictionary unpacks a dictionary.
func (c *cursor) readDictionary(h header, raw []byte) error {
	data, err := c.unpack(raw, int(h.unpacked))
	if err != nil {
		return err
	}
	d, ok := newDictionary(c.leaf, data, h.values)
	if !ok || h.encoding != encPlain && h.encoding != encPlainDictionary {
		return c.fail("its dictionary has other values than it says")
	}
	c.known = d
	return c.reader.hold(c, d.bytes())
}

// readData unpacks a page of values.
func (c *cursor) readData(h header, raw []byte) error {
	if h.values < 0 || h.defEncoding != encRunLength || h.repEncoding != encRunLength {
		return c.fail("the levels of a page have an encoding that is not read")
	}
	size, levels := int(h.unpacked), []byte(nil)
	if h.kind == dataPageV2 {
		if h.repBytes+h.defBytes > int64(min(len(raw), size)) {
			return c.fail("a page is smaller than its levels")
		}
		n := int(h.repBytes + h.defBytes)
		levels, raw, size = raw[:n], raw[n:], size-n
	}
	data := raw
	if !h.uncompressedAlthoughCodec {
		var err error
		if data, err = c.unpack(raw, size); err != nil {
			return err
		}
	}

	ok := true
	level := func(max int, size int64) hybrid {
		switch {
		case max == 0 && h.kind == dataPage:
			return constant
		case h.kind == dataPage:
			var one []byte
			if one, data, ok = prefixed(data, ok); !ok {
				return constant
			}
			return newHybrid(one, bits.Len(uint(max)))
		}
		one := levels[:size]
		levels = levels[size:]
		if max == 0 {
			return constant
		}
		return newHybrid(one, bits.Len(uint(max)))
	}
	c.reps = level(c.leaf.rep, h.repBytes)
	c.defs = level(c.leaf.def, h.defBytes)
	if c.from = c.decoder(h.encoding, data, h.values); !ok || c.from == nil {
		return c.fail("a page has an encoding that is not read, or too few bytes")
	}
	c.values = h.values
	return nil
}

// prefixed returns a part of a page whose length is before it, and the rest.
func prefixed(data []byte, ok bool) (part, rest []byte, fits bool) {
	const head = 4
	if !ok || len(data) < head {
		return nil, nil, false
	}
	n := littleEndian(data[:head])
	if data = data[head:]; n > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:n], data[n:], true
}

// unpack returns the bytes of a page, of which there must be size.
func (c *cursor) unpack(raw []byte, size int) ([]byte, error) {
	var data []byte
	var err error
	switch c.codec {
	case uncompressed:
		data = raw
	case codecSnappy:
		if n, lengthErr := snappy.DecodedLen(raw); lengthErr != nil || n != size {
			return nil, c.fail("a page does not unpack to its size")
		}
		data, err = snappy.Decode(nil, raw)
	case codecZstd:
		data, err = c.reader.unzstd(raw, size)
	case codecLZ4:
		data = make([]byte, size)
		var n int
		n, err = lz4.UncompressBlock(raw, data)
		data = data[:max(n, 0)]
	case codecGzip, codecBrotli:
		data, err = inflate(raw, size, c.codec)
	default:
		name := codecs[c.codec]
		if name == "" {
			name = fmt.Sprintf("codec %d", c.codec)
		}
		return nil, &Error{Column: c.path, Message: "it is compressed with " + name + ", which is not read",
			Fix: "write the file with zstd or snappy"}
	}

	if err != nil || len(data) != size {
		return nil, c.fail("a page does not unpack to its size")
	}
	return data, nil
}

// inflate unpacks at most size bytes.
func inflate(raw []byte, size int, codec int64) ([]byte, error) {
	var from io.Reader = brotli.NewReader(bytes.NewReader(raw))
	if codec == codecGzip {
		unzip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		from = unzip
	}
	data := make([]byte, size)
	n, err := io.ReadFull(from, data)
	if err == nil && size > 0 {
		var more [1]byte
		if k, _ := from.Read(more[:]); k > 0 {
			n = 0 // more than size
		}
	}
	return data[:n], err
}

// unzstd unpacks at most size bytes.
func (r *reader) unzstd(raw []byte, size int) (data []byte, err error) {
	if r.zstd == nil {
		r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxPage))
		if err != nil {
			return nil, err
		}
	}
	return r.zstd.DecodeAll(raw, make([]byte, 0, size))
}
