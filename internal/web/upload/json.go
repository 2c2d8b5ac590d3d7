package upload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// json unpacks {"files": {"path": "text"}}. It reads token by token, and keeps no more of the
// upload in memory than a name.
func (t *target) json(r io.Reader) error {
	in := jsonReader{bufio.NewReaderSize(r, 64<<10)}
	err := in.object(func(key string) error {
		if key != "files" {
			return fmt.Errorf("unknown key %s: want only \"files\"", quoted(key))
		}
		return in.object(func(name string) error {
			if err := t.count(); err != nil {
				return err
			}
			if err := in.want('"'); err != nil {
				return err
			}
			return t.write(name, &jsonText{from: in.Reader})
		})
	})
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(errors.New("read JSON: want nothing after the object"), err)
	}
	return nil
}

// jsonReader reads the parts of JSON that an upload consists of.
type jsonReader struct{ *bufio.Reader }

// object reads an object. It calls each to read the value of each key.
func (in jsonReader) object(each func(key string) error) error {
	if err := in.want('{'); err != nil {
		return err
	}
	c, err := in.next()
	for err == nil && c != '}' {
		if c != '"' {
			return fmt.Errorf("got %q, want a key", c)
		}
		key, err := in.key()
		if err != nil {
			return err
		}
		if err := in.want(':'); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}

		if c, err = in.next(); err != nil || c == '}' {
			return err
		}
		if c != ',' {
			return fmt.Errorf("got %q, want a comma or the end of the object", c)
		}
		if c, err = in.next(); err != nil {
			return err
		}
		if c == '}' {
			return errors.New("got '}' after a comma, want a key")
		}
	}
	return err
}

// key reads a string that may be a path, after its opening quote.
func (in jsonReader) key() (string, error) {
	name, err := io.ReadAll(io.LimitReader(&jsonText{from: in.Reader}, maxName+1))
	if err == nil && len(name) > maxName {
		err = tooLongName(string(name))
	}
	return string(name), err
}

// want reads a character, which must be c.
func (in jsonReader) want(c byte) error {
	got, err := in.next()
	if err == nil && got != c {
		err = fmt.Errorf("got %q, want %q", got, c)
	}
	return err
}

// next returns the next character that is not white space.
func (in jsonReader) next() (byte, error) {
	for {
		switch c, err := in.ReadByte(); {
		case err != nil:
			return 0, unexpected(err)
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			return c, nil
		}
	}
}

// jsonText reads the decoded text of a JSON string, from after its opening quote up to its closing
// one. As in encoding/json, bytes that are not UTF-8 and half surrogate pairs become the
// replacement character.
type jsonText struct {
	from    *bufio.Reader
	pending []byte
	ended   bool
}

// Read implements io.Reader. It fills p, so that a text of escapes is not written byte by byte.
func (s *jsonText) Read(p []byte) (n int, err error) {
	for n < len(p) && (!s.ended || len(s.pending) > 0) {
		if len(s.pending) > 0 {
			copied := copy(p[n:], s.pending)
			n, s.pending = n+copied, s.pending[copied:]
			continue
		}
		if plain := s.plain(p[n:]); plain > 0 {
			n += plain
			continue
		}
		if err := s.special(); err != nil {
			return n, err
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// plain reads the buffered characters that stand for themselves.
func (s *jsonText) plain(p []byte) int {
	buffered, _ := s.from.Peek(min(s.from.Buffered(), len(p)))
	n := bytes.IndexFunc(buffered, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= utf8.RuneSelf })
	if n < 0 {
		n = len(buffered)
	}
	copy(p, buffered[:n])
	_, _ = s.from.Discard(n)
	return n
}

// special reads the next character of any kind.
func (s *jsonText) special() error {
	r, _, err := s.from.ReadRune()
	switch {
	case err != nil:
		return unexpected(err)
	case r == '"':
		s.ended = true
		return nil
	case r < ' ':
		return fmt.Errorf("control character %q in a string", r)
	case r == '\\':
		if r, err = s.escaped(); err != nil {
			return err
		}
	}
	s.pending = utf8.AppendRune(s.pending[:0], r)
	return nil
}

// escapes maps the letter after a backslash to the character that it means.
var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads what follows a backslash.
func (s *jsonText) escaped() (rune, error) {
	c, err := s.from.ReadByte()
	if err != nil {
		return 0, unexpected(err)
	}
	if c != 'u' {
		if r, ok := escapes[c]; ok {
			return r, nil
		}
		return 0, fmt.Errorf("invalid escape %q in a string", `\`+string(rune(c)))
	}
	digits, err := s.from.Peek(4)
	if err != nil {
		return 0, unexpected(err)
	}

	r, ok := hex(digits)
	if !ok {
		return 0, fmt.Errorf("invalid escape %q in a string", `\u`+string(digits))
	}
	_, _ = s.from.Discard(4)
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	other, err := s.from.Peek(6)
	if err == nil && other[0] == '\\' && other[1] == 'u' {
		second, _ := hex(other[2:])
		if pair := utf16.DecodeRune(r, second); pair != unicode.ReplacementChar {
			_, _ = s.from.Discard(6)
			return pair, nil
		}
	}

	return unicode.ReplacementChar, nil
}

func hex(digits []byte) (r rune, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unexpected returns a read error, with io.ErrUnexpectedEOF in place of io.EOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
