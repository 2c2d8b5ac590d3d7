package parquet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"
)

// scalar appends a value as JSON; nil is null.
func (r *reader) scalar(to []byte, l *leaf, raw []byte) ([]byte, error) {
	if raw == nil {
		return append(to, "null"...), nil
	}
	switch l.kind {
	case typeBoolean:
		return strconv.AppendBool(to, raw[0] == 1), nil
	case typeInt32:
		return l.integer(to, int64(int32(binary.LittleEndian.Uint32(raw))), 32), nil
	case typeInt64:
		return l.integer(to, int64(binary.LittleEndian.Uint64(raw)), 64), nil
	case typeInt96: // nanoseconds of a Julian day
		const epoch = 2_440_588 // of 1970-01-01
		day := int64(binary.LittleEndian.Uint32(raw[8:])) - epoch
		at := time.Unix(day*24*3600, int64(binary.LittleEndian.Uint64(raw)%uint64(24*time.Hour)))
		return appendTime(to, at), nil
	case typeFloat:
		return r.number(to, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), 32), nil
	case typeDouble:
		return r.number(to, math.Float64frombits(binary.LittleEndian.Uint64(raw)), 64), nil
	}

	switch {
	case l.meaning == asDecimal:
		return appendDecimal(to, bigEndian(raw), l.scale), nil
	case l.meaning == asUUID && len(raw) == 16:
		return fmt.Appendf(to, `"%x-%x-%x-%x-%x"`, raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]), nil
	case l.meaning == asHalf && len(raw) == 2:
		return r.number(to, half(binary.LittleEndian.Uint16(raw)), 32), nil
	case l.meaning == asJSON && json.Valid(raw) && utf8.Valid(raw):
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err == nil {
			return append(to, compact.Bytes()...), nil
		}
	}
	switch {
	case utf8.Valid(raw):
		return appendText(to, string(raw)), nil
	case l.meaning == asText:
		return nil, &Error{Column: l.path, Message: "the value is not UTF-8", Fix: "write texts as UTF-8"}
	}
	return append(to, r.odd...), nil
}

// integer appends a whole number, or what it stands for.
func (l *leaf) integer(to []byte, n int64, bits int) []byte {
	day := func(unit time.Duration) []byte {
		return time.Unix(0, 0).UTC().Add(time.Duration(n%int64(24*time.Hour/unit))*unit).AppendFormat(to, `"15:04:05.999999999"`)
	}

	switch l.meaning {
	case asUnsigned:
		if bits == 32 {
			return strconv.AppendUint(to, uint64(uint32(n)), 10)
		}
		return strconv.AppendUint(to, uint64(n), 10)
	case asDecimal:
		return appendDecimal(to, big.NewInt(n), l.scale)
	case asDate:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(int32(n))).AppendFormat(to, `"2006-01-02"`)
	case asMillis:
		return day(time.Millisecond)
	case asMicros:
		return day(time.Microsecond)
	case asNanos:
		return day(time.Nanosecond)
	case atMillis:
		return appendTime(to, time.UnixMilli(n))
	case atMicros:
		return appendTime(to, time.UnixMicro(n))
	case atNanos:
		return appendTime(to, time.Unix(0, n))
	}

	return strconv.AppendInt(to, n, 10)
}

func appendTime(to []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(to, `"2006-01-02T15:04:05.999999999Z"`)
}

// number appends a number as JSON writes it.
func (r *reader) number(to []byte, x float64, bits int) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(to, r.odd...)
	}
	return strconv.AppendFloat(to, x, 'g', -1, bits)
}

// half returns a number of 16 bits.
func half(raw uint16) float64 {
	sign, exponent, fraction := 1.0, int(raw>>10&0x1f), float64(raw&0x3ff)
	if raw>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		return math.NaN()
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// bigEndian returns a number with a sign.
func bigEndian(raw []byte) *big.Int {
	const most = 64 // bytes of the widest decimals that programs write, and more
	raw = raw[:min(len(raw), most)]
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return n
}

// appendDecimal appends a number with scale digits after the point.
func appendDecimal(to []byte, n *big.Int, scale int64) []byte {
	if n.Sign() < 0 {
		to = append(to, '-')
	}
	digits := new(big.Int).Abs(n).String()
	for int64(len(digits)) <= scale {
		digits = "0" + digits
	}
	point := len(digits) - int(scale)
	to = append(to, digits[:point]...)
	if scale > 0 {
		to = append(append(to, '.'), digits[point:]...)
	}
	return to
}

// appendText appends a text as JSON.
func appendText(to []byte, text string) []byte {
	to = append(to, '"')
	plain := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, text[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, `\n`...)
		case '\t':
			to = append(to, `\t`...)
		default:
			to = fmt.Appendf(to, `\u%04x`, c)
		}
	}
	return append(append(to, text[plain:]...), '"')
}
