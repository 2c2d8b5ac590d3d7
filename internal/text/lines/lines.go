// Package lines writes text for a terminal in lines of at most a number of columns: paragraphs, labelled entries and
// tables. It knows nothing about terminals, and does not interpret the text.
package lines

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// The styles are ECMA-48 "select graphic rendition" parameters.
const (
	Plain  = ""
	Bold   = "1"
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// LabelWidth is the width of the labels of entries, in columns.
const LabelWidth = 9

// Writer writes lines of at most Width columns. It remembers the first error, which Flush returns.
type Writer struct {
	Width  int
	Colour bool

	w      *bufio.Writer
	styled string // style of wrapped lines
}

// New returns a writer to w.
func New(w io.Writer, width int, colour bool) *Writer {
	return &Writer{Width: width, Colour: colour, w: bufio.NewWriter(w)}
}

// Flush writes what is buffered, and returns the first error.
func (o *Writer) Flush() error { return o.w.Flush() }

// Print writes one line, cut to the width.
func (o *Writer) Print(style, text string) {
	text = wording.Columns.Truncate(harmless.Line(text), o.Width, "…")
	if o.Colour && style != Plain {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	_, _ = o.w.WriteString(text + "\n") // Flush returns the error
}

// Blank writes an empty line.
func (o *Writer) Blank() { o.Print(Plain, "") }

// Heading writes a line in bold.
func (o *Writer) Heading(text string) { o.Print(Bold, text) }

// Entry writes a labelled text, wrapped between words.
func (o *Writer) Entry(label, text, style string) {
	before := o.styled
	o.styled = style
	o.Wrap(fmt.Sprintf("%-*s", LabelWidth, label), text)
	o.styled = before
}

// Path writes a labelled text that can be copied, so it is not wrapped. If it does not fit beside its label, it gets
// its own line, of any width.
func (o *Writer) Path(label, text string) {
	if LabelWidth+wording.Columns.StringWidth(text) <= o.Width {
		o.Entry(label, text, Plain)
		return
	}
	o.Print(Plain, label)
	_, _ = o.w.WriteString(harmless.Line(text) + "\n")
}

// Line writes a text, wrapped between words.
func (o *Writer) Line(text string) { o.Wrap("", text) }

// Item writes an entry of a list.
func (o *Writer) Item(text string) { o.Wrap("- ", text) }

// Wrap writes a text after a mark, and indents the following lines by the width of the mark. A word that is wider
// than a line is shortened in its middle.
func (o *Writer) Wrap(mark, text string) { o.flow(mark, " ", wordsOf(text)) }

// wordsOf splits a text at spaces. "95 %" stays one word.
func wordsOf(text string) []string {
	var words []string
	for word := range strings.SplitSeq(text, " ") {
		if n := len(words); n > 0 && strings.HasPrefix(word, "%") {
			words[n-1] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

// Cells writes the non-empty cells after a mark, separated by dots. A cell that does not fit begins the next line.
func (o *Writer) Cells(mark string, cells ...string) {
	o.flow(mark, " · ", slices.DeleteFunc(slices.Clone(cells), func(cell string) bool { return cell == "" }))
}

// flow writes parts after a mark, as many on each line as fit.
func (o *Writer) flow(mark, between string, parts []string) {
	indent := strings.Repeat(" ", wording.Columns.StringWidth(mark))
	current, begun := mark, false
	for _, part := range parts {
		if begun && wording.Columns.StringWidth(current+between+part) > o.Width {
			o.Print(o.styled, current)
			current, begun = indent, false
		}
		if begun {
			current += between
		}
		current += harmless.Short(part, o.Width-len(indent))
		begun = true
	}
	o.Print(o.styled, current)
}

// Fold wraps the lines of a text that are wider than the given number of columns, between words if possible. It loses
// no text, and indents the rest of a line as much as the line.
func Fold(text string, columns int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if len(indent) > columns/2 {
			indent = ""
		}
		for wording.Columns.StringWidth(line) > columns {
			head := wording.Columns.Truncate(line, columns+1, "")
			if at := strings.LastIndexByte(head, ' '); at > len(indent) {
				head = head[:at]
			} else {
				head = wording.Columns.Truncate(line, columns, "")
			}
			out.WriteString(strings.TrimRight(head, " ") + "\n")
			line = indent + strings.TrimLeft(line[len(head):], " ")
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// Message wraps the lines of a message that are wider than the given number of columns, between words, and indents
// the rest. Texts to copy are not wrapped, even if they are wider than a line. These are paths, and commands in
// backquotes or after ": evalfleet".
func Message(text string, columns int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  "
		for i, word := range messageWords(line) {
			switch {
			case i == 0:
				line = word
			case wording.Columns.StringWidth(line+" "+word) > columns:
				out.WriteString(line + "\n")
				line = indent + word
			default:
				line += " " + word
			}
		}
		out.WriteString(line)
		if ended {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// messageWords splits a line as wordsOf does, but keeps each command as one word.
func messageWords(line string) []string {
	line, command, ends := strings.Cut(line, ": evalfleet ")
	var words []string
	for i, part := range strings.Split(line, "`") {
		split := wordsOf(part)
		if i%2 == 1 {
			split = []string{part}
		}
		if i > 0 {
			words[len(words)-1] += "`" + split[0]
			split = split[1:]
		}
		words = append(words, split...)
	}

	if ends {
		command, rest, more := strings.Cut("evalfleet "+command, "; ")
		words[len(words)-1] += ":"
		words = append(words, command)
		if more {
			words[len(words)-1] += ";"
			words = append(words, messageWords(rest)...)
		}
	}

	return words
}
