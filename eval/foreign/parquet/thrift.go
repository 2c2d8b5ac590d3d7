package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The types of values in Thrift's compact protocol, in which the metadata of Parquet files is written.
const (
	isTrue   = 1
	isFalse  = 2
	isByte   = 3
	isInt16  = 4
	isInt32  = 5
	isInt64  = 6
	isDouble = 7
	isBinary = 8
	isList   = 9
	isSet    = 10
	isMap    = 11
	isStruct = 12
)

// Bounds on metadata.
const (
	maxNesting  = 64   // of structures and lists
	maxName     = 1024 // bytes of a column's name
	maxMetadata = 64 << 20
)

var errMetadata = errors.New("the metadata is damaged")

// thrift reads metadata. It stops at the first error, which it keeps: everything it returns then is zero.
type thrift struct {
	from *bufio.Reader
	left int // bytes that may still be read
	err  error
}

func newThrift(from io.Reader, bound int) *thrift {
	return &thrift{from: bufio.NewReaderSize(from, 1<<12), left: bound}
}

func (t *thrift) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *thrift) byte() byte {
	if t.left--; t.left < 0 {
		t.fail(errMetadata)
	}
	if t.err != nil {
		return 0
	}
	b, err := t.from.ReadByte()
	if err != nil {
		t.fail(errMetadata)
	}
	return b
}

func (t *thrift) unsigned() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := t.byte()
		n |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return n
		}
	}
	t.fail(errMetadata)
	return 0
}

func (t *thrift) int() int64 {
	n := t.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

// size returns the length of a text or list, which cannot be larger than what is left.
func (t *thrift) size(n uint64) int {
	if n > uint64(max(t.left, 0)) {
		t.fail(errMetadata)
		return 0
	}
	return int(n)
}

// text reads a name.
func (t *thrift) text() string {
	n := t.size(t.unsigned())
	if n > maxName {
		t.fail(fmt.Errorf("a name of %d bytes is too long: at most %d are read", n, maxName))
	}
	text := make([]byte, 0, min(n, maxName))
	for range n {
		if t.err != nil {
			return ""
		}
		text = append(text, t.byte())
	}
	return string(text)
}

// list reads the length of a list and the type of its elements.
func (t *thrift) list() (n int, kind byte) {
	head := t.byte()
	if n = int(head >> 4); n == 15 {
		n = t.size(t.unsigned())
	}
	return n, head & 0xf
}

// structure reads a structure. take reads the value of each field that it knows, and returns false for any other,
// which is skipped.
func (t *thrift) structure(take func(id int64, kind byte) bool) { t.fields(take, 0) }

func (t *thrift) fields(take func(id int64, kind byte) bool, depth int) {
	for id := int64(0); t.err == nil; {
		head := t.byte()
		kind := head & 0xf
		if kind == 0 {
			return
		}
		if delta := int64(head >> 4); delta > 0 {
			id += delta
		} else {
			id = t.int()
		}
		if t.err == nil && !take(id, kind) {
			t.skip(kind, depth)
		}
	}
}

// skip reads over a value.
func (t *thrift) skip(kind byte, depth int) {
	if depth++; depth > maxNesting {
		t.fail(errMetadata)
	}

	switch kind {
	case isTrue, isFalse:
	case isByte:
		t.byte()
	case isInt16, isInt32, isInt64:
		t.unsigned()
	case isDouble:
		t.discard(8)
	case isBinary:
		t.discard(t.size(t.unsigned()))
	case isList, isSet:
		n, kind := t.list()
		for range n {
			if t.err != nil {
				return
			}
			t.element(kind, depth)
		}
	case isMap:
		n := t.size(t.unsigned())
		if n == 0 {
			return
		}
		kinds := t.byte()
		for range n {
			if t.err != nil {
				return
			}
			t.element(kinds>>4, depth)
			t.element(kinds&0xf, depth)
		}
	case isStruct:
		t.fields(func(int64, byte) bool { return false }, depth)
	default:
		t.fail(errMetadata)
	}
}

// element skips an element of a list. Unlike in a structure, a boolean is a byte of its own there.
func (t *thrift) element(kind byte, depth int) {
	if kind == isTrue || kind == isFalse {
		kind = isByte
	}
	t.skip(kind, depth)
}

func (t *thrift) discard(n int) {
	if t.left -= n; t.left < 0 {
		t.fail(errMetadata)
	}
	if t.err != nil {
		return
	}
	if _, err := t.from.Discard(n); err != nil {
		t.fail(errMetadata)
	}
}

// number reads an integer if the field has that type.
func (t *thrift) number(into *int64, kind byte) bool {
	if kind != isInt32 && kind != isInt64 && kind != isInt16 {
		t.fail(errMetadata)
		return true
	}
	*into = t.int()
	return true
}

// littleEndian returns up to eight bytes as a number.
func littleEndian(raw []byte) uint64 {
	var word [8]byte
	copy(word[:], raw)
	return binary.LittleEndian.Uint64(word[:])
}
