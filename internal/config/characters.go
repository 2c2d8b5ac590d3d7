package config

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// halfCharacter returns the offset of the first escape in JSON that is half of a surrogate pair
// without the other half; -1 if there is none. JSON decoders silently replace such an escape with
// another character.
func halfCharacter(line []byte) int {
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		first, ok := escaped(line[i:])
		if !ok {
			i++ // another escape, such as a backslash
			continue
		}
		if utf16.IsSurrogate(first) {
			if second, ok := escaped(line[i+6:]); !ok || utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return i
			}
			i += 6
		}
		i += 5
	}
	return -1
}

// escaped returns the code unit of the \uXXXX with which text begins; ok is false if it does not.
func escaped(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// reason returns why a line is not an object.
func reason(err error) string {
	switch {
	case err == nil:
		return "got null"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the line ends within it"
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return "got " + kind.Value
	}
	return err.Error()
}
