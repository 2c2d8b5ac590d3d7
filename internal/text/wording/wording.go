// Package wording formats numbers and names for people: with thousands separators, with their noun, clipped to a
// length, or measured in terminal columns. It does not make texts safe to print.
package wording

import (
	"math"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Columns measures texts in terminal columns, the same way in every locale.
var Columns = &runewidth.Condition{StrictEmojiNeutral: true}

type integer interface{ ~int | ~int64 | ~uint64 }

// Count formats a number with thousands separators: "1,234,567".
func Count[I integer](n I) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Short formats a number that changes too fast for its last digits to matter: "12,345", "1.23 M".
func Short(n int64) string {
	if n < 1_000_000 {
		return Count(n)
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + " M"
}

// Bytes formats a size: "812 bytes", "12.3 kB", "4.1 MB".
func Bytes(n int64) string {
	if n < 1000 {
		return Counted(n, "byte")
	}
	size, unit := float64(n)/1e3, "kB"
	for _, larger := range []string{"MB", "GB"} {
		if size < 999.95 {
			break
		}
		size, unit = size/1e3, larger
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + unit
}

// Plain formats a number with at most three decimals and never with an exponent: "0.5", "12000".
func Plain(x float64) string {
	return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64)
}

// Counted formats a number of things: "1 run", "2,000 runs".
func Counted[I integer](n I, one string) string { return Either(n, one, one+"s") }

// Either formats a number with the words for one thing, or for several: "1 line is", "2 lines are".
func Either[I integer](n I, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + several
}

// Clip cuts a text after a number of characters, and appends "…" if it was longer.
func Clip(s string, characters int) string {
	n := 0
	for i := range s {
		if n == characters {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// ShellWord quotes a word if necessary, so that it is safe to paste into a shell.
func ShellWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
