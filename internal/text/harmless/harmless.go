// Package harmless makes text from others safe to show. Answers, documents, names and error messages can contain
// escape sequences that control a terminal. They can also contain characters that hide text or reverse its direction.
// The package does not escape for HTML, CSV or JSON.
package harmless

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Characters that some scripts need to join or separate letters, and that do nothing else.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// OneLine returns a text as one line that is safe to print, without repeated spaces.
func OneLine(text string) string { return strings.Join(strings.Fields(Line(text)), " ") }

// Line returns a text that is safe to print as part of one line. White space becomes spaces. Characters that print
// nothing become U+FFFD, such as C0 and C1 controls, DEL, and direction marks. Letters of all scripts are kept.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return shown(r)
	}, text)
}

// Text does the same as Line, but keeps line feeds and tabs.
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

// IsName reports whether a text can be a name: it is valid UTF-8, and Line changes nothing but the width of spaces.
func IsName(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.Is(unicode.Zs, r) && shown(r) != r })
}

// Formulas are the characters that begin what a spreadsheet takes for a formula. CSV files have an apostrophe before it.
const Formulas = "=+-@\t\r"

// FromCell returns the text of a CSV cell without the apostrophe before a formula.
func FromCell(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.IndexByte(Formulas, cell[1]) >= 0 {
		return cell[1:]
	}
	return cell
}

// Writer passes its input through Text and writes it. JSON stays valid. It is safe for concurrent use.
type Writer struct {
	out io.Writer

	mu   sync.Mutex // guards rest, and keeps writes from interleaving
	rest []byte     // the beginning of a character that two writes split
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Raw returns the underlying writer, for our own escape sequences.
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

// plain reports whether p is printable ASCII, which Text does not change. Nearly all log lines are.
func plain(p []byte) bool {
	for _, c := range p {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}
