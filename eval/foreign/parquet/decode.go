package parquet

import (
	"encoding/binary"
)

// decoder returns the values of a page, one after another, in the form of the encoding PLAIN. A value is valid until the
// next one is asked for. ok is false if there is none.
type decoder interface {
	next() (raw []byte, ok bool)
}

// width returns the bytes of a value; 0: they vary.
func (l *leaf) width() int {
	switch l.kind {
	case typeBoolean:
		return 1
	case typeInt32, typeFloat:
		return 4
	case typeInt64, typeDouble:
		return 8
	case typeInt96:
		return 12
	case typeFixed:
		return int(l.length)
	}
	return 0
}

// decoder returns the decoder of a page; nil: its encoding is not read, or its bytes are too few.
func (c *cursor) decoder(encoding int64, data []byte, values int64) decoder {
	isInt := c.kind == typeInt32 || c.kind == typeInt64
	isBytes := c.kind == typeBytes

	switch {
	case encoding == encPlain && c.kind == typeBoolean:
		return &boolean{from: newPacked(data, 1)}
	case encoding == encPlain && isBytes:
		return &plainBytes{data}
	case encoding == encPlain:
		return &plain{data, c.width()}
	case encoding == encRunLength && c.kind == typeBoolean:
		if part, _, ok := prefixed(data, true); ok {
			return &boolean{from: newHybrid(part, 1)}
		}
	case encoding == encDictionary || encoding == encPlainDictionary:
		if len(data) == 0 || c.known == nil {
			return &plain{} // a page of nulls needs neither
		}
		return &indexes{newHybrid(data[1:], int(data[0])), c.known}
	case encoding == encDelta && isInt:
		return &integers{from: newDeltas(data, values), width: c.width()}
	case encoding == encDeltaLength && isBytes:
		if d := newDeltaLengths(data, values); d != nil {
			return d
		}
	case encoding == encDeltaBytes && (isBytes || c.kind == typeFixed):
		prefixes := newDeltas(data, values)
		if rest, ok := prefixes.end(); ok {
			if suffixes := newDeltaLengths(rest, values); suffixes != nil {
				return &prefixedBytes{prefixes: newDeltas(data, values), suffixes: suffixes, value: []byte{}}
			}
		}
	case encoding == encSplit && !isBytes && c.kind != typeBoolean && c.width() > 0:
		return &split{data: data, width: c.width(), count: len(data) / c.width()}
	}

	return nil
}

// plain reads values of one width.
type plain struct {
	data  []byte
	width int
}

func (p *plain) next() ([]byte, bool) {
	if p.width > len(p.data) || p.data == nil {
		return nil, false
	}
	raw := p.data[:p.width]
	p.data = p.data[p.width:]
	return raw, true
}

// plainBytes reads values with their lengths before them.
type plainBytes struct{ data []byte }

func (p *plainBytes) next() (raw []byte, ok bool) {
	raw, p.data, ok = prefixed(p.data, true)
	return raw, ok
}

// boolean reads truth values as 0 and 1.
type boolean struct {
	from  hybrid
	value [1]byte
}

func (b *boolean) next() ([]byte, bool) {
	bit, ok := b.from.next()
	b.value[0] = byte(bit)
	return b.value[:], ok
}

// dictionary holds the values that a column's pages refer to.
type dictionary struct {
	data  []byte
	width int      // 0: values have the offsets
	ends  []uint32 // of each value
}

// newDictionary splits the bytes of a dictionary.
func newDictionary(l *leaf, data []byte, values int64) (*dictionary, bool) {
	d := &dictionary{data: data, width: l.width()}
	if l.kind == typeBoolean || values < 0 {
		return nil, false
	}
	if l.kind != typeBytes {
		return d, values*int64(d.width) <= int64(len(data))
	}
	const head = 4
	if values > int64(len(data)/head) {
		return nil, false
	}
	d.ends = make([]uint32, 0, values)
	at := 0
	for range values {
		part, _, ok := prefixed(data[at:], true)
		if !ok {
			return nil, false
		}
		at += head + len(part)
		d.ends = append(d.ends, uint32(at))
	}
	return d, true
}

// bytes returns what a dictionary holds.
func (d *dictionary) bytes() int {
	if d == nil {
		return 0
	}
	return len(d.data) + 4*len(d.ends)
}

func (d *dictionary) at(i uint64) ([]byte, bool) {
	if d.ends == nil {
		if d.width == 0 || i >= uint64(len(d.data)/d.width) {
			return nil, false
		}
		return d.data[int(i)*d.width : (int(i)+1)*d.width], true
	}
	if i >= uint64(len(d.ends)) {
		return nil, false
	}
	start := 0
	if i > 0 {
		start = int(d.ends[i-1])
	}
	return d.data[start+4 : d.ends[i]], true
}

// indexes reads values by their position in a dictionary.
type indexes struct {
	from hybrid
	in   *dictionary
}

func (x *indexes) next() ([]byte, bool) {
	i, ok := x.from.next()
	if !ok {
		return nil, false
	}
	return x.in.at(i)
}

// split reads values whose first bytes come first, then their second bytes and so on.
type split struct {
	data         []byte
	width, count int
	at           int
	value        [maxName]byte
}

func (s *split) next() ([]byte, bool) {
	if s.at >= s.count {
		return nil, false
	}
	for k := range s.width {
		s.value[k] = s.data[k*s.count+s.at]
	}
	s.at++
	return s.value[:s.width], true
}

// hybrid reads numbers that are written as runs of one value, or packed with a fixed number of bits.
type hybrid struct {
	data   []byte
	width  int
	left   uint64 // of the run
	value  uint64 // of a run of one value
	bits   []byte // of a packed run
	bit    uint64 // position in bits
	packed bool
	same   bool // every number is 0
}

// constant has the number 0 forever.
var constant = hybrid{same: true}

func newHybrid(data []byte, width int) hybrid { return hybrid{data: data, width: width} }

// newPacked returns a reader of packed bits without runs.
func newPacked(data []byte, width int) hybrid {
	return hybrid{bits: data, width: width, packed: true, left: uint64(len(data)) * 8 / uint64(width)}
}

func (h *hybrid) next() (uint64, bool) {
	if h.same {
		return 0, true
	}
	for h.left == 0 {
		if !h.run() {
			return 0, false
		}
	}
	h.left--
	if !h.packed {
		return h.value, true
	}
	at := h.bit
	h.bit += uint64(h.width)
	if h.width == 0 {
		return 0, true
	}
	if at/8 >= uint64(len(h.bits)) {
		return 0, false
	}
	return unpackBits(h.bits, at, h.width), true
}

// run begins the next run.
func (h *hybrid) run() bool {
	n, size := binary.Uvarint(h.data)
	if size <= 0 || h.width > 32 {
		return false
	}
	h.data = h.data[size:]
	if h.packed = n&1 == 1; !h.packed {
		bytes := (h.width + 7) / 8
		if bytes > len(h.data) {
			return false
		}
		h.left, h.value = n>>1, littleEndian(h.data[:bytes])
		h.data = h.data[bytes:]
		return true
	}

	groups := n >> 1
	if h.width > 0 && groups > uint64(len(h.data)) { // a group has at least one byte
		return false
	}
	if groups > 1<<40 {
		return false
	}
	bytes := min(groups*uint64(h.width), uint64(len(h.data))) // some writers leave out bits that are not needed
	h.left, h.bits, h.bit = groups*8, h.data[:bytes], 0
	h.data = h.data[bytes:]
	return true
}

// unpackBits returns up to 64 bits from a position. Bits beyond the end are 0.
func unpackBits(from []byte, at uint64, width int) uint64 {
	start, shift := at/8, at%8
	rest := from[min(start, uint64(len(from))):]
	var word uint64
	if len(rest) >= 8 {
		word = binary.LittleEndian.Uint64(rest) >> shift
	} else {
		word = littleEndian(rest) >> shift
	}
	if shift > 0 && int(shift)+width > 64 && len(rest) > 8 {
		word |= uint64(rest[8]) << (64 - shift)
	}
	if width >= 64 {
		return word
	}
	return word & (1<<width - 1)
}

// deltas reads numbers that are written as their differences.
type deltas struct {
	data     []byte
	left     uint64 // numbers
	value    int64
	began    bool
	perBlock uint64 // miniblocks
	perMini  uint64 // numbers
	least    int64
	widths   []byte // of the block's miniblocks that follow
	bits     []byte
	bit      uint64
	width    int
	inMini   uint64 // numbers that are left in it
	bad      bool
}

// newDeltas returns a reader of at most as many numbers as a page has values, because a few bytes can stand for many.
func newDeltas(data []byte, values int64) *deltas {
	d := &deltas{data: data}
	block := d.unsigned()
	d.perBlock = d.unsigned()
	d.left = d.unsigned()
	first := d.unsigned()
	d.value = int64(first>>1) ^ -int64(first&1)
	const largest = 1 << 16
	if d.bad || block > largest || d.perBlock == 0 || block%d.perBlock != 0 || block/d.perBlock%8 != 0 || block == 0 ||
		d.left > uint64(values) {
		d.bad = true
		return d
	}
	d.perMini = block / d.perBlock
	return d
}

func (d *deltas) unsigned() uint64 {
	n, size := binary.Uvarint(d.data)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.data = d.data[size:]
	return n
}

func (d *deltas) next() (int64, bool) {
	if d.bad || d.left == 0 {
		return 0, false
	}
	d.left--
	if !d.began {
		d.began = true
		return d.value, true
	}
	if d.inMini == 0 && !d.mini() {
		d.bad = true
		return 0, false
	}
	d.inMini--
	d.value += d.least + int64(unpackBits(d.bits, d.bit, d.width))
	d.bit += uint64(d.width)
	return d.value, true
}

// mini begins the next miniblock, and the next block if needed.
func (d *deltas) mini() bool {
	if len(d.widths) == 0 {
		least := d.unsigned()
		if d.bad || d.perBlock > uint64(len(d.data)) {
			return false
		}
		d.least = int64(least>>1) ^ -int64(least&1)
		d.widths, d.data = d.data[:d.perBlock], d.data[d.perBlock:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	bytes := d.perMini / 8 * uint64(d.width)
	if d.width > 64 || bytes > uint64(len(d.data)) {
		return false
	}
	d.bits, d.bit, d.inMini = d.data[:bytes], 0, d.perMini
	d.data = d.data[bytes:]
	return true
}

// end reads all numbers and returns the bytes after them.
func (d *deltas) end() (rest []byte, ok bool) {
	for d.left > 0 {
		if _, ok := d.next(); !ok {
			return nil, false
		}
	}
	return d.data, !d.bad
}

// integers reads numbers as bytes.
type integers struct {
	from  *deltas
	width int
	value [8]byte
}

func (n *integers) next() ([]byte, bool) {
	value, ok := n.from.next()
	binary.LittleEndian.PutUint64(n.value[:], uint64(value))
	return n.value[:n.width], ok
}

// deltaLengths reads texts whose lengths come first.
type deltaLengths struct {
	lengths *deltas
	data    []byte
}

func newDeltaLengths(data []byte, values int64) *deltaLengths {
	rest, ok := newDeltas(data, values).end()
	if !ok {
		return nil
	}
	return &deltaLengths{newDeltas(data, values), rest}
}

func (d *deltaLengths) next() ([]byte, bool) {
	n, ok := d.lengths.next()
	if !ok || n < 0 || n > int64(len(d.data)) {
		return nil, false
	}
	raw := d.data[:n]
	d.data = d.data[n:]
	return raw, true
}

// prefixedBytes reads texts that begin like the one before.
type prefixedBytes struct {
	prefixes *deltas
	suffixes *deltaLengths
	value    []byte
}

func (p *prefixedBytes) next() ([]byte, bool) {
	n, ok := p.prefixes.next()
	suffix, also := p.suffixes.next()
	if !ok || !also || n < 0 || n > int64(len(p.value)) || len(p.value)+len(suffix) > maxPage {
		return nil, false
	}
	p.value = append(p.value[:n], suffix...)
	return p.value, true
}
