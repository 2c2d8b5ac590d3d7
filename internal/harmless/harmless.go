// Package harmless makes texts of others harmless to show: answers, documents, names and
// error messages can contain escape sequences that steer a terminal, and characters
// that hide text or reverse its direction. It does not escape for HTML, CSV or JSON.
package harmless

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Joiners that some scripts need, and that do nothing else.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// OneLine is harmless text in one line, without repeated spaces.
func OneLine(text string) string { return strings.Join(strings.Fields(Line(text)), " ") }

// Line returns a text as part of one line: white space becomes spaces, and characters
// that print nothing become U+FFFD, among them C0 and C1 controls, DEL, and marks of
// direction. Letters of all scripts stay.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return shown(r)
	}, text)
}

// Text is like Line, and keeps line feeds and tabs.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return shown(r)
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

func shown(r rune) rune {
	if unicode.IsPrint(r) || r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return r
	}
	return unicode.ReplacementChar
}

// IsName reports whether a text can be a name: it is valid UTF-8, and Line returns it as it is,
// but for spaces of other widths.
func IsName(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.Is(unicode.Zs, r) && shown(r) != r })
}

// Writer passes on its input as Text does, which also keeps JSON valid. It is safe for
// concurrent use.
type Writer struct {
	out io.Writer

	mu   sync.Mutex // guards rest, and keeps writes apart
	rest []byte     // the beginning of a character that was split between two writes
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Raw returns what the writer writes to. Escape sequences of our own go there.
func (w *Writer) Raw() io.Writer { return w.out }

func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 && plain(p) {
		return w.out.Write(p)
	}
	whole := append(w.rest, p...)
	end := len(whole)
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if last := whole[end-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= back
			}
			break
		}
	}
	w.rest = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(w.out, Text(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain reports whether Text would return p as it is because p is printable ASCII, as nearly
// every line of a log is.
func plain(p []byte) bool {
	for _, c := range p {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}
