package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader reads the JSON object or array at the beginning of a text, and returns it as valid JSON. length is the
// length of the text read. On an error it is that of the tokens read before, at least 1.
type reader func(text string) (value string, length int, err error)

// strictly reads only valid JSON; see reader.
func strictly(text string) (value string, length int, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	for depth := 0; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", max(1, int(decoder.InputOffset())), err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			length = int(decoder.InputOffset())
			return text[:length], length, nil
		}
	}
}

// leniently reads JSON, and accepts faults that have only one meaning; see reader. Within a string, a control
// character, or a backslash without an escape, represents itself. Between tokens, any Unicode space is a blank. A
// comma before a closing bracket is dropped. Strings end, and objects and arrays nest, as in JSON.
func leniently(text string) (value string, length int, err error) {
	s := scanner{text: text}
	err = s.value(0)
	return s.out.String(), max(1, s.end), err
}

// scanner copies a JSON value and repairs it.
type scanner struct {
	text string
	at   int
	end  int // end of the last token
	out  strings.Builder
	key  string // the last key, as it is written
}

// maxDepth is the maximum depth of nesting, as in encoding/json.
const maxDepth = 10_000

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return errors.New("it is nested too deeply")
	}

	switch c := s.peek(); c {
	case 0:
		return s.unexpected("")
	case '"':
		return s.string(false)
	case '{':
		return s.list('}', func() error {
			if s.peek() != '"' {
				return s.unexpected("a key in double quotes")
			}
			if err := s.string(true); err != nil {
				return err
			}
			if s.peek() != ':' {
				return s.unexpected("a colon after the key")
			}
			s.take(1, ":")
			return s.value(depth + 1)
		})
	case '[':
		return s.list(']', func() error { return s.value(depth + 1) })
	}

	rest := s.text[s.at:]
	word := rest[:len(rest)-len(strings.TrimLeft(rest, "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))]
	if !json.Valid([]byte(word)) {
		return s.unexpected("a value")
	}
	s.take(len(word), word)
	return nil
}

// list copies an object or an array, from the opening to the closing bracket.
func (s *scanner) list(closing byte, element func() error) error {
	s.take(1, s.text[s.at:s.at+1])
	for n := 0; s.peek() != closing; n++ {
		if n > 0 {
			s.out.WriteByte(',')
		}
		if err := element(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.take(1, "")
		case closing:
		default:
			return s.unexpected("a comma or the closing bracket")
		}
	}
	s.take(1, string(closing))
	return nil
}

// string copies a string. In a key, it replaces Markdown's \_ by an underscore.
func (s *scanner) string(key bool) error {
	var out strings.Builder
	out.WriteByte('"')
	rest := s.text[s.at:]
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			out.WriteByte('"')
			if key {
				s.key = rest[:i+1]
			}
			s.take(i+1, out.String())
			return nil
		case c == '\\' && i+1 < len(rest) && escape(rest[i+1:]):
			out.WriteString(rest[i : i+2])
			i++
		case c == '\\' && key && strings.HasPrefix(rest[i:], `\_`):
		case c == '\\':
			out.WriteString(`\\`)
		case c < ' ':
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			out.WriteByte(c)
		}
	}

	return io.ErrUnexpectedEOF
}

// escape reports whether a backslash before the text begins a JSON escape.
func escape(text string) bool {
	if text[0] != 'u' {
		return strings.IndexByte(`"\/bfnrt`, text[0]) >= 0
	}
	return len(text) >= 5 && strings.Trim(text[1:5], "0123456789abcdefABCDEF") == ""
}

// peek returns the next byte that is not blank; 0 at the end.
func (s *scanner) peek() byte {
	rest := s.text[s.at:]
	s.at += len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }))
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// take skips a token of the text, and writes another text for it.
func (s *scanner) take(length int, written string) {
	s.out.WriteString(written)
	s.at += length
	s.end = s.at
}

// unexpected returns an error that says what was found instead of want.
func (s *scanner) unexpected(want string) error {
	if s.at == len(s.text) {
		return io.ErrUnexpectedEOF
	}
	found := s.text[s.at:]
	for i := range found {
		if utf8.RuneCountInString(found[:i]) == 20 {
			found = found[:i] + "…"
			break
		}
	}
	where := ""
	if s.key != "" {
		where = " behind the key " + shorten(s.key)
	}
	return fmt.Errorf("%s is missing%s, before %s; a double quote within a string is written \\\"", want, where, quote(found))
}
