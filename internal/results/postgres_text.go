package results

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// escape begins a stored byte that PostgreSQL's text cannot contain but answers may: NUL, or a byte
// that is not UTF-8. It is stored as escape and two hexadecimal digits, and escape itself is
// doubled. All other text is unchanged.
const escape = "␛" // U+241B

func escapeText(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 && !strings.Contains(text, escape) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 0, r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, escape+"%02x", text[i])
		case text[i:i+size] == escape:
			b.WriteString(escape + escape)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

func unescapeText(text string) (string, error) {
	first, rest, found := strings.Cut(text, escape)
	if !found {
		return text, nil
	}
	var b strings.Builder
	for b.WriteString(first); found; {
		if after, doubled := strings.CutPrefix(rest, escape); doubled {
			b.WriteString(escape)
			rest = after
		} else {
			raw, err := hex.DecodeString(rest[:min(2, len(rest))])
			if err != nil || len(raw) != 1 {
				return "", fmt.Errorf("text column ends with %s and no byte after it", escape)
			}
			b.Write(raw)
			rest = rest[2:]
		}
		var next string
		next, rest, found = strings.Cut(rest, escape)
		b.WriteString(next)
	}
	return b.String(), nil
}

func (postgres) values(args []any) []any {
	values := slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			values[i] = escapeText(arg)
		case stamp:
			values[i] = arg.value()
		}
	}
	return values
}

func (postgres) row(row scanner) scanner { return escapedRow{row} }

type escapedRow struct{ scanner }

func (r escapedRow) Scan(into ...any) error {
	targets := slices.Clone(into)
	for i, target := range into {
		switch target := target.(type) {
		case *string:
			targets[i] = escapedText{func(text sql.NullString) error {
				if !text.Valid {
					return fmt.Errorf("column %d is NULL", i)
				}
				*target = text.String
				return nil
			}}
		case *sql.NullString:
			targets[i] = escapedText{func(text sql.NullString) error { *target = text; return nil }}
		}
	}
	return r.scanner.Scan(targets...)
}

type escapedText struct {
	put func(sql.NullString) error
}

// Scan implements sql.Scanner.
func (t escapedText) Scan(src any) error {
	var text sql.NullString
	if err := text.Scan(src); err != nil {
		return err
	}
	var err error
	if text.String, err = unescapeText(text.String); err != nil {
		return err
	}
	return t.put(text)
}
