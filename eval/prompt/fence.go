package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// questionBlock shows the item's question in the same way, because questions often come from data sets and may read
// like instructions.
func questionBlock(question string, data []string) string {
	if strings.TrimSpace(question) == "" {
		return "(No question was given. Judge the text as it stands.)"
	}
	fence := fenceFor(question, data)
	return `<question fence="` + fence + `">` + "\n" + question + "\n" + `</question fence="` + fence + `">`
}

// referenceBlock shows the item's reference answer in the same way.
func referenceBlock(reference string, data []string) string {
	if strings.TrimSpace(reference) == "" {
		return "(No reference answer was given.)"
	}
	fence := fenceFor(reference, data)
	return `<reference fence="` + fence + `">` + "\n" + reference + "\n" + `</reference fence="` + fence + `">`
}

// fieldBlock shows a further field of the item in the same way.
func fieldBlock(name, text string, data []string) string {
	if strings.TrimSpace(text) == "" {
		return "(Not given.)"
	}
	fence := fenceFor(text, data)
	return `<field name="` + html.EscapeString(name) + `" fence="` + fence + `">` + "\n" + text + "\n" + `</field fence="` + fence + `">`
}

// fenceFor derives eight hexadecimal characters from a text, and derives others until they occur nowhere in data. The
// result depends on the other texts only if one of them contains the first choice. The beginning of a prompt
// therefore stays the same, whatever follows.
func fenceFor(text string, data []string) string {
	for attempt := 0; ; attempt++ {
		hash := sha256.New()
		_, _ = io.WriteString(hash, strconv.Itoa(attempt)+" "+text) // never fails
		fence := hex.EncodeToString(hash.Sum(nil)[:4])
		if !slices.ContainsFunc(data, func(shown string) bool { return strings.Contains(shown, fence) }) {
			return fence
		}
	}
}

// printable reports whether a name can be written within a tag and within a line.
func printable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}
