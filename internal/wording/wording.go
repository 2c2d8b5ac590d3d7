// Package wording writes numbers and names as people read them: with thousands apart, with their
// noun, clipped to a length, measured in terminal columns. It does not make texts harmless.
package wording

import (
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Columns measures texts in terminal columns, the same way in every locale.
var Columns = &runewidth.Condition{StrictEmojiNeutral: true}

type integer interface{ ~int | ~int64 | ~uint64 }

// Count is a number with its thousands apart: "1,234,567".
func Count[I integer](n I) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Short is a number that changes too fast for its last digits to matter: "12,345", "1.23 M".
func Short(n int64) string {
	if n < 1_000_000 {
		return Count(n)
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + " M"
}

// Counted is a number of things: "1 run", "2,000 runs".
func Counted[I integer](n I, one string) string { return Either(n, one, one+"s") }

// Either is a number with the words for one, or for several: "1 line is", "2 lines are".
func Either[I integer](n I, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + several
}

// Clip cuts a text after some characters, and ends it with "…" if it was longer.
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

// ShellWord makes a word safe to paste into a shell.
func ShellWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`*?[]{}()<>|&;!#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
