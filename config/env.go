package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/joho/godotenv"
)

// DefaultEnvFile is read where it exists when --env-file is not given.
const DefaultEnvFile = ".env"

// WithEnvFile lays the variables of an .env file under env: what env has, wins.
// Nothing is exported to this process or its children. An empty path is
// DefaultEnvFile, which may be absent; a file that was asked for may not. The
// error is of type Problems and never quotes the file, which holds keys.
//
// In the file, "$" expands earlier names of the same file, except within single
// quotes.
func WithEnvFile(env Lookup, path string) (Lookup, error) {
	if path == "" {
		path = DefaultEnvFile
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return env, nil
		}
	}
	var found findings
	text, ok := found.readText(path, maxSettings)
	if !ok {
		return nil, found.problems
	}
	values, err := godotenv.UnmarshalBytes(text)
	if err != nil {
		at := place{file: path, line: failingLine(text)}
		found.refuse(at, "want NAME=value, one a line; quote values with spaces", "this line cannot be read")
		return nil, found.problems
	}
	return func(name string) (string, bool) {
		if value, ok := env(name); ok {
			return value, true
		}
		value, ok := values[name]
		return value, ok
	}, nil
}

// failingLine is the line after the longest readable beginning of an .env file;
// the library's own message quotes the rest of the file instead.
func failingLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := len(lines) - 1; n > 0; n-- {
		if _, err := godotenv.UnmarshalBytes(bytes.Join(lines[:n], nil)); err == nil {
			return n + 1
		}
	}
	return 1
}

// lookup is a variable that is set to something.
func (o Options) lookup(name string) (string, bool) {
	if o.Env == nil {
		return "", false
	}
	value, ok := o.Env(name)
	value = strings.TrimSpace(value)
	return value, ok && value != ""
}
