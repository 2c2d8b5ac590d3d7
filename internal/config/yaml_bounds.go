package config

import (
	"errors"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxMarks bounds the brackets, commas, colons and quotes of a file: each can be a token, which
	// takes a few hundred bytes.
	maxMarks = 1_000_000
	// firstTokens is how many bytes of a text are split into tokens first. Most texts that are
	// refused are refused because of their beginning.
	firstTokens = 64 << 10
)

// tokensOf splits a text into tokens. It refuses texts that the parser would take too long for: its
// time and memory grow with the square of the depth.
func tokensOf(text []byte) (token.Tokens, error) {
	marks := 0
	for _, c := range text {
		switch c {
		case '[', ']', '{', '}', ',', ':', '"', '\'':
			marks++
		}
	}
	if marks > maxMarks {
		return nil, errors.New("too many values: more than 1,000,000 brackets, commas, colons and quotes")
	}
	for size := firstTokens; ; size *= 2 {
		tokens := lexer.Tokenize(string(text[:min(size, len(text))]))
		if err := checkTokens(tokens); err != nil || size >= len(text) {
			return tokens, err
		}
	}
}

// checkTokens bounds how deep values are nested: in brackets, and on one line by dashes, question
// marks and colons.
func checkTokens(tokens token.Tokens) error {
	flow, line, onLine := 0, 0, 0
	quoted := false
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine, quoted = t.Position.Line, 0, false
		}
		wasQuoted := quoted
		quoted = false
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			onLine++
		case token.MappingValueType:
			if flow == 0 {
				onLine++
			}
		case token.DoubleQuoteType, token.SingleQuoteType:
			quoted = true
			if wasQuoted {
				return errors.New("two quoted strings with nothing between them")
			}
		}
		if flow > maxNesting || onLine > maxNesting {
			return errTooDeep
		}
	}

	return nil
}
